// A model that needs no key and no network: it says what it is, repeats what it was told, and calls the tools that it is told to call. The same words
// give the same answer, so it is also what the command is tested with.

import type { Adapter, FakeStep, Json, JsonObject, Message, ModelRequest } from "everturn";

import { fake } from "everturn";

import { sampleOf } from "./schema-sample.ts";

export type OfflineOptions = {
  /** Milliseconds between two words; 0: all at once. */
  readonly paceMs: number;
};

/** The offline model. What it says is decided by the request alone. */
export function offline({ paceMs }: OfflineOptions): Adapter {
  return {
    provider: "offline",
    stream: (request, call) => {
      const script = spoken(answerTo(request), paceMs);
      const usage = {
        inputTokens: wordsIn(request),
        outputTokens: script.filter(({ type }) => type !== "delay").length,
      };
      return fake({ provider: "offline", script, usage }).stream(request, call);
    },
  };
}

/** What it does: a few steps, with whole texts. */
function answerTo(request: ModelRequest): readonly FakeStep[] {
  const { messages, responseFormat } = request;
  const results = resultsAtEnd(messages);
  const last = messages.at(-1);
  const said = last === undefined ? "" : textOf(last);
  if (results.length === 0) {
    const calls = callsIn(said, request);
    if (calls.length > 0) return calls;
  }
  if (responseFormat?.type === "json_schema") return [text(JSON.stringify(sampleOf(responseFormat.schema)))];
  if (responseFormat?.type === "json_object") return [text(JSON.stringify({ said }))];
  if (results.length > 0) return [text(reported(messages, results))];
  if (/\bfail\b/i.test(said)) {
    const message = "the offline model was told to fail";
    return [{ type: "error", reason: "invalid_request", message, retryable: false }];
  }
  const thought: readonly FakeStep[] = /\bthink\b/i.test(said)
    ? [
        {
          type: "reasoning",
          text: "The user wants to see me think. I have no thoughts; this is one that was written down for me.",
        },
      ]
    : [];
  return [...thought, text(reply(said, request))];
}

function reply(said: string, request: ModelRequest): string {
  if (/\bmarkdown\b/i.test(said)) return markdown;
  const isFirst = request.messages.filter(({ role }) => role === "user").length === 1;
  if (said === "") return "You said nothing.";
  const echo = `You said: ${said}`;
  return isFirst || /\bhelp\b/i.test(said) ? `${echo}\n\n${introduction(request)}` : echo;
}

function introduction({ tools }: ModelRequest): string {
  const names = tools.map(({ name }) => `\`${name}\``).join(", ");
  const offer = names === "" ? "" : ` Name one of my tools and I will call it: ${names}.`;
  return (
    "I am a scripted stand-in, not a language model: I repeat what you say." +
    `${offer} Say \`markdown\` to see some.\n\n` +
    "For a real model, set `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `GEMINI_API_KEY`, or name one: `--model ollama:llama3.3`."
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
| \`launch\` | waits for consent |

\`\`\`ts
const answer = 6 * 7;
\`\`\`

That was all of it.`;

function reported(messages: readonly Message[], results: readonly Extract<Message, { role: "tool" }>[]): string {
  const names = new Map(
    messages.flatMap((message) =>
      message.role === "assistant" ? message.toolCalls.map(({ id, name }): [string, string] => [id, name]) : [],
    ),
  );
  const lines = results.map((result) => `- \`${names.get(result.toolCallId) ?? "tool"}\`: ${textOf(result)}`);
  return `${results.length === 1 ? "The tool" : `The ${results.length} tools`} answered:\n\n${lines.join("\n")}`;
}

/** What the newest calls were answered, unless the user has said something since. A question that a tool asked may stand behind its answer. */
function resultsAtEnd(messages: readonly Message[]): readonly Extract<Message, { role: "tool" }>[] {
  const said = messages.findLastIndex(({ role }) => role === "user" || role === "event");
  const called = messages.findLastIndex((message) => message.role === "assistant" && message.toolCalls.length > 0);
  return called < said ? [] : messages.slice(called + 1).filter((message) => message.role === "tool");
}

/** The tools that a text names, each with the JSON object that follows its name, or else with arguments made from its schema. */
function callsIn(said: string, { tools, toolChoice, messages }: ModelRequest): readonly FakeStep[] {
  if (toolChoice === "none") return [];
  return tools
    .map((tool) => ({ tool, at: placeOf(tool.name, said) }))
    .filter(({ at }) => at !== -1)
    .toSorted((one, other) => one.at - other.at)
    .map(({ tool: { name, schema }, at }, index): FakeStep => {
      const given = objectAt(said.slice(at + name.length));
      const sampled = sampleOf(schema);
      const args = given ?? (isObject(sampled) ? sampled : {});
      // Ids are the same for the same conversation, and different within it.
      return { type: "tool_call", name, id: `call_${messages.length}_${index}`, arguments: args };
    });
}

/** Where a name stands as a word. */
function placeOf(name: string, said: string): number {
  const words = new RegExp(`(?<![\\w-])${name.replaceAll(/[^\w]/g, String.raw`\$&`)}(?![\\w-])`, "i");
  return words.exec(said)?.index ?? -1;
}

/** The JSON object that a text begins with; `null` when it begins with something else. */
function objectAt(text: string): JsonObject | null {
  const begun = text.trimStart();
  if (!begun.startsWith("{")) return null;
  for (let end = begun.indexOf("}"); end !== -1; end = begun.indexOf("}", end + 1)) {
    try {
      const value: Json = JSON.parse(begun.slice(0, end + 1));
      return isObject(value) ? value : null;
    } catch {
      // A longer piece may be whole.
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

/** The steps as they are said: word by word, at a pace. */
function spoken(steps: readonly FakeStep[], paceMs: number): readonly FakeStep[] {
  return steps.flatMap((step): readonly FakeStep[] => {
    if (step.type !== "text" && step.type !== "reasoning") return [step];
    return (step.text.match(/\S+\s*|\s+/g) ?? []).flatMap((word): readonly FakeStep[] => [
      ...(paceMs > 0 ? [{ type: "delay", ms: paceMs } as const] : []),
      { type: step.type, text: word },
    ]);
  });
}

function textOf({ content }: Message): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("");
}

/** Stands for tokens: nobody charges for these. */
function wordsIn({ messages }: ModelRequest): number {
  return messages.reduce((sum, message) => sum + textOf(message).split(/\s+/).filter(Boolean).length, 0);
}
