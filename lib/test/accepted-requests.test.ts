// What users write, with each API, against a provider that refuses what the real one refuses (`strictProvider`):
// schemas of zod as structured output and as tools, loops with results of every kind, and conversations that another
// provider began.

import type { Adapter, ChatOptions, Tool, Message } from "everturn";
import type { ProviderStep, StrictProvider } from "everturn/testing";

import {
  anthropic,
  chat,
  engine,
  gemini,
  openai,
  tool,
  assistant,
  filePart,
  imageFromBase64,
  imagePart,
  system,
  textPart,
  user,
} from "everturn";
import { strictProvider } from "everturn/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";

const apis = ["OpenAI Responses", "OpenAI Chat", "Anthropic", "Gemini"] as const;
type Api = (typeof apis)[number];

const adapters: { readonly [A in Api]: (provider: StrictProvider) => Adapter } = {
  "OpenAI Responses": ({ fetch }) => openai({ apiKey: "unused", fetch }),
  "OpenAI Chat": ({ fetch }) => openai({ apiKey: "unused", fetch, api: "chat" }),
  Anthropic: ({ fetch }) => anthropic({ apiKey: "unused", fetch }),
  Gemini: ({ fetch }) => gemini({ apiKey: "unused", fetch }),
};
const models: { readonly [A in Api]: string } = {
  "OpenAI Responses": "gpt-5.4",
  "OpenAI Chat": "gpt-5.4",
  Anthropic: "claude-opus-5",
  Gemini: "gemini-3-flash",
};

/** What a user writes. */
type Program = {
  readonly messages?: readonly Message[];
  readonly options?: ChatOptions;
  readonly tools?: readonly Tool[];
  /** The replies of the model. Default: one text. */
  readonly scripts?: readonly (readonly ProviderStep[])[];
  /** A second turn in the same conversation, with these options. */
  readonly next?: ChatOptions;
  /** The only API that has the feature. Default: all. */
  readonly only?: Api;
};

const done: readonly ProviderStep[] = [{ type: "text", text: "{}" }];
const calling = (name: string): readonly ProviderStep[] => [{ type: "tool_call", name, arguments: {} }];
const budget = { effort: null, budgetTokens: 2048, summary: null };
const thinking: readonly ProviderStep[] = [
  { type: "reasoning", text: "Hm." },
  { type: "text", text: "Hello." },
];

function output(schema: NonNullable<ChatOptions["output"]>): Program {
  return { options: { output: schema } };
}

/** A call of a tool. */
function called(act: Tool): Program {
  return { tools: [act], scripts: [calling("act"), done] };
}

/** A call of a tool whose arguments are described by a schema. */
function parameters(schema: z.ZodType<object>): Program {
  return called(tool({ name: "act", description: "Acts.", schema, handler: () => "done" }));
}

/** A tool whose result is sent to the model in this form. */
function result(content: ReturnType<NonNullable<Tool["toModel"]>>): Program {
  const schema = { type: "object", properties: {} };
  return called(tool({ name: "act", description: "Acts.", schema, handler: () => "done", toModel: () => content }));
}

const noParameters = tool({
  name: "act",
  description: "Acts.",
  schema: { type: "object", properties: {} },
  handler: () => "done",
});
const shape = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("circle"), radius: z.number() }),
  z.object({ kind: z.literal("square"), side: z.number() }),
]);

const programs: { readonly [title: string]: Program } = {
  "output: an object": output(z.object({ city: z.string() })),
  "output: an optional field": output(z.object({ city: z.string(), unit: z.string().optional() })),
  "output: a field with a default": output(z.object({ city: z.string(), unit: z.string().default("C") })),
  "output: a nullable field": output(z.object({ city: z.string().nullable() })),
  "output: objects in a list": output(z.object({ list: z.array(z.object({ city: z.string() })) })),
  "output: a discriminated union": output(z.object({ shape })),
  "output: a union": output(z.object({ value: z.union([z.string(), z.object({ city: z.string() })]) })),
  "output: an integer": output(z.object({ count: z.number().int() })),
  "output: bounds of a number": output(z.object({ count: z.number().min(1).max(9) })),
  "output: lengths of a text": output(z.object({ city: z.string().min(1).max(80) })),
  "output: lengths of a list": output(z.object({ list: z.array(z.string()).min(2).max(5) })),
  "output: formats": output(z.object({ mail: z.email(), at: z.iso.datetime(), id: z.uuid() })),
  "output: a record": output(z.object({ counts: z.record(z.string(), z.number()) })),
  "output: a tuple": output(z.object({ pair: z.tuple([z.string(), z.number()]) })),
  "output: an intersection": output(z.intersection(z.object({ a: z.string() }), z.object({ b: z.string() }))),
  "output: a list at the top": output(z.array(z.string())),
  "output: an open JSON Schema": output({ type: "object", properties: { city: { type: "string" } } }),
  "output: any value": output(z.object({ value: z.unknown() })),
  "tool: no parameters": called(
    tool({ name: "act", description: "Acts.", schema: { type: "object" }, handler: () => "done" }),
  ),
  "tool: an empty object": parameters(z.object({})),
  "tool: optional parameters": parameters(z.object({ city: z.string().optional() })),
  "tool: a discriminated union": parameters(z.object({ shape: shape.optional() })),
  "tool: bounds": parameters(z.object({ count: z.number().int().min(1).max(9).optional() })),
  "tool: a record": parameters(z.object({ counts: z.record(z.string(), z.number()).optional() })),
  "tool: a list of any values": parameters(z.object({ list: z.array(z.unknown()).optional() })),
  "loop: parallel calls": {
    tools: [noParameters],
    scripts: [[...calling("act"), ...calling("act")], done],
  },
  "loop: reasoning before calls": {
    tools: [noParameters],
    scripts: [
      [{ type: "reasoning", text: "Hm." }, ...calling("act")],
      [{ type: "reasoning", text: "Hm." }, ...calling("act")],
      done,
    ],
    options: { reasoning: { effort: "low", budgetTokens: null, summary: null } },
  },
  "loop: a thinking budget": {
    tools: [noParameters],
    scripts: [[{ type: "reasoning", text: "Hm." }, ...calling("act")], done],
    options: { reasoning: budget, maxTokens: 4096 },
  },
  "loop: a thinking budget and a temperature": {
    options: { reasoning: budget, maxTokens: 4096, temperature: 0.2 },
  },
  "loop: text and calls": {
    tools: [noParameters],
    scripts: [[{ type: "text", text: "I act." }, ...calling("act")], done],
  },
  "loop: an empty result": result(""),
  "loop: an image as a result": result([imagePart(imageFromBase64("iVBORw0KGgo=", "image/png"))]),
  "loop: a file as a result": result([
    filePart({ type: "base64", data: "JVBERi0=" }, { mimeType: "application/pdf", name: "a.pdf" }),
  ]),
  "loop: audio as a result": result([
    filePart({ type: "base64", data: "SUQz" }, { mimeType: "audio/mpeg", name: "a.mp3" }),
  ]),
  "loop: text and an image as a result": result([
    textPart("See:"),
    imagePart(imageFromBase64("iVBORw0KGgo=", "image/png")),
  ]),
  "conversation: reasoning of an earlier turn": { scripts: [thinking, done], next: {} },
  "conversation: stored reasoning of an earlier turn": {
    only: "OpenAI Responses",
    options: { options: { store: true } },
    scripts: [thinking, done],
    next: { options: { store: true } },
  },
  "conversation: continued by the id of the response": {
    only: "OpenAI Responses",
    tools: [noParameters],
    options: { options: { store: true } },
    scripts: [calling("act"), thinking, done],
    next: { options: { previous_response_id: "resp_2", store: true } },
  },
  "conversation: a loop in a stored conversation": {
    only: "OpenAI Responses",
    tools: [noParameters],
    options: { options: { conversation: "conv_1", store: true } },
    scripts: [calling("act"), done],
  },
  "conversation: begins with a reply": { messages: [assistant("Hello."), user("Hi.")] },
  "conversation: two user messages": { messages: [user("Hi."), user("Are you there?")] },
  "conversation: a system message in the middle": {
    messages: [user("Hi."), assistant("Hello."), system("Be kind."), user("Go on.")],
  },
  "conversation: an empty reply": { messages: [user("Hi."), assistant(""), user("Go on.")] },
  "conversation: ends with a reply": { messages: [user("Hi."), assistant("Hello.")] },
  "settings: parallel calls without tools": { options: { parallelToolCalls: false } },
  "settings: a forced tool without tools": { options: { toolChoice: "none" } },
};

/**
 * Known defects: programs whose requests a provider refuses. An entry that is no longer refused fails its test and has
 * to be removed.
 */
const acceptedUntilFixed: { readonly [title: string]: readonly string[] } = {};

describe("a provider accepts the requests of what users write", () => {
  test.each(Object.entries(programs))("%s", async (title, program) => {
    const tried = apis.filter((api) => (program.only ?? api) === api);
    const refused = await Promise.all(tried.map((api) => refusalsOf(api, program)));
    expect(refused.flat()).toEqual(acceptedUntilFixed[title] ?? []);
  });

  test("known defects are defects of a program", () => {
    expect(Object.keys(acceptedUntilFixed).filter((title) => !Object.hasOwn(programs, title))).toEqual([]);
  });
});

/** The rules that the requests of a program violate, each once. */
async function refusalsOf(
  api: Api,
  { messages = [user("Hi.")], options = {}, tools = [], scripts = [done], next }: Program,
): Promise<readonly string[]> {
  const provider = strictProvider({ scripts });
  const agent = engine({ adapter: adapters[api](provider), model: models[api], tools, retry: false });
  const { thread } = await chat(agent, messages, options);
  if (next !== undefined) await chat(agent, [...thread.messages, user("Go on.")], next);
  return [...new Set(provider.refusals.map(({ rule }) => `${api}: ${rule}`))];
}
