// History as a model gets to read it. History itself never changes: this is a view, made anew for each request and the same every
// time (K6). A message that needs no change is handed on as it is, so whoever encodes it can remember what it encoded by identity.
//
//   - What the runtime says (a system message with an origin) and what happened (role `event`) are marked as such; the caller's own
//     system messages are handed on verbatim.
//   - Pruned content shows the mark its pruning left.
//   - Reasoning goes back only with the data its provider wants to see again, and never as text.
//   - Results stand at their calls, in call order, wherever in history they were written down (Q4).

import type { AssistantMessage, Message, Part, TextPart, ToolMessage, UserPart } from "../model/index.ts";

import { system, textPart, user, visibleText } from "../model/index.ts";

/** The messages of a request, from the messages of a history. */
export function renderPrompt(history: readonly Message[]): readonly Message[] {
  return placeResults(history).flatMap((message) => {
    const shown = rendered(message);
    return shown === null ? [] : [shown];
  });
}

// Rendering is asked for the whole history at every step: each message is worked out once.
const memory = new WeakMap<Message, { readonly shown: Message | null }>();

function rendered(message: Message): Message | null {
  const known = memory.get(message);
  if (known !== undefined) return known.shown;
  const shown = render(message);
  memory.set(message, { shown });
  return shown;
}

/** The message as a model sees it; `null` when there is nothing left to see. */
function render(message: Message): Message | null {
  switch (message.role) {
    case "user":
      return renderContent(message, message.content);
    case "tool":
      return renderContent(message, message.content) ?? { ...message, content: "" };
    case "assistant":
      return renderAssistant(message);
    case "system": {
      const text = noticeText(message.content);
      if (text === "") return null;
      if (message.origin !== null) return system(`Runtime note:\n${text}`);
      return text === message.content ? message : { ...message, content: text };
    }
    case "event": {
      const text = noticeText(message.content);
      return text === "" ? null : user(`Runtime event:\n${text}`);
    }
  }
}

function renderContent<M extends Extract<Message, { role: "user" | "tool" }>>(
  message: M,
  content: string | readonly UserPart[],
): M | null {
  if (typeof content === "string") return content.trim() === "" ? null : message;
  const parts = content.map(visiblePart).filter(isVisible);
  if (parts.length === 0) return null;
  return sameParts(parts, content) ? message : { ...message, content: parts };
}

function renderAssistant(message: AssistantMessage): AssistantMessage | null {
  const { content, toolCalls } = message;
  if (typeof content === "string") return content.trim() === "" && toolCalls.length === 0 ? null : message;
  const parts = content.map(visiblePart).filter(isVisible);
  if (parts.length === 0 && toolCalls.length === 0) return null;
  return sameParts(parts, content) ? message : { ...message, content: parts };
}

/** The part as it may be seen: pruned content is replaced by the mark it left. */
function visiblePart<P extends Part>(part: P): P | TextPart {
  if (!("pruneState" in part) || part.pruneState === null) return part;
  const text = part.type === "text" ? part.text : "";
  return textPart(visibleText(text, part.pruneState), { provider: part.provider });
}

/** Blank text says nothing, and reasoning without what its provider wants back cannot be sent. */
function isVisible(part: Part): boolean {
  if (part.type === "text") return part.text.trim() !== "";
  return part.type !== "reasoning" || part.provider !== null;
}

function sameParts(left: readonly Part[], right: readonly Part[]): boolean {
  return left.length === right.length && left.every((part, index) => part === right[index]);
}

/** Notices are one text, with output and errors in tags of their own. */
function noticeText(content: string | readonly TextPart[]): string {
  if (typeof content === "string") return content.trim() === "" ? "" : content;
  return content
    .map(({ text, kind, pruneState }) => tagged(visibleText(text, pruneState), kind))
    .filter((text) => text.trim() !== "")
    .join("\n\n");
}

function tagged(text: string, kind: TextPart["kind"]): string {
  if (text.trim() === "" || (kind !== "output" && kind !== "error")) return text;
  return `<${kind}>\n${text}\n</${kind}>`;
}

/** Moves every result to its call. Ids repeat across replies, so a result belongs to the oldest open call of its id. */
function placeResults(history: readonly Message[]): readonly Message[] {
  const answers = new Map<AssistantMessage, (ToolMessage | null)[]>();
  const open = new Map<string, { readonly asked: AssistantMessage; readonly slot: number }[]>();
  const placed = new Set<ToolMessage>();
  for (const message of history) {
    if (message.role === "assistant" && message.toolCalls.length > 0) {
      answers.set(
        message,
        message.toolCalls.map(() => null),
      );
      for (const [slot, { id }] of message.toolCalls.entries()) {
        const calls = open.get(id);
        if (calls === undefined) open.set(id, [{ asked: message, slot }]);
        else calls.push({ asked: message, slot });
      }
    }
    const call = message.role === "tool" ? open.get(message.toolCallId)?.shift() : undefined;
    if (message.role !== "tool" || call === undefined) continue;
    answers.get(call.asked)?.splice(call.slot, 1, message);
    placed.add(message);
  }
  if (placed.size === 0) return history;
  return history.flatMap((message): readonly Message[] => {
    if (message.role === "tool") return placed.has(message) ? [] : [message];
    const results = message.role === "assistant" ? answers.get(message) : undefined;
    return results === undefined ? [message] : [message, ...results.filter((result) => result !== null)];
  });
}
