// Tests of the adapters against a server on the loopback interface that implements each provider's wire format
// (lib/test/loopback-providers.ts).

import type { Play, Stage, WireFormat } from "../../../test/loopback-providers.ts";
import type { Adapter, JsonObject, Thread } from "everturn";
import type { ModelEvent } from "everturn/advanced";
import type { AdapterScenario, AdapterUnderTest } from "everturn/testing";

import { inspect } from "node:util";

import {
  chat,
  engine,
  generate,
  stream,
  subscribe,
  tool,
  fromJson,
  messageText,
  orThrow,
  toJson,
  user,
  session as sessions,
} from "everturn";
import { request, describeEngine } from "everturn/advanced";
import { adapterSuite, transcript } from "everturn/testing";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";

import { eventually } from "../../../test/eventually.ts";
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
import { systemClock } from "../engine/internal.ts";
import { anthropic } from "./anthropic.ts";
import { openaiCompatible, preset } from "./compatible.ts";
import { gemini } from "./gemini.ts";
import { openai } from "./openai.ts";

const stages = new LoopbackStages();
const { keys } = stages;

beforeAll(async () => {
  await stages.listen();
  // The environment must hold no key except those of the tests.
  for (const name of ["OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "COMPATIBLE", "OPENROUTER"])
    vi.stubEnv(`${name}_API_KEY`, "");
});

afterAll(async () => {
  vi.unstubAllEnvs();
  unsubscribe();
  await stages.close();
});

function stage(...plays: readonly Play[]): Stage {
  return stages.stage(...plays);
}

type Wire = WireFormat & {
  readonly name: string;
  readonly adapter: (options: Options) => Adapter;
  /** The adapter with a key of the test; the default key is optional for one of the servers. */
  readonly keyed?: (options: Options) => Adapter;
};
type Options = { readonly baseURL: string; readonly apiKey?: string; readonly timeouts: { readonly connect: number } };

const wires: readonly Wire[] = [
  { name: "openai (Responses)", adapter: (options) => openai(options), ...wireFormats.responses },
  {
    name: "openai (Responses in the background)",
    adapter: (options) => openai({ ...options, background: true }),
    ...wireFormats.responses,
  },
  { name: "openai (Chat Completions)", adapter: (options) => openai({ ...options, api: "chat" }), ...wireFormats.chat },
  { name: "anthropic", adapter: anthropic, ...wireFormats.anthropic },
  { name: "gemini", adapter: gemini, ...wireFormats.gemini },
  {
    name: "openaiCompatible",
    adapter: openaiCompatible,
    keyed: (options) => preset("openrouter", options),
    ...wireFormats.openrouter,
  },
];

// Recorded output

/** Every event, every error and all telemetry of this file. */
const recordedOutput: unknown[] = [];
const unsubscribe = subscribe((emitted) => recordedOutput.push(emitted));

/** The adapter, with all its events and errors recorded. */
function watched(adapter: Adapter): Adapter {
  return {
    ...adapter,
    stream: async function* (incoming, call) {
      try {
        for await (const batch of adapter.stream(incoming, call)) {
          recordedOutput.push(...batch);
          yield batch;
        }
      } catch (error) {
        recordedOutput.push(error);
        throw error;
      }
    },
  };
}

const patience = { connect: 500 };
const key = "sk-loopback-91c04be7d2";

// The adapter suite

/**
 * An adapter whose provider plays the scenario. Failures before the request is sent come from an invalid request or
 * key.
 */
function playing(wire: Wire): (scenario: AdapterScenario) => AdapterUnderTest {
  return (scenario) => {
    const set = stage(playOf(scenario, wire));
    const isKeyless = scenario.type === "preflight" && scenario.reason === "missing_key";
    const make = isKeyless ? (wire.keyed ?? wire.adapter) : wire.adapter;
    const adapter = watched(make({ baseURL: set.url, timeouts: patience }));
    return {
      ...adapter,
      calls: set.requests,
      stream: (incoming, call) =>
        adapter.stream(
          scenario.type === "preflight" ? spoiled(incoming, scenario.reason) : incoming,
          isKeyless ? { ...call, apiKey: null } : call,
        ),
    };
  };
}

for (const wire of wires) {
  describe(`${wire.name} over a loopback socket`, () => {
    for (const { name, run } of adapterSuite(playing(wire))) test(name, run);

    test("closes the connection of a stalled reply when the consumer leaves", async () => {
      for (const leaves of ["by returning", "by the signal"] as const) {
        const set = stage(playOf({ type: "stalled", texts: ["Hel", "lo"] }, wire));
        const stop = new AbortController();
        const reading = read(watched(wire.adapter({ baseURL: set.url, timeouts: patience })), stop.signal);
        await reading.next();
        expect(set.closed).toBe(0);
        if (leaves === "by the signal") stop.abort();
        await reading.return?.();
        await eventually(() => expect(set.closed).toBe(1));
      }
    });

    test("removes a key that the stream repeats", async () => {
      const set = stage({ type: "stream", text: wire.complain(`bad key ${key}`), last: "end" });
      const reading = read(wire.adapter({ baseURL: set.url, apiKey: key, timeouts: patience }));
      const events: ModelEvent[] = [];
      for (let next = await reading.next(); next.done !== true; next = await reading.next()) events.push(...next.value);
      expect(events.at(-1)?.type).toBe("error");
      expect(JSON.stringify(events)).not.toContain(key);
    });
  });
}

/** The events of one call of the adapter, without a run. */
function read(adapter: Adapter, signal = new AbortController().signal) {
  const incoming = request([user("Hello.")], { model: "conformance" });
  const rest = { requestId: "loopback", options: {}, apiKey: key, rawChunks: false, attempt: 1, clock: systemClock };
  return adapter.stream(incoming, { signal, ...rest })[Symbol.asyncIterator]();
}

// A tool loop with reasoning

/** An engine as a new process would create it. */
function engineAt({ url }: Stage, wire: Wire) {
  const adapter = watched(wire.adapter({ baseURL: url, apiKey: key, timeouts: { connect: 10_000 } }));
  return engine({ adapter, model: "conformance", tools: [weather], retry: false });
}

function stored(thread: Thread): Thread {
  return orThrow(fromJson(toJson("thread", thread), { as: "thread" }));
}

describe("a tool loop of three replies with reasoning", () => {
  const paths = [
    "v1/responses",
    "v1/responses",
    "v1/chat/completions",
    "v1/messages",
    "v1/models/conformance:streamGenerateContent?alt=sse",
    "v1/chat/completions",
  ];

  test.each(wires)("$name gets its reasoning back, and other routes do not", async (wire) => {
    const set = stage(...toolLoop(wire));
    const result = await chat(engineAt(set, wire), "Hvor er det sol?");
    recordedOutput.push(result);
    expect(result).toMatchObject({ haltedReason: "completed", usage: { inputTokens: 60, outputTokens: 30 } });
    expect(result.finalResponse?.message && messageText(result.finalResponse.message)).toBe(
      "Sol i Tromsø og Ålesund ☀",
    );
    expect(set.requests.map(({ path }) => path)).toEqual(Array.from({ length: 3 }, () => paths[wires.indexOf(wire)]));
    expect(set.requests.map(({ body }) => sealsIn(body))).toEqual([[], ["seal-one"], seals]);
    const results = set.requests.map(({ body }) =>
      [...JSON.stringify(body).matchAll(/Sol i (\S+?)\./g)].map(([, c]) => c),
    );
    expect(results).toEqual([[], ["Tromsø"], ["Tromsø", "Ålesund"]]);

    const other = stage({
      type: "stream",
      text: wire.write([{ type: "text", pieces: ["Ja."] }], replyUsage),
      last: "end",
    });
    await chat(engineAt(other, wire), [...result.thread.messages, user("Sikker?")]);
    expect(other.requests.map(({ body }) => sealsIn(body))).toEqual([[]]);
  });

  test.each(wires)("$name gets the same bodies from a process that parses the thread for each reply", async (wire) => {
    const reference = stage(...toolLoop(wire));
    const { thread } = await chat(engineAt(reference, wire), "Hvor er det sol?");

    const plays = toolLoop(wire);
    const set = stage(...plays);
    let current = (await chat(engineAt(set, wire), "Hvor er det sol?", { haltWhen: () => true })).thread;
    for (let step = 1; step < plays.length; step += 1) {
      current = (await chat(engineAt(set, wire), stored(current), { haltWhen: () => true })).thread;
    }
    expect(set.requests).toEqual(reference.requests);
    const texts = [thread, current].map(({ messages }) => messages.map(messageText));
    expect(texts[1]).toEqual(texts[0]);
  });

  function sealsIn(body: JsonObject): readonly string[] {
    // The ids of the calls contain the text too.
    const text = JSON.stringify(body).replaceAll(/call_seal-\w+/g, "");
    return seals.filter((seal) => text.includes(seal));
  }
});

describe("a server that repeats the key", () => {
  test.each(wires)("$name: nothing that is stored, described or printed contains the key", async (wire) => {
    const bad: Play = { type: "stream", text: wire.complain(`bad key ${key}`), last: "end" };
    const set = stage(
      wire.refuse({
        type: "failure",
        reason: "authentication_failed",
        status: 401,
        retryAfterMs: null,
        requestId: null,
      }),
      bad,
    );
    const of = engineAt(set, wire);
    const first = await sessions.start(of, "Hvor er det sol?");
    const second = await chat(of, "Hvor er det sol?");
    expect([first.result.haltedReason, second.haltedReason]).toEqual(["error", "error"]);
    const emitted = await transcript(stream(engineAt(stage(bad), wire), "Hvor er det sol?"));
    recordedOutput.push(toJson("session", first.session), first.result, second, emitted, of);
    recordedOutput.push(JSON.stringify(of), describeEngine(of));
    expect(JSON.stringify([first.result, second])).toContain("[key]");
  });
});

// This test must be the last: it checks the output of all tests before it.
test("the key is in no event, error, telemetry, session, engine or transcript of this file", () => {
  expect(keys).toEqual(new Set(["sk-conformance-4f9a2c7e1b", key]));
  expect(recordedOutput.length).toBeGreaterThan(500);
  expect(recordedOutput.some((one) => one instanceof Error)).toBe(true);
  const kinds = new Set(
    recordedOutput.map((one) => (typeof one === "object" && one !== null && "type" in one ? one.type : null)),
  );
  expect([...kinds]).toEqual(expect.arrayContaining(["error", "message_completed", "start", "stop"]));
  const shown = recordedOutput.map((one) => inspect(one, { depth: 20, showHidden: true }));
  expect(shown.filter((text) => [...keys].some((one) => text.includes(one)))).toEqual([]);
});

test("mistral gets the seed as random_seed, and whether calls may be parallel", async () => {
  const bodies: unknown[] = [];
  const adapter = preset("mistral", {
    apiKey: "k",
    fetch: async (_, init) => {
      bodies.push(JSON.parse(String(init.body)));
      const answer = { choices: [{ index: 0, message: { content: "Hi" }, finish_reason: "stop" }] };
      return new Response(JSON.stringify(answer), { headers: { "content-type": "application/json" } });
    },
  });
  const now = tool({ name: "now", description: "d", schema: { type: "object" }, handler: () => 1 });
  const agent = engine({ adapter, model: "mistral-large-latest", tools: [now] });
  const reply = await generate(agent, "hi", { params: { seed: 7, parallelToolCalls: false } });
  expect(bodies).toMatchObject([{ random_seed: 7, parallel_tool_calls: false }]);
  expect(bodies[0]).not.toHaveProperty("seed");
  expect(reply.warnings).toEqual([]);
});
