// The offline model: a scripted adapter that needs no API key and no network. It describes itself, echoes the user's
// message, and calls the tools that the message names. Its reply depends on the request alone, so the tests of the
// command use it too.

import type { Adapter, FakeStep, Json, JsonObject, Message, ModelRequest } from "everturn";

import { fake } from "everturn";

import { sampleOf } from "./schema-sample.ts";

export type OfflineOptions = {
  /** The delay between two words, in milliseconds; 0: no delay. */
  readonly paceMs: number;
};

/** Creates the adapter of the offline model. Its usage counts words in place of tokens. */
export function offline({ paceMs }: OfflineOptions): Adapter {
  return {
    provider: "offline",
    stream: (request, call) => {
      const script = wordByWord(answerTo(request), paceMs);
      const usage = {
        inputTokens: countWords(request),
        outputTokens: script.filter(({ type }) => type !== "delay").length,
      };
      return fake({ provider: "offline", script, usage }).stream(request, call);
    },
  };
}

/**
 * The steps of a reply, with complete texts. In this order: calls of named tools, structured output, a report of tool
 * results, the requested failure, an echo with optional reasoning.
 */
function answerTo(request: ModelRequest): readonly FakeStep[] {
  const { messages, responseFormat } = request;
  const results = resultsAtEnd(messages);
  const last = messages.at(-1);
  const userText = last === undefined ? "" : messageText(last);
  if (results.length === 0) {
    const calls = callsIn(userText, request);
    if (calls.length > 0) return calls;
  }
  if (responseFormat?.type === "json_schema") return [text(JSON.stringify(sampleOf(responseFormat.schema)))];
  if (responseFormat?.type === "json_object") return [text(JSON.stringify({ text: userText }))];
  if (results.length > 0) return [text(reportResults(messages, results))];
  if (/\bfail\b/i.test(userText)) {
    const message = "the offline model was asked to fail";
    return [{ type: "error", reason: "invalid_request", message, retryable: false }];
  }
  const reasoning: readonly FakeStep[] = /\bthink\b/i.test(userText)
    ? [
        {
          type: "reasoning",
          text: "The user asked for reasoning. The offline model does not reason; this text is part of its script.",
        },
      ]
    : [];
  return [...reasoning, text(reply(userText, request))];
}

function reply(userText: string, request: ModelRequest): string {
  if (/\bmarkdown\b/i.test(userText)) return markdown;
  const isFirst = request.messages.filter(({ role }) => role === "user").length === 1;
  if (userText === "") return "Your message is empty.";
  const echo = `You said: ${userText}`;
  return isFirst || /\bhelp\b/i.test(userText) ? `${echo}\n\n${introduction(request)}` : echo;
}

function introduction({ tools }: ModelRequest): string {
  const names = tools.map(({ name }) => `\`${name}\``).join(", ");
  const toolHint = names === "" ? "" : ` Mention one of these tools and I will call it: ${names}.`;
  return (
    "I am the offline model: a script, not a language model. I repeat your messages." +
    `${toolHint} Write \`markdown\` for an example of Markdown.\n\n` +
    "For a real model, set `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `GEMINI_API_KEY`, or choose a local one: `--model ollama:llama3.3`."
  );
}

const markdown = `# Markdown

Some **bold**, some *italic*, some \`code\`, and a [link](https://example.com).

1. First
2. Second
   - with a point below it

> Quoted, and quoted again.

| tool | what it does |
| --- | --- |
| \`clock\` | tells the time |
| \`launch\` | needs your approval |

\`\`\`ts
const answer = 6 * 7;
\`\`\`

End of the example.`;

function reportResults(messages: readonly Message[], results: readonly Extract<Message, { role: "tool" }>[]): string {
  const names = new Map(
    messages.flatMap((message) =>
      message.role === "assistant" ? message.toolCalls.map(({ id, name }): [string, string] => [id, name]) : [],
    ),
  );
  const lines = results.map((result) => `- \`${names.get(result.toolCallId) ?? "tool"}\`: ${messageText(result)}`);
  return `${results.length === 1 ? "The tool" : `The ${results.length} tools`} returned:\n\n${lines.join("\n")}`;
}

/**
 * The results of the newest tool calls; empty if a user message follows them. A tool's question to the user may stand
 * between a result and the end.
 */
function resultsAtEnd(messages: readonly Message[]): readonly Extract<Message, { role: "tool" }>[] {
  const lastInput = messages.findLastIndex(({ role }) => role === "user" || role === "event");
  const lastCalls = messages.findLastIndex((message) => message.role === "assistant" && message.toolCalls.length > 0);
  return lastCalls < lastInput ? [] : messages.slice(lastCalls + 1).filter((message) => message.role === "tool");
}

/**
 * Calls of the tools that a text names, each with the JSON object that follows its name, or with sample arguments for
 * its schema.
 */
function callsIn(userText: string, { tools, toolChoice, messages }: ModelRequest): readonly FakeStep[] {
  if (toolChoice === "none") return [];
  return tools
    .map((tool) => ({ tool, at: indexOfWord(tool.name, userText) }))
    .filter(({ at }) => at !== -1)
    .toSorted((a, b) => a.at - b.at)
    .map(({ tool: { name, schema }, at }, index): FakeStep => {
      const writtenArgs = objectAt(userText.slice(at + name.length));
      const sampleArgs = sampleOf(schema);
      const args = writtenArgs ?? (isObject(sampleArgs) ? sampleArgs : {});
      // Deterministic, and unique within a conversation.
      return { type: "tool_call", name, id: `call_${messages.length}_${index}`, arguments: args };
    });
}

/** The index of a name as a whole word, in any letter case; -1: not in the text. */
function indexOfWord(name: string, userText: string): number {
  const words = new RegExp(`(?<![\\w-])${name.replaceAll(/[^\w]/g, String.raw`\$&`)}(?![\\w-])`, "i");
  return words.exec(userText)?.index ?? -1;
}

/**
 * The JSON object at the beginning of a text; `null`: none. Quadratic in the number of closing braces, for short texts
 * that a user types.
 */
function objectAt(text: string): JsonObject | null {
  const trimmed = text.trimStart();
  if (!trimmed.startsWith("{")) return null;
  for (let end = trimmed.indexOf("}"); end !== -1; end = trimmed.indexOf("}", end + 1)) {
    try {
      const value: Json = JSON.parse(trimmed.slice(0, end + 1));
      return isObject(value) ? value : null;
    } catch {
      // This `}` closes an inner object: try the next one.
    }
  }
  return null;
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(text: string): FakeStep {
  return { type: "text", text };
}

/** Splits texts into words, each after a delay. */
function wordByWord(steps: readonly FakeStep[], paceMs: number): readonly FakeStep[] {
  return steps.flatMap((step): readonly FakeStep[] => {
    if (step.type !== "text" && step.type !== "reasoning") return [step];
    return (step.text.match(/\S+\s*|\s+/g) ?? []).flatMap((word): readonly FakeStep[] => [
      ...(paceMs > 0 ? [{ type: "delay", ms: paceMs } as const] : []),
      { type: step.type, text: word },
    ]);
  });
}

function messageText({ content }: Message): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("");
}

/** The number of words of all messages, reported as input tokens. */
function countWords({ messages }: ModelRequest): number {
  return messages.reduce((sum, message) => sum + messageText(message).split(/\s+/).filter(Boolean).length, 0);
}
