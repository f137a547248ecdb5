// Tests of AI SDK models as adapters: the packages of the providers, AI SDK 5, 6 and 7, against a server on the
// loopback interface that implements each provider's wire format (lib/test/loopback-providers.ts).

import type { Play, Say, Stage, WireFormat } from "../../../test/loopback-providers.ts";
import type { Adapter, JsonObject, Thread, TurnEvent } from "everturn";
import type { AiSdkLanguageModel } from "everturn/ai-sdk";
import type { AdapterScenario, AdapterUnderTest } from "everturn/testing";

import { createAnthropic as createAnthropic5 } from "@ai-sdk-5/anthropic";
import { createAmazonBedrock as createBedrock6 } from "@ai-sdk-6/amazon-bedrock";
import { createAnthropic as createAnthropic6 } from "@ai-sdk-6/anthropic";
import { createGoogleGenerativeAI as createGoogle6 } from "@ai-sdk-6/google";
import { createOpenAI as createOpenAI6 } from "@ai-sdk-6/openai";
import { createAmazonBedrock } from "@ai-sdk/amazon-bedrock";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import {
  anthropic,
  chat,
  engine,
  gemini,
  openai,
  stream,
  fromJson,
  messageText,
  orThrow,
  toJson,
  user,
} from "everturn";
import { aiSdkAdapter } from "everturn/ai-sdk";
import { adapterSuite, transcript } from "everturn/testing";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";

import {
  LoopbackStages,
  playOf,
  replyUsage,
  seals,
  spoiled,
  toolLoop,
  weather,
  wireFormats,
} from "../../../test/loopback-providers.ts";

const stages = new LoopbackStages();

beforeAll(async () => {
  await stages.listen();
  for (const name of [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
  ])
    vi.stubEnv(name, undefined);
});

afterAll(async () => {
  vi.unstubAllEnvs();
  await stages.close();
});

type Connection = { readonly baseURL: string; readonly apiKey?: string };

/** A package of the AI SDK, the wire format of its provider, and the adapter of the library for the same API. */
type Package = WireFormat & {
  readonly name: string;
  readonly model: (connection: Connection, modelId: string) => AiSdkLanguageModel;
  readonly native: ((connection: Connection) => Adapter) | null;
  /** A model that the package knows: it warns about limits of unknown ones. */
  readonly modelId: string;
};

const region = "eu-central-1";
/** With `store: false` the package sends reasoning itself, encrypted, and no references to items that OpenAI stores. */
const packages: readonly Package[] = [
  {
    name: "@ai-sdk/openai 4 (Responses)",
    modelId: "gpt-5",
    model: (connection, modelId) => createOpenAI(connection).responses(modelId),
    native: openai,
    ...wireFormats.responses,
  },
  {
    name: "@ai-sdk/openai 4 (Chat Completions)",
    modelId: "gpt-5",
    model: (connection, modelId) => createOpenAI(connection).chat(modelId),
    native: (options) => openai({ ...options, api: "chat" }),
    ...wireFormats.chat,
  },
  {
    name: "@ai-sdk/anthropic 4",
    modelId: "claude-sonnet-4-5",
    model: (connection, modelId) => createAnthropic(connection)(modelId),
    native: anthropic,
    ...wireFormats.anthropic,
  },
  {
    name: "@ai-sdk/google 4",
    modelId: "gemini-2.5-pro",
    model: (connection, modelId) => createGoogle(connection)(modelId),
    native: gemini,
    ...wireFormats.gemini,
  },
  {
    name: "@ai-sdk/amazon-bedrock 5",
    modelId: "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    model: (connection, modelId) => createAmazonBedrock({ region, ...connection })(modelId),
    native: null,
    ...wireFormats.bedrock,
  },
  {
    name: "@ai-sdk/openai 3 (Responses)",
    modelId: "gpt-5",
    model: (connection, modelId) => createOpenAI6(connection).responses(modelId),
    native: openai,
    ...wireFormats.responses,
  },
  {
    name: "@ai-sdk/anthropic 3",
    modelId: "claude-sonnet-4-5",
    model: (connection, modelId) => createAnthropic6(connection)(modelId),
    native: anthropic,
    ...wireFormats.anthropic,
  },
  {
    name: "@ai-sdk/google 3",
    modelId: "gemini-2.5-pro",
    model: (connection, modelId) => createGoogle6(connection)(modelId),
    native: gemini,
    ...wireFormats.gemini,
  },
  {
    name: "@ai-sdk/amazon-bedrock 4",
    modelId: "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    model: (connection, modelId) => createBedrock6({ region, ...connection })(modelId),
    native: null,
    ...wireFormats.bedrock,
  },
  {
    name: "@ai-sdk/anthropic 2",
    modelId: "claude-sonnet-4-5",
    model: (connection, modelId) => createAnthropic5(connection)(modelId),
    native: anthropic,
    ...wireFormats.anthropic,
  },
];

/** An adapter whose provider plays the scenario. */
function playing(of: Package): (scenario: AdapterScenario) => AdapterUnderTest {
  return (scenario) => {
    const { url, requests } = stages.stage(playOf(scenario, of));
    const isTimeout = scenario.type === "failure" && scenario.reason === "timeout";
    const adapter = aiSdkAdapter(
      (modelId, { apiKey }) => of.model({ baseURL: url, ...(apiKey === null ? {} : { apiKey }) }, modelId),
      { timeoutMs: isTimeout ? 50 : 60_000 },
    );
    const isPreflight = scenario.type === "preflight";
    return {
      ...adapter,
      calls: requests,
      stream: (incoming, call) =>
        adapter.stream(
          isPreflight ? spoiled(incoming, scenario.reason) : incoming,
          isPreflight && scenario.reason === "missing_key" ? { ...call, apiKey: null } : call,
        ),
    };
  };
}

for (const of of packages) {
  describe.concurrent(`${of.name} over a loopback socket`, () => {
    for (const { name, run } of adapterSuite(playing(of))) test(name, run);
  });
}

// A tool loop with reasoning

function engineOf(adapter: Adapter, { modelId }: Package) {
  const providerOptions = { openai: { store: false, include: ["reasoning.encrypted_content"] } };
  return engine({ adapter, model: modelId, tools: [weather], retry: false, params: { providerOptions } });
}

function engineAt({ url }: Stage, of: Package) {
  return engineOf(aiSdkAdapter(of.model({ baseURL: url, apiKey: "key" }, of.modelId), { endpoint: url }), of);
}

function sealsIn(body: JsonObject): readonly string[] {
  // The ids of the calls contain the text too.
  const text = JSON.stringify(body).replaceAll(/call_seal-\w+/g, "");
  return seals.filter((seal) => text.includes(seal));
}

describe("a tool loop of three replies with reasoning", () => {
  /** Chat Completions of OpenAI have no reasoning, and their package does not read it. */
  const withReasoning = packages.filter(({ name }) => !name.includes("Chat"));

  test.each(withReasoning)("$name gets its reasoning back, and other endpoints do not", async (of) => {
    const set = stages.stage(...toolLoop(of));
    const result = await chat(engineAt(set, of), "Hvor er det sol?");
    expect(result).toMatchObject({ haltedReason: "completed", usage: { inputTokens: 60, outputTokens: 30 } });
    expect(result.finalResponse?.outputText).toBe("Sol i Tromsø og Ålesund ☀");
    expect(set.requests.map(({ body }) => sealsIn(body))).toEqual([[], ["seal-one"], seals]);

    const other = stages.stage({
      type: "stream",
      text: of.write([{ type: "text", pieces: ["Ja."] }], replyUsage),
      last: "end",
    });
    await chat(engineAt(other, of), [...result.thread.messages, user("Sikker?")]);
    expect(other.requests.map(({ body }) => sealsIn(body))).toEqual([[]]);
  });

  test.each(packages)("$name gets the same bodies from a process that parses the thread for each reply", async (of) => {
    const reference = stages.stage(...toolLoop(of));
    const { thread } = await chat(engineAt(reference, of), "Hvor er det sol?");
    const plays = toolLoop(of);
    const set = stages.stage(...plays);
    // The endpoint is part of the route, and the route of stored reasoning has to be the same in each process.
    const sameRoute = () => engineOf(aiSdkAdapter(of.model({ baseURL: set.url, apiKey: "key" }, of.modelId)), of);
    let current = (await chat(sameRoute(), "Hvor er det sol?", { haltWhen: () => true })).thread;
    for (let step = 1; step < plays.length; step += 1) {
      current = (await chat(sameRoute(), stored(current), { haltWhen: () => true })).thread;
    }
    expect(set.requests).toEqual(reference.requests);
    expect(current.messages.map(messageText)).toEqual(thread.messages.map(messageText));
  });

  const alsoNative = packages.filter(({ native }) => native !== null);
  test.each(alsoNative)("$name gives the events and the thread of the library's own adapter", async (of) => {
    const plays = of.name.includes("Chat") ? withoutReasoning(of) : toolLoop(of);
    const native = of.native?.({ baseURL: stages.stage(...plays).url, apiKey: "key" });
    if (native === undefined) throw new Error("no adapter");
    const expected = await recorded(stream(engineOf(native, of), "Hvor er det sol?"));
    const actual = await recorded(stream(engineAt(stages.stage(...plays), of), "Hvor er det sol?"));
    expect(actual).toEqual(expected);
  });
});

describe("the events of the library's own adapter are also those of the AI SDK model", () => {
  const text: Say = { type: "text", pieces: ["Sol ", "her."] };
  const call = (id: string): Say => ({ type: "call", id, name: "weather", pieces: [`{"city":"${id}"}`] });
  const failure = (reason: "rate_limited" | "invalid_request", status: number) =>
    ({ type: "failure", reason, status, retryAfterMs: null, requestId: null }) as const;
  const scenes: { readonly [name: string]: (of: Package) => readonly Play[] } = {
    "for text before two concurrent calls": (of) =>
      [[text, call("Oslo"), call("Roma")], [text]].map((parts) => ({
        type: "stream",
        text: of.write(parts, replyUsage),
        last: "end",
      })),
    "for an answer in chunks of three bytes": (of) => [
      { type: "stream", text: of.write([text], replyUsage), last: "end", slice: 3 },
    ],
    "for a refused request": (of) => [of.refuse(failure("invalid_request", 400))],
    "for a rate limit that is retried": (of) => [
      of.refuse(failure("rate_limited", 429)),
      { type: "stream", text: of.write([text], replyUsage), last: "end" },
    ],
    "for a connection that breaks": (of) => [{ type: "stream", text: of.write([text], null), last: "destroy" }],
  };
  const retry = { maxAttempts: 2, baseDelayMs: 1, maxDelayMs: 1, jitterMs: 0 };
  const native = packages.filter((of) => of.native !== null);
  for (const [scene, playsOf] of Object.entries(scenes)) {
    test.each(native)(`$name ${scene}`, async (of) => {
      const run = (adapter: Adapter) =>
        recorded(stream(engine({ adapter, model: of.modelId, tools: [weather], retry }), "Hvor er det sol?"));
      const expected = await run(of.native?.({ baseURL: stages.stage(...playsOf(of)).url, apiKey: "key" }) ?? openai());
      const { url: baseURL } = stages.stage(...playsOf(of));
      const actual = await run(aiSdkAdapter(of.model({ baseURL, apiKey: "key" }, of.modelId)));
      expect(actual).toEqual(expected);
    });
  }
});

/** The replies of the loop, for an API without reasoning. */
function withoutReasoning(of: Package): readonly Play[] {
  return toolLoop({
    ...of,
    write: (says, price) =>
      of.write(
        says.filter(({ type }) => type !== "reasoning"),
        price,
      ),
  });
}

/**
 * The lines of a stream and its thread, without what the packages decide: they cut the text of arguments as they like,
 * and make text of objects. Chat Completions end a text after the calls that follow it, and the packages before. Replay
 * data has the form of each adapter.
 */
async function recorded(events: AsyncIterable<TurnEvent>) {
  const lines: string[] = [];
  let thread: Thread | null = null;
  for await (const event of events) {
    if (event.type === "chat_completed") ({ thread } = event.result);
    if (event.type === "tool_call_delta") continue;
    const isEnd = event.type === "text_completed";
    const at = isEnd ? lines.findLastIndex((line) => line.startsWith("text_delta")) + 1 : lines.length;
    lines.splice(at, 0, ...(await transcript(only(event))));
  }
  const json = JSON.stringify(thread, (key, value: unknown) => {
    if (key === "provider" || key === "rawArguments") return null;
    // The id of a message begins with that of its run.
    return key === "id" && typeof value === "string" ? value.replace(/^.*?\//, "") : value;
  });
  // A text with an item id of OpenAI is a part.
  const plain = json.replaceAll(/"content":\[\{"type":"text","text":("[^"]*")[^\]]*\]/g, '"content":$1');
  return { lines, thread: JSON.parse(plain) };
}

async function* only(event: TurnEvent): AsyncGenerator<TurnEvent> {
  yield event;
}

function stored(thread: Thread): Thread {
  return orThrow(fromJson(toJson("thread", thread), { as: "thread" }));
}
