// The conformance suite of adapters: one case for each rule of the adapter contract (E1,
// core/engine/model-call/adapter.ts).
//
// The author of an adapter passes a function that builds an adapter whose provider plays a given scenario: through a
// scripted `fetch`, a local server or a recording. The suite does not know how.

import type { Adapter } from "../core/engine/internal.ts";
import type { AdapterErrorReason, JsonObject, MessageCompleted, ModelEvent, Usage } from "../core/model/internal.ts";
import type { Cases, ConformanceCase } from "./conformance.ts";

import { nextTask, systemClock } from "../core/clock/clock.ts";
import { isEverturnError, messageText, request, toolSpec, user } from "../core/model/internal.ts";
import { isModelEvent } from "../core/model/parse/reading.ts";
import { broken, casesOf, holds, patienceMs, promptMs, same, thrownBy, within, written } from "./conformance.ts";

/** What the provider of the adapter under test does with its one request. */
export type AdapterScenario =
  /** Streams these texts, then the end of the reply. */
  | {
      readonly type: "text";
      readonly texts: readonly string[];
      readonly usage?: { readonly inputTokens: number; readonly outputTokens: number };
    }
  /** Makes these calls, without text. */
  | { readonly type: "tool_calls"; readonly calls: readonly ScenarioCall[] }
  /** Makes one call and streams its arguments in these pieces. Joined they need not be JSON. */
  | {
      readonly type: "streamed_arguments";
      readonly id: string;
      readonly name: string;
      readonly pieces: readonly string[];
    }
  /**
   * Answers with an error, or cannot be reached. Status, retry delay and request id are sent if they are not `null`.
   */
  | {
      readonly type: "failure";
      readonly reason: AdapterErrorReason;
      readonly status: number | null;
      readonly retryAfterMs: number | null;
      readonly requestId: string | null;
    }
  /** Gets no request: the adapter itself detects that the key is missing or that it cannot send the request. */
  | { readonly type: "preflight"; readonly reason: PreflightReason }
  /** Streams these texts, then the connection breaks without an end of the reply. */
  | { readonly type: "interrupted"; readonly texts: readonly string[] }
  /** Streams these texts, then sends nothing more on the open connection. */
  | { readonly type: "stalled"; readonly texts: readonly string[] };

type ScenarioCall = { readonly id: string; readonly name: string; readonly arguments: JsonObject };

/**
 * The problems that an adapter detects before the request. A missing key may also be reported as
 * `authentication_failed`.
 */
type PreflightReason = (typeof preflightReasons)[number];
const preflightReasons = ["missing_key", "invalid_request", "unsupported_feature"] as const;

/**
 * An adapter and, optionally, the requests its provider received and the number of closed streams. Without those
 * fields some cases check less.
 */
export type AdapterUnderTest = Adapter & {
  /** The requests that the provider received. */
  readonly calls?: readonly unknown[];
  /** The number of closed streams. */
  readonly closed?: number;
};

type Make = (scenario: AdapterScenario) => AdapterUnderTest;

/**
 * The conformance cases of an adapter. `make` must return a fresh adapter for each scenario; a case calls it once
 * or more. The case that no request is sent before the first batch is read needs an adapter with `calls`.
 */
export function adapterSuite(make: Make): readonly ConformanceCase[] {
  return casesOf({
    ...beginnings(make),
    ...replies(make),
    ...toolCalls(make),
    ...failureCases(make),
    ...interruptions(make),
    ...preflightCases(make),
    ...allScenarios(make),
  });
}

const rules = {
  lazy: "the adapter sends no request before the first batch is read",
  closes: "returning early, or aborting the signal, closes the connection exactly once",
  order:
    "message_started comes first, then deltas, then exactly one terminal event; only usage and raw_chunk may follow it",
  calls:
    "each call is tool_call_started, deltas, tool_call_completed, with parsed arguments and the text of the model in rawArguments",
  thrown: "a problem that is detected before the request is thrown as an Everturn error before the first event",
  answered: "an error response of the provider is an error event and is never thrown",
  events: "an adapter emits model events only",
  complete: "the events of a reply add up to the reply",
  usage: "the adapter reports the usage of a call",
  cut: "a stream without its end is not a complete reply",
  raw: "raw_chunk events are emitted only if the call asks for them",
  secret: "the API key appears in no event, response or error",
};

const apiKey = "sk-conformance-4f9a2c7e1b";
const hello: AdapterScenario = {
  type: "text",
  texts: ["Hel", "lo ", "there."],
  usage: { inputTokens: 11, outputTokens: 7 },
};
const twoCalls = {
  type: "tool_calls",
  calls: [
    { id: "call_a", name: "weather", arguments: { city: "Oslo", days: [1, 2], when: null } },
    { id: "call_b", name: "time", arguments: {} },
  ],
} satisfies AdapterScenario;
const inPieces = {
  type: "streamed_arguments",
  id: "call_c",
  name: "weather",
  pieces: ['{"ci', 'ty":"Os', 'lo","days":[1,', "2]}"],
} satisfies AdapterScenario;
const badPieces = {
  type: "streamed_arguments",
  id: "call_d",
  name: "weather",
  pieces: ['{"city":', ' "Oslo'],
} satisfies AdapterScenario;
const interrupted: AdapterScenario = { type: "interrupted", texts: ["Hel", "lo"] };
const stalled: AdapterScenario = { type: "stalled", texts: ["Hel", "lo"] };

type ProviderFails = Extract<AdapterScenario, { readonly type: "failure" }>;

function answers(reason: AdapterErrorReason, status: number, retryAfterMs: number | null = null): ProviderFails {
  return { type: "failure", reason, status, retryAfterMs, requestId: "req_conformance" };
}

function breaksWith(reason: AdapterErrorReason): ProviderFails {
  return { type: "failure", reason, status: null, retryAfterMs: null, requestId: null };
}

const providerFailures: readonly ProviderFails[] = [
  answers("authentication_failed", 401),
  answers("rate_limited", 429, 2000),
  breaksWith("timeout"),
  breaksWith("network_error"),
  answers("invalid_request", 400),
  answers("context_length_exceeded", 400),
  answers("content_filter", 400),
  answers("provider_unavailable", 503),
  breaksWith("malformed_response"),
  answers("unsupported_feature", 400),
];
/** The reasons whose failures have `retryable: true`. */
const retryableReasons: readonly AdapterErrorReason[] = [
  "rate_limited",
  "timeout",
  "network_error",
  "provider_unavailable",
];

function beginnings(make: Make): Cases {
  return {
    "a stream that is not read sends no request, and stream() does not throw": async () => {
      for (const scenario of [hello, preflight("invalid_request")]) {
        const adapter = make(scenario);
        const thrown = await thrownBy(() => {
          open(adapter, new AbortController().signal)[Symbol.asyncIterator]();
        });
        holds(thrown === null, rules.lazy, "stream() not to throw", thrown?.error);
        await nextTask();
        const requestCount = adapter.calls?.length ?? 0;
        holds(requestCount === 0, rules.lazy, "no request", `${requestCount} requests`);
      }
    },
    "a reply begins with message_started": async () => {
      for (const scenario of [hello, twoCalls, inPieces]) checkStart(await playedEvents(make, scenario));
    },
    "an error response of the provider follows message_started": async () =>
      checkStart(await playedEvents(make, answers("rate_limited", 429))),
  };
}

function checkStart(events: readonly ModelEvent[]): void {
  const starts = typesOf(events).flatMap((type, index) => (type === "message_started" ? [index] : []));
  holds(written(starts) === "[0]", rules.order, "message_started as the first event, once", typesOf(events));
}

function replies(make: Make): Cases {
  return {
    "the deltas and the completed message have the full text": async () => {
      const events = await playedEvents(make, hello);
      same(streamedText(events), "Hello there.", rules.complete, "the deltas");
      const { message } = completed(events);
      same(messageText(message), "Hello there.", rules.complete, "the text of message_completed");
    },
    "a reply has one terminal event, and only usage and raw chunks follow it": async () => {
      for (const scenario of [hello, twoCalls, inPieces]) {
        const types = typesOf(await playedEvents(make, scenario));
        const end = types.findIndex(isTerminal);
        holds(end !== -1, rules.order, "a terminal event", types);
        const trailing = types.slice(end + 1).filter((type) => type !== "usage" && type !== "raw_chunk");
        holds(trailing.length === 0, rules.order, "only usage and raw_chunk after the terminal event", types);
      }
    },
    "a text reply has the finish reason stop": async () =>
      same(completed(await playedEvents(make, hello)).finishReason, "stop", rules.complete, "finishReason"),
    "the usage of a call is reported": async () => {
      const last = (await playedEvents(make, hello)).findLast((event) => event.type === "usage");
      holds(last !== undefined, rules.usage, "a usage event", "none");
      const { inputTokens, outputTokens }: Partial<Usage> = last.usage;
      const expected = { inputTokens: 11, outputTokens: 7 };
      same({ inputTokens, outputTokens }, expected, rules.usage, "the last usage");
    },
    "raw chunks are not emitted unless they are requested": async () => {
      const types = typesOf(await playedEvents(make, hello));
      holds(!types.includes("raw_chunk"), rules.raw, "no raw_chunk", types);
    },
  };
}

function toolCalls(make: Make): Cases {
  return {
    "each tool call is started, then completed, with parsed arguments": async () => {
      const events = await playedEvents(make, twoCalls);
      for (const { id, name, arguments: args } of twoCalls.calls) {
        const callEvents = eventsOfCall(events, id);
        const types = typesOf(callEvents).filter((type) => type !== "tool_call_delta");
        same(types, ["tool_call_started", "tool_call_completed"], rules.calls, `the events of ${id}`);
        same(typesOf(callEvents).at(-1), "tool_call_completed", rules.calls, `the last event of ${id}`);
        const call = completedCall(events, id);
        same({ name: call.name, arguments: call.arguments }, { name, arguments: args }, rules.calls, id);
      }
      const ids = twoCalls.calls.map(({ id }) => id);
      const order = events.flatMap((event) => (event.type === "tool_call_completed" ? [event.id] : []));
      same(order, ids, rules.calls, "the order of the calls");
      const inMessage = completed(events).message.toolCalls.map(({ id }) => id);
      same(inMessage, ids, rules.complete, "the calls of message_completed");
    },
    "rawArguments has the arguments as the model wrote them": async () => {
      // If the provider sends arguments as objects, there is no text: rawArguments is null.
      for (const call of twoCalls.calls) {
        const { rawArguments } = completedCall(await playedEvents(make, twoCalls), call.id);
        if (rawArguments !== null) same(parsed(rawArguments), call.arguments, rules.calls, "the parsed rawArguments");
      }
      const { rawArguments } = completedCall(await playedEvents(make, inPieces), inPieces.id);
      if (rawArguments === null) return;
      same(rawArguments, inPieces.pieces.join(""), rules.calls, "rawArguments of a call with streamed arguments");
    },
    "streamed arguments add up": async () => {
      const events = await playedEvents(make, inPieces);
      const pieces = events.flatMap((event) => (event.type === "tool_call_delta" ? [event.argumentsDelta] : []));
      same(pieces.join(""), inPieces.pieces.join(""), rules.calls, "the deltas of the call");
      const { arguments: args } = completedCall(events, inPieces.id);
      same(args, parsed(inPieces.pieces.join("")), rules.calls, "the arguments");
    },
    "arguments that are not JSON are null, and rawArguments has their text": async () => {
      const { arguments: args, rawArguments } = completedCall(await playedEvents(make, badPieces), badPieces.id);
      const expected = { args: null, rawArguments: badPieces.pieces.join("") };
      same({ args, rawArguments }, expected, rules.calls, "the call");
    },
    "a reply with tool calls has the finish reason tool_calls": async () => {
      for (const scenario of [twoCalls, inPieces]) {
        same(completed(await playedEvents(make, scenario)).finishReason, "tool_calls", rules.complete, "finishReason");
      }
    },
  };
}

function failureCases(make: Make): Cases {
  const checkFailure = async (scenario: ProviderFails): Promise<void> => {
    const { reason, status, retryAfterMs, requestId } = scenario;
    const events = await playedEvents(make, scenario);
    const ends = events.filter(({ type }) => isTerminal(type));
    const [end] = ends;
    const isError = ends.length === 1 && end?.type === "error";
    holds(isError, rules.answered, "one error event as the terminal event", typesOf(events));
    const { error } = end;
    holds(error.type === "adapter_error", rules.answered, "an adapter_error", error);
    same(error.reason, reason, rules.answered, "the reason");
    const retryable = retryableReasons.includes(reason);
    same(error.retryable, retryable, "retryable follows from the reason", "retryable");
    if (status !== null) same(error.status, status, rules.answered, "the status");
    if (retryAfterMs !== null) same(error.retryAfterMs, retryAfterMs, rules.answered, "retryAfterMs");
    if (requestId !== null) same(error.requestId, requestId, rules.answered, "the provider's requestId");
  };
  return Object.fromEntries(
    providerFailures.map((scenario) => [
      `${scenario.reason} is an error event with the details of the provider`,
      () => checkFailure(scenario),
    ]),
  );
}

function interruptions(make: Make): Cases {
  return {
    "an interrupted stream is not reported as complete": async () => {
      const events = await playedEvents(make, interrupted);
      same(streamedText(events), "Hello", rules.complete, "the received deltas");
      const ends = typesOf(events).filter(isTerminal);
      const isInterrupted = ends.length === 0 || written(ends) === '["error"]';
      holds(isInterrupted, rules.cut, "no terminal event, or an error event", typesOf(events));
    },
    "returning early closes a stalled stream, at once and exactly once": async () => {
      const adapter = make(stalled);
      const reading = open(adapter, new AbortController().signal)[Symbol.asyncIterator]();
      await readText(reading, "Hello");
      holds(reading.return !== undefined, rules.closes, "the iterator to have return()", "none");
      await within(promptMs, reading.return(), rules.closes, "return() to resolve");
      const after = await within(promptMs, reading.next(), rules.closes, "next() after return()");
      holds(after.done === true, rules.closes, "no event after return()", after);
      await reading.return();
      closedOnce(adapter);
    },
    "aborting the signal ends a stalled stream, at once and exactly once": async () => {
      const adapter = make(stalled);
      const stop = new AbortController();
      const reading = open(adapter, stop.signal)[Symbol.asyncIterator]();
      await readText(reading, "Hello");
      const remaining = remainingEvents(reading);
      stop.abort();
      const types = typesOf(await within(promptMs, remaining, rules.closes, "the stream to end after the abort"));
      holds(!types.includes("message_completed"), rules.cut, "no message_completed after the abort", types);
      closedOnce(adapter);
    },
  };
}

function preflightCases(make: Make): Cases {
  const checkThrown = async (reason: PreflightReason): Promise<void> => {
    const { events, thrown } = await play(make, preflight(reason));
    holds(events.length === 0, rules.thrown, "no event", typesOf(events));
    const error = thrown?.error;
    if (!isEverturnError(error)) throw broken(rules.thrown, "an Everturn error", error);
    const allowed = reason === "missing_key" ? ["missing_key", "authentication_failed"] : [reason];
    holds(allowed.includes(error.reason), rules.thrown, `the reason ${allowed.join(" or ")}`, error.reason);
  };
  return Object.fromEntries(
    preflightReasons.map((reason) => [`${reason} is thrown before the first event`, () => checkThrown(reason)]),
  );
}

function allScenarios(make: Make): Cases {
  return {
    "a stream emits model events only": async () => {
      for (const scenario of everyScenario) {
        const { events } = await play(make, scenario);
        const otherEvent: unknown = events.find((event) => !isModelEvent(event));
        holds(otherEvent === undefined, rules.events, `model events for "${scenario.type}"`, otherEvent);
      }
    },
    "the API key of a call is in no event and no error": async () => {
      for (const scenario of everyScenario) {
        const { events, thrown } = await play(make, scenario);
        const error = thrown?.error;
        const failure = isEverturnError(error) ? error.failure : null;
        const outputs = [...events, failure, error instanceof Error ? error.message : null];
        const leak = outputs.find((output) => written(output).includes(apiKey));
        holds(leak === undefined, rules.secret, `no API key in the output of "${scenario.type}"`, leak);
      }
    },
  };
}

const everyScenario: readonly AdapterScenario[] = [
  hello,
  twoCalls,
  inPieces,
  badPieces,
  interrupted,
  stalled,
  ...providerFailures,
  ...preflightReasons.map(preflight),
];

function preflight(reason: PreflightReason): AdapterScenario {
  return { type: "preflight", reason };
}

function open(adapter: Adapter, signal: AbortSignal): AsyncIterable<readonly ModelEvent[]> {
  const modelRequest = request([user("Hello.")], {
    model: "conformance",
    tools: ["weather", "time"].map((name) => toolSpec({ name, description: name, schema: { type: "object" } })),
  });
  return adapter.stream(modelRequest, {
    signal,
    requestId: "conformance",
    options: {},
    apiKey,
    rawChunks: false,
    clock: systemClock,
    attempt: 1,
  });
}

type Played = { readonly events: readonly ModelEvent[]; readonly thrown: { readonly error: unknown } | null };

/** Reads a scenario to its end. A stalled scenario is aborted once its texts have been received. */
async function play(make: Make, scenario: AdapterScenario): Promise<Played> {
  const stop = new AbortController();
  const events: ModelEvent[] = [];
  const reading = async (): Promise<void> => {
    for await (const batch of open(make(scenario), stop.signal)) {
      events.push(...batch);
      if (scenario.type === "stalled" && streamedText(events) === scenario.texts.join("")) stop.abort();
    }
  };
  try {
    const what = `the stream of "${scenario.type}" to end`;
    const thrown = await within(patienceMs, thrownBy(reading), rules.order, what);
    return { events, thrown };
  } finally {
    stop.abort();
  }
}

/** Returns the events of a scenario in which the stream must not throw. */
async function playedEvents(make: Make, scenario: AdapterScenario): Promise<readonly ModelEvent[]> {
  const { events, thrown } = await play(make, scenario);
  holds(thrown === null, rules.answered, `the stream of "${scenario.type}" not to throw`, thrown?.error);
  return events;
}

/** Reads until the text has been received. */
async function readText(reading: AsyncIterator<readonly ModelEvent[]>, text: string): Promise<void> {
  const events: ModelEvent[] = [];
  while (streamedText(events) !== text) {
    const next = await within(patienceMs, reading.next(), rules.complete, `the text "${text}"`);
    holds(next.done !== true, rules.complete, `the text "${text}" before the end`, streamedText(events));
    events.push(...next.value);
  }
}

/** Reads the stream to its end and returns its events, whether or not it throws. */
async function remainingEvents(reading: AsyncIterator<readonly ModelEvent[]>): Promise<readonly ModelEvent[]> {
  const events: ModelEvent[] = [];
  await thrownBy(async () => {
    for (let next = await reading.next(); next.done !== true; next = await reading.next()) events.push(...next.value);
  });
  return events;
}

/** Checks that exactly one stream was closed, if the adapter counts them. */
function closedOnce({ closed = 1 }: AdapterUnderTest): void {
  holds(closed === 1, rules.closes, "the stream to be closed once", closed);
}

function isTerminal(type: ModelEvent["type"]): boolean {
  return type === "message_completed" || type === "error";
}

function typesOf(events: readonly ModelEvent[]): readonly ModelEvent["type"][] {
  return events.map(({ type }) => type);
}

function streamedText(events: readonly ModelEvent[]): string {
  return events.map((event) => (event.type === "text_delta" ? event.delta : "")).join("");
}

function eventsOfCall(events: readonly ModelEvent[], callId: string): readonly ModelEvent[] {
  return events.filter(
    (event) =>
      (event.type === "tool_call_started" ||
        event.type === "tool_call_delta" ||
        event.type === "tool_call_completed") &&
      event.id === callId,
  );
}

function completed(events: readonly ModelEvent[]): MessageCompleted {
  const end = events.find((event) => event.type === "message_completed");
  holds(end !== undefined, rules.order, "message_completed", typesOf(events));
  return end;
}

function completedCall(events: readonly ModelEvent[], callId: string) {
  const call = events.find((event) => event.type === "tool_call_completed" && event.id === callId);
  holds(call?.type === "tool_call_completed", rules.calls, `tool_call_completed for ${callId}`, typesOf(events));
  return call;
}

/** Parses JSON text. Returns the text itself if it is not JSON, so that the comparison reports it. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
