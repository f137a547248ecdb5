// Requests that together use every field of a request, for each API.

import type { UserPart } from "../../src/core/model/internal.ts";
import type { Target } from "./targets.ts";
import type { Message, ModelRequest } from "everturn";

import {
  assistant,
  filePart,
  imageFromBase64,
  imageFromUrl,
  imagePart,
  searchResultPart,
  system,
  textPart,
  toolResult,
  user,
} from "everturn";
import { jsonSchema, request, eventMessage, toolSpec } from "everturn/advanced";

import { reasoningPart } from "../../src/core/model/internal.ts";
import { screenshotCall } from "./targets.ts";

export type Asked = { readonly title: string; readonly request: ModelRequest };

const weather = toolSpec({
  name: "weather",
  description: "The weather in a city.",
  schema: {
    type: "object",
    properties: { city: { type: "string" }, days: { type: "array", items: { type: "integer" } } },
    required: ["city"],
    additionalProperties: false,
  },
  metadata: { strict: true },
});
const time = toolSpec({ name: "time", description: "", schema: { type: "object" } });
const tools = [weather, time];
const city = jsonSchema("city", {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: { name: { type: "string" }, rivers: { type: "array", items: { type: "object", properties: {} } } },
  required: ["name", "rivers"],
});
const png = "iVBORw0KGgo=";
const hello = user("Hello.");

/** Two calls and their answers. */
const calling = assistant("Let me look.", {
  toolCalls: [
    { id: "call_1", name: "weather", arguments: { city: "Oslo" }, rawArguments: '{"city":"Oslo"}' },
    { id: "call_2", name: "time", arguments: {} },
  ],
});

export function requestsFor(target: Target): readonly Asked[] {
  const { codec, context, providerTools, answers, choices, efforts, options } = target;
  const { provider } = context.route;
  const reply = replyOf(target);
  const isMessages = codec.api === "anthropic-messages";
  const settings = { temperature: 0.5, topP: 0.9, maxTokens: 100, stopSequences: ["END"], seed: 7 };
  const asked: readonly (readonly [string, readonly Message[], Partial<ModelRequest>])[] = [
    ["a text", [hello], {}],
    ["instructions and settings", [system("Be brief."), system("Be kind."), hello], settings],
    ["a session with a cache", [system("Be brief."), hello], { ...cached, tools }],
    ["images", [user([textPart("What is this?"), ...images, picture(provider, codec.api)])], {}],
    ["files", [user([textPart("Read this."), ...files(target)])], {}],
    ["a message with a name, an event, a late instruction", [user("Hi.", { name: "ann" }), ...late], {}],
    ["tools", [hello], { tools, toolChoice: "auto", parallelToolCalls: true }],
    ["a tool that must be called", [hello], { tools, toolChoice: "required", parallelToolCalls: false }],
    ["one tool that must be called", [hello], { tools, toolChoice: { type: "tool", name: "weather" } }],
    ["tools that must not be called", [hello], { tools, toolChoice: "none" }],
    ["results", [hello, calling, toolResult("call_1", "Sunny."), toolResult("call_2", { hour: 9 })], { tools }],
    ["results that failed", [hello, calling, ...failed], { tools }],
    ["results with images and files", [hello, calling, ...seen(target)], { tools }],
    ["unanswered calls and invalid ones", [hello, calling, broken, user("And?")], { tools }],
    ["a reply of another provider's", [hello, foreign, user("And?")], {}],
    ["parts that were taken out", [user([textPart("Look."), pruned]), assistant("A cat."), user("And?")], {}],
    ["a reply of its own", [hello, reply, ...answers.map(answerTo)], { tools, providerTools }],
    ["a reply of its own whose calls failed", [hello, reply, ...answers.map(failedResult)], { tools, providerTools }],
    ...choices.map((name) => {
      const toolChoice = { type: "tool", name } as const;
      return [`the provider tool ${name}`, [hello], { providerTools, toolChoice }] as const;
    }),
    ...efforts.map((effort) => {
      const reasoning = { effort, budgetTokens: null, summary: "auto" };
      return [`the effort ${effort}`, [hello], { reasoning, maxTokens: 5000 }] as const;
    }),
    ["a budget for reasoning", [hello], { reasoning: { effort: null, budgetTokens: 2048, summary: null } }],
    [
      "a forced tool beside reasoning",
      [hello],
      { tools, toolChoice: "required", reasoning: { effort: "high", budgetTokens: null, summary: null } },
    ],
    ...(codec.api === "openai-responses"
      ? [["the result of a stored call", [toolResult("call_1", "Sunny.")], { options: stored }] as const]
      : []),
    ["an answer in a schema", [hello], { responseFormat: city }],
    ["an answer in a schema, beside tools", [hello], { responseFormat: city, tools }],
    ["an answer in JSON", [user("In JSON, please.")], { responseFormat: { type: "json_object" } }],
    ["tools of the provider's", [hello], { providerTools, tools, toolChoice: "auto" }],
    [
      "provider options",
      [system("Be brief.", { providerOptions: mark }), ...marked(target)],
      { tools: [markedTool, time] },
    ],
    ["options of the provider's", [hello], { options, ...(isMessages ? {} : settings), responseFormat: city }],
  ];
  return asked.map(([title, messages, rest]) => ({
    title,
    request: request(messages, { ...rest, model: context.route.model }),
  }));
}

function answerTo(id: string): Message {
  return toolResult(id, id === screenshotCall ? [imagePart(imageFromBase64(png, "image/png"))] : "Done.");
}

function failedResult(id: string): Message {
  return toolResult(id, "No.", { status: "failure", code: "denied" });
}

const stored = { previous_response_id: "resp_1", store: true };
const cached: Partial<ModelRequest> = {
  promptCache: { key: null, retention: "long", breakpoints: "auto" },
  scope: { sessionId: "s-1", frameId: null, requestId: "r-1" },
};

const images: readonly UserPart[] = [
  imagePart(imageFromUrl("https://example.com/cat.png", "image/png"), { detail: "high" }),
  imagePart(imageFromBase64(png, "image/png"), { detail: "low" }),
  imagePart(imageFromBase64("/9j/AAAA", "image/jpeg")),
  filePart({ type: "base64", data: png }, { mimeType: "image/png" }),
];

/** An image by provider file id; for Chat Completions, which has none, as base64. */
function picture(provider: string, api: Target["codec"]["api"]): UserPart {
  const source =
    api === "openai-chat"
      ? ({ type: "base64", data: png } as const)
      : ({ type: "provider_file", provider, id: "file_1" } as const);
  return imagePart({ source, mimeType: "image/png" });
}

/** Files of the types that the API accepts. */
function files({ codec, context }: Target): readonly UserPart[] {
  const { provider } = context.route;
  const uploaded = { type: "provider_file", provider, id: "file_1" } as const;
  const pdf = filePart({ type: "base64", data: "JVBERg==" }, { mimeType: "application/pdf", name: "a.pdf" });
  const linked = filePart({ type: "url", url: "https://example.com/a.pdf" }, { mimeType: "application/pdf" });
  const wav = filePart({ type: "base64", data: "UklGRg==" }, { mimeType: "audio/wav" });
  const text = filePart({ type: "base64", data: "T3Nsbw==" }, { mimeType: "text/plain", name: "a.txt" });
  const own = filePart(uploaded, { mimeType: "application/pdf" });
  switch (codec.api) {
    case "openai-chat":
      return [pdf, wav, own];
    case "openai-responses":
      return [pdf, linked, own];
    case "anthropic-messages":
      return [pdf, linked, text, own];
    case "gemini":
      return [pdf, linked, wav, text, own];
  }
}

/** Cache breakpoints of both APIs that have them. */
const mark = { anthropic: { cache_control: { type: "ephemeral", ttl: "1h" } } } as const;
const partMark = {
  ...mark,
  openai: { prompt_cache_breakpoint: { mode: "explicit" } },
  gemini: { mediaResolution: { level: "MEDIA_RESOLUTION_HIGH" } },
} as const;
const markedTool = toolSpec({
  ...weather,
  providerOptions: {
    anthropic: {
      strict: true,
      input_examples: [{ city: "Oslo" }],
      allowed_callers: ["direct"],
      eager_input_streaming: true,
    },
    openai: { strict: false },
    gemini: { behavior: "NON_BLOCKING" },
  },
});

/** A conversation with provider options in every place. */
function marked({ codec }: Target): readonly Message[] {
  const found = searchResultPart({ source: "https://example.com/oslo", title: "Oslo", content: "A city." });
  const document = filePart(
    { type: "base64", data: "JVBERg==" },
    {
      mimeType: "application/pdf",
      name: "a.pdf",
      providerOptions: { anthropic: { citations: { enabled: true }, context: "Old.", title: "A" } },
    },
  );
  const film = filePart(
    { type: "url", url: "https://example.com/a.mp4" },
    {
      mimeType: "video/mp4",
      providerOptions: { gemini: { videoMetadata: { fps: 2, startOffset: "1s", endOffset: "2s" } } },
    },
  );
  return [
    user([
      textPart("Look.", { providerOptions: codec.api === "gemini" ? {} : partMark }),
      imagePart(imageFromBase64(png, "image/png"), { detail: "original", providerOptions: partMark }),
      found,
      document,
      ...(codec.api === "gemini" ? [film] : []),
    ]),
    assistant("I call.", { toolCalls: [{ id: "call_1", name: "weather", arguments: {}, providerOptions: mark }] }),
    toolResult("call_1", [found], { providerOptions: mark }),
  ];
}

const late: readonly Message[] = [
  assistant("Hello."),
  system("Be brief from now on."),
  eventMessage("The build is done."),
  user("And?"),
];

const failed: readonly Message[] = [
  toolResult("call_1", "No such city.", { status: "failure", code: "not_found" }),
  toolResult("call_2", "", { status: "cancelled" }),
];

function seen(target: Target): readonly Message[] {
  const [first] = files(target);
  const image = imagePart(imageFromBase64(png, "image/png"));
  return [
    toolResult("call_1", [textPart("A map."), image]),
    toolResult("call_2", first === undefined ? [image] : [first]),
  ];
}

const broken = assistant("", {
  toolCalls: [{ id: "call/3 of:many", name: "weather", arguments: null, rawArguments: '{"city":' }],
});

const elsewhere = { provider: "acme", endpoint: "https://example.com", model: "m-1", data: { signature: "x" } };
const foreign = assistant([reasoningPart("Hm.", { provider: elsewhere }), textPart("A cat.", { provider: elsewhere })]);
const pruned = imagePart(imageFromUrl("https://example.com/cat.png"), { pruneState: { type: "cleared" } });

/** The reply of the target, decoded. */
function replyOf({ codec, context, reply }: Target): Message {
  const end = codec.decodeReply(reply, context).find((event) => event.type === "message_completed");
  if (end === undefined) throw new Error(`${codec.api}: no whole reply`);
  return end.message;
}
