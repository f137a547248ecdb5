// Renders the messages of a session, for the terminal and as a Markdown file.

import type { Colours } from "../terminal/style.ts";
import type { Message } from "everturn";

import { messageText } from "everturn";

import { brief } from "../commands/text.ts";
import { fit } from "../terminal/cells.ts";
import { wrap } from "../terminal/flow.ts";
import { renderMarkdown } from "../terminal/markdown.ts";
import { safeText } from "../terminal/safe-text.ts";
import { plain } from "../terminal/style.ts";
import { calledText } from "./tool-lines.ts";

export type TranscriptOptions = {
  readonly width: number;
  readonly colours: Colours;
  /** Lines between the messages, by the index of the message that they precede. Default: none. */
  readonly notes?: ReadonlyMap<number, string>;
};

export const promptSign = "› ";

/** Renders messages as the chat showed them live; tool results are shortened. */
export function renderTranscript(messages: readonly Message[], options: TranscriptOptions): string {
  const calls = callsById(messages);
  let isAfterTool = false;
  const blocks = messages.map((message, index) => {
    const note = noteBefore(index, options);
    const block = renderMessage(message, calls, options);
    if (block === "") return note;
    const gap = message.role === "tool" && isAfterTool && note === "" ? "" : "\n";
    isAfterTool = message.role === "tool";
    return note + gap + block;
  });
  return [...blocks, noteBefore(messages.length, options)].join("");
}

/** The line before the message of an index; empty: there is none. */
function noteBefore(index: number, { width, colours, notes }: TranscriptOptions): string {
  const note = notes?.get(index) ?? "";
  return note === "" ? "" : `\n${colours.dim(wrap(`── ${safeText(note)}`, width))}\n`;
}

type Calls = ReadonlyMap<string, Extract<Message, { role: "assistant" }>["toolCalls"][number]>;

function callsById(messages: readonly Message[]): Calls {
  return new Map(
    messages.flatMap((message) =>
      message.role === "assistant" ? message.toolCalls.map((call) => [call.id, call] as const) : [],
    ),
  );
}

function renderMessage(message: Message, calls: Calls, { width, colours }: TranscriptOptions): string {
  const text = messageText(message);
  switch (message.role) {
    case "system":
      return "";
    case "user":
      return userLines(text, width, colours);
    case "event":
      return `${colours.dim(wrap(`• ${safeText(text)}`, width))}\n`;
    case "assistant":
      return text.trim() === "" ? "" : renderMarkdown(text, { width, colours: colours.enabled });
    case "tool": {
      const call = calls.get(message.toolCallId);
      const name = calledText(
        call?.name ?? message.name ?? "tool",
        message.ranArguments ?? call?.arguments ?? {},
        colours,
      );
      const sign = message.status === "success" ? colours.green("✓") : colours.red("✗");
      return `${fit(`${sign} ${name} ${colours.dim(`→ ${brief(text, 60)}`)}`, width)}\n`;
    }
  }
}

/** A user message, after the prompt sign and with indented continuation lines. */
function userLines(text: string, width: number, colours: Colours): string {
  const below = [{ text: "  ", style: plain }];
  const lines = wrap(safeText(text), width, { first: below, rest: below });
  return `${colours.cyan(promptSign)}${lines.slice(promptSign.length)}\n`;
}

/** Renders the conversation as a Markdown file. */
export function toMarkdown(messages: readonly Message[]): string {
  const calls = callsById(messages);
  return messages
    .flatMap((message): readonly string[] => {
      const text = messageText(message);
      if (message.role === "tool") {
        const { name, arguments: args } = calls.get(message.toolCallId) ?? { name: "tool", arguments: {} };
        const ran = message.ranArguments ?? args ?? {};
        return [`### ${name} (${message.status})`, codeBlock(JSON.stringify(ran, null, 2)), codeBlock(text)];
      }
      return text.trim() === "" ? [] : [`## ${headings[message.role]}`, text.trim()];
    })
    .join("\n\n")
    .concat("\n");
}

const headings = { system: "Instructions", user: "User", assistant: "Assistant", event: "Event" } as const;

/** A Markdown code block. Its marker is longer than any run of backticks in the text, so the text cannot close it. */
function codeBlock(text: string): string {
  const longest = Math.max(0, ...(text.match(/`+/g) ?? []).map(({ length }) => length));
  const marker = "`".repeat(Math.max(3, longest + 1));
  return `${marker}\n${text}\n${marker}`;
}
