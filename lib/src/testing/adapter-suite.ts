// What every adapter has to keep: the rules E1 of engine/adapter.ts, a case each. Whoever wrote an adapter makes it play the scenarios below,
// by whatever stands in for its provider: a scripted `fetch`, a server of its own, a recording.

import type { Adapter } from "../engine/internal.ts";
import type { AdapterErrorReason, JsonObject, MessageCompleted, ModelEvent, Usage } from "../model/internal.ts";
import type { ConformanceCase } from "./conformance.ts";

import { nextTask, systemClock } from "../clock/clock.ts";
import { isEvent, isEverturnError, messageText, request, toolSpec, user } from "../model/internal.ts";
import { broken, holds, patienceMs, promptMs, same, thrownBy, within, written } from "./conformance.ts";

/** What the provider of the adapter under test does with its one request. */
export type AdapterScenario =
  /** Says these pieces, and that it is done. */
  | {
      readonly type: "text";
      readonly texts: readonly string[];
      readonly usage?: { readonly inputTokens: number; readonly outputTokens: number };
    }
  /** Makes these calls, and nothing else. */
  | { readonly type: "tool_calls"; readonly calls: readonly ScenarioCall[] }
  /** Makes one call, whose arguments arrive in these pieces. Together they need not be JSON. */
  | {
      readonly type: "streamed_arguments";
      readonly id: string;
      readonly name: string;
      readonly pieces: readonly string[];
    }
  /** Answers that it will not, or cannot be reached: with this status, these words about waiting, this id, as far as they are given. */
  | {
      readonly type: "failure";
      readonly reason: AdapterErrorReason;
      readonly status: number | null;
      readonly retryAfterMs: number | null;
      readonly requestId: string | null;
    }
  /** Is never asked: the adapter sees by itself that there is no key, or that it cannot take the request. */
  | { readonly type: "preflight"; readonly reason: PreflightReason }
  /** Says these pieces, then the connection is gone, without an end. */
  | { readonly type: "interrupted"; readonly texts: readonly string[] }
  /** Says these pieces, then nothing more, with the connection open. */
  | { readonly type: "stalled"; readonly texts: readonly string[] };

type ScenarioCall = { readonly id: string; readonly name: string; readonly arguments: JsonObject };

/** What can be wrong before a request is made. A missing key may also be called `authentication_failed`. */
type PreflightReason = (typeof preflightReasons)[number];
const preflightReasons = ["missing_key", "invalid_request", "unsupported_feature"] as const;

/**
 * An adapter and, optionally, the requests its provider received and the number of closed streams. Without those
 * fields some cases check less.
 */
export type AdapterUnderTest = Adapter & {
  /** The requests that were made. */
  readonly calls?: readonly unknown[];
  /** How many streams have been closed. */
  readonly closed?: number;
};

type Make = (scenario: AdapterScenario) => AdapterUnderTest;

/**
 * The conformance cases of an adapter. `make` must return a fresh adapter for each scenario; a case calls it once
 * or more. That no request is sent before the first batch is read can only be checked if the adapter has `calls`.
 */
export function adapterSuite(make: Make): readonly ConformanceCase[] {
  return [
    ...beginnings(make),
    ...replies(make),
    ...toolCalls(make),
    ...providerFailures.map((failure) => failureCase(make, failure)),
    ...breaks(make),
    ...preflightReasons.map((reason) => preflightCase(make, reason)),
    ...everywhere(make),
  ];
}

const rules = {
  lazy: "nothing happens before the first batch is asked for",
  closes: "leaving early, or aborting the signal, closes what is open, once",
  order: "message_started comes first, then deltas, then exactly one terminal; only usage and raw_chunk may trail it",
  calls:
    "each call is tool_call_started, deltas, tool_call_completed, with its arguments parsed and what was written kept",
  thrown: "what is wrong before a request could be made is thrown as an Everturn error before the first event",
  answered: "what a provider answers is an error event and never thrown",
  events: "an adapter emits model events and nothing else",
  whole: "the events of a reply add up to it",
  usage: "what a call has cost is said as Usage",
  cut: "a stream that stopped without its end is no whole reply",
  raw: "raw_chunk events are for those who asked for them",
  secret: "a key is never shown",
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
const mayPass: readonly AdapterErrorReason[] = ["rate_limited", "timeout", "network_error", "provider_unavailable"];

function beginnings(make: Make): readonly ConformanceCase[] {
  return [
    {
      name: "a stream nobody reads makes no request, and asking for it does not throw",
      run: async () => {
        for (const scenario of [hello, preflight("invalid_request")]) {
          const adapter = make(scenario);
          const thrown = await thrownBy(() => {
            open(adapter, new AbortController().signal)[Symbol.asyncIterator]();
          });
          holds(thrown === null, rules.lazy, "stream() not to throw", thrown?.error);
          await nextTask();
          const made = adapter.calls?.length ?? 0;
          holds(made === 0, rules.lazy, "no request", `${made} requests`);
        }
      },
    },
    {
      name: "a reply begins with message_started",
      run: async () => {
        for (const scenario of [hello, twoCalls, inPieces]) startsWell(await heard(make, scenario));
      },
    },
    {
      name: "a failure the provider answered with comes after message_started too",
      run: async () => startsWell(await heard(make, answers("rate_limited", 429))),
    },
  ];
}

function startsWell(events: readonly ModelEvent[]): void {
  const starts = typesOf(events).flatMap((type, index) => (type === "message_started" ? [index] : []));
  holds(written(starts) === "[0]", rules.order, "message_started as the first event, once", typesOf(events));
}

function replies(make: Make): readonly ConformanceCase[] {
  return [
    {
      name: "the deltas of a text add up to it, and so does the whole message",
      run: async () => {
        const events = await heard(make, hello);
        same(textOf(events), "Hello there.", rules.whole, "the deltas");
        const { message } = completed(events);
        same(messageText(message), "Hello there.", rules.whole, "the text of message_completed");
      },
    },
    {
      name: "a reply has one end, and only usage and raw chunks come after it",
      run: async () => {
        for (const scenario of [hello, twoCalls, inPieces]) {
          const types = typesOf(await heard(make, scenario));
          const end = types.findIndex(isTerminal);
          holds(end !== -1, rules.order, "a terminal event", types);
          const trailing = types.slice(end + 1).filter((type) => type !== "usage" && type !== "raw_chunk");
          holds(trailing.length === 0, rules.order, "nothing but usage and raw_chunk after the end", types);
        }
      },
    },
    {
      name: "a text ends with the reason stop",
      run: async () => same(completed(await heard(make, hello)).finishReason, "stop", rules.whole, "finishReason"),
    },
    {
      name: "what a call cost is reported as usage",
      run: async () => {
        const last = (await heard(make, hello)).findLast((event) => event.type === "usage");
        holds(last !== undefined, rules.usage, "a usage event", "none");
        const { inputTokens, outputTokens }: Partial<Usage> = last.usage;
        const wanted = { inputTokens: 11, outputTokens: 7 };
        same({ inputTokens, outputTokens }, wanted, rules.usage, "the last usage");
      },
    },
    {
      name: "there are no raw chunks for those who did not ask",
      run: async () => {
        const types = typesOf(await heard(make, hello));
        holds(!types.includes("raw_chunk"), rules.raw, "no raw_chunk", types);
      },
    },
  ];
}

function toolCalls(make: Make): readonly ConformanceCase[] {
  return [
    {
      name: "each call is started, then completed, with its arguments parsed",
      run: async () => {
        const events = await heard(make, twoCalls);
        for (const { id, name, arguments: args } of twoCalls.calls) {
          const told = aboutCall(events, id);
          const types = typesOf(told).filter((type) => type !== "tool_call_delta");
          same(types, ["tool_call_started", "tool_call_completed"], rules.calls, `the events of ${id}`);
          same(typesOf(told).at(-1), "tool_call_completed", rules.calls, `the last event of ${id}`);
          const whole = wholeCall(events, id);
          same({ name: whole.name, arguments: whole.arguments }, { name, arguments: args }, rules.calls, id);
        }
        const ids = twoCalls.calls.map(({ id }) => id);
        const order = events.flatMap((event) => (event.type === "tool_call_completed" ? [event.id] : []));
        same(order, ids, rules.calls, "the order of the calls");
        const inMessage = completed(events).message.toolCalls.map(({ id }) => id);
        same(inMessage, ids, rules.whole, "the calls of message_completed");
      },
    },
    {
      name: "what the model wrote as arguments is kept",
      run: async () => {
        // A provider that sends objects has written nothing: null.
        for (const call of twoCalls.calls) {
          const { rawArguments } = wholeCall(await heard(make, twoCalls), call.id);
          if (rawArguments !== null) same(parsed(rawArguments), call.arguments, rules.calls, "rawArguments, read");
        }
        const { rawArguments } = wholeCall(await heard(make, inPieces), inPieces.id);
        if (rawArguments === null) return;
        same(rawArguments, inPieces.pieces.join(""), rules.calls, "rawArguments of a call that came in pieces");
      },
    },
    {
      name: "arguments that come in pieces add up",
      run: async () => {
        const events = await heard(make, inPieces);
        const pieces = events.flatMap((event) => (event.type === "tool_call_delta" ? [event.argumentsDelta] : []));
        same(pieces.join(""), inPieces.pieces.join(""), rules.calls, "the deltas of the call");
        const { arguments: args } = wholeCall(events, inPieces.id);
        same(args, parsed(inPieces.pieces.join("")), rules.calls, "the arguments");
      },
    },
    {
      name: "arguments that are no JSON are null, and kept as they were written",
      run: async () => {
        const { arguments: args, rawArguments } = wholeCall(await heard(make, badPieces), badPieces.id);
        const wanted = { args: null, rawArguments: badPieces.pieces.join("") };
        same({ args, rawArguments }, wanted, rules.calls, "the call");
      },
    },
    {
      name: "calls end with the reason tool_calls",
      run: async () => {
        for (const scenario of [twoCalls, inPieces]) {
          same(completed(await heard(make, scenario)).finishReason, "tool_calls", rules.whole, "finishReason");
        }
      },
    },
  ];
}

function failureCase(make: Make, scenario: ProviderFails): ConformanceCase {
  const { reason, status, retryAfterMs, requestId } = scenario;
  return {
    name: `${reason} is an error event, with what the provider said about it`,
    run: async () => {
      const events = await heard(make, scenario);
      const ends = events.filter(({ type }) => isTerminal(type));
      const [end] = ends;
      holds(ends.length === 1 && end?.type === "error", rules.answered, "one error event as the end", typesOf(events));
      const { error } = end;
      holds(error.type === "adapter_error", rules.answered, "an adapter_error", error);
      same(error.reason, reason, rules.answered, "the reason");
      const passes = mayPass.includes(reason);
      same(error.retryable, passes, "whether the same request may work later follows from the reason", "retryable");
      if (status !== null) same(error.status, status, rules.answered, "the status");
      if (retryAfterMs !== null) same(error.retryAfterMs, retryAfterMs, rules.answered, "retryAfterMs");
      if (requestId !== null) same(error.requestId, requestId, rules.answered, "the provider's requestId");
    },
  };
}

function breaks(make: Make): readonly ConformanceCase[] {
  return [
    {
      name: "a stream that breaks off is never taken for a whole reply",
      run: async () => {
        const events = await heard(make, interrupted);
        same(textOf(events), "Hello", rules.whole, "the deltas that came");
        const ends = typesOf(events).filter(isTerminal);
        const honest = ends.length === 0 || written(ends) === '["error"]';
        holds(honest, rules.cut, "no end, or an error as the end", typesOf(events));
      },
    },
    {
      name: "leaving early closes a stream that has stalled, at once and once",
      run: async () => {
        const adapter = make(stalled);
        const reading = open(adapter, new AbortController().signal)[Symbol.asyncIterator]();
        await readText(reading, "Hello");
        holds(reading.return !== undefined, rules.closes, "the stream to have return()", "none");
        await within(promptMs, reading.return(), rules.closes, "return() to be done");
        const after = await within(promptMs, reading.next(), rules.closes, "next() after return()");
        holds(after.done === true, rules.closes, "nothing more after return()", after);
        await reading.return();
        closedOnce(adapter);
      },
    },
    {
      name: "aborting ends a stream that has stalled, at once and once",
      run: async () => {
        const adapter = make(stalled);
        const stop = new AbortController();
        const reading = open(adapter, stop.signal)[Symbol.asyncIterator]();
        await readText(reading, "Hello");
        const rest = restOf(reading);
        stop.abort();
        const types = typesOf(await within(promptMs, rest, rules.closes, "the stream to end after the signal"));
        holds(!types.includes("message_completed"), rules.cut, "no message_completed after the signal", types);
        closedOnce(adapter);
      },
    },
  ];
}

function preflightCase(make: Make, reason: PreflightReason): ConformanceCase {
  return {
    name: `${reason} is thrown before the first event`,
    run: async () => {
      const { events, thrown } = await play(make, preflight(reason));
      holds(events.length === 0, rules.thrown, "no event", typesOf(events));
      const error = thrown?.error;
      if (!isEverturnError(error)) throw broken(rules.thrown, "an Everturn error", error);
      const meant = reason === "missing_key" ? ["missing_key", "authentication_failed"] : [reason];
      holds(meant.includes(error.reason), rules.thrown, `the reason ${meant.join(" or ")}`, error.reason);
    },
  };
}

function everywhere(make: Make): readonly ConformanceCase[] {
  return [
    {
      name: "everything a stream says is an event",
      run: async () => {
        for (const scenario of everyScenario) {
          const { events } = await play(make, scenario);
          const stranger: unknown = events.find((event) => !isEvent(event) || !(event.type in modelEventTypes));
          holds(stranger === undefined, rules.events, `model events for "${scenario.type}"`, stranger);
        }
      },
    },
    {
      name: "the key of a call is shown in no event and no error",
      run: async () => {
        for (const scenario of everyScenario) {
          const { events, thrown } = await play(make, scenario);
          const error = thrown?.error;
          const failure = isEverturnError(error) ? error.failure : null;
          const said = [...events, failure, error instanceof Error ? error.message : null];
          const found = said.find((one) => written(one).includes(apiKey));
          holds(found === undefined, rules.secret, `no key in what "${scenario.type}" says`, found);
        }
      },
    },
  ];
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

const modelEventTypes: { readonly [Type in ModelEvent["type"]]: true } = {
  message_started: true,
  text_delta: true,
  text_completed: true,
  reasoning_delta: true,
  reasoning_completed: true,
  tool_call_started: true,
  tool_call_delta: true,
  tool_call_completed: true,
  usage: true,
  message_completed: true,
  raw_chunk: true,
  error: true,
};

function preflight(reason: PreflightReason): AdapterScenario {
  return { type: "preflight", reason };
}

function open(adapter: Adapter, signal: AbortSignal): AsyncIterable<readonly ModelEvent[]> {
  const asked = request([user("Hello.")], {
    model: "conformance",
    tools: ["weather", "time"].map((name) => toolSpec({ name, description: name, schema: { type: "object" } })),
  });
  return adapter.stream(asked, {
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

/** A scenario read to its end; one that stalls is aborted when it has said what it says. */
async function play(make: Make, scenario: AdapterScenario): Promise<Played> {
  const stop = new AbortController();
  const events: ModelEvent[] = [];
  const reading = async (): Promise<void> => {
    for await (const batch of open(make(scenario), stop.signal)) {
      events.push(...batch);
      if (scenario.type === "stalled" && textOf(events) === scenario.texts.join("")) stop.abort();
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

/** The events of a scenario that has no business throwing. */
async function heard(make: Make, scenario: AdapterScenario): Promise<readonly ModelEvent[]> {
  const { events, thrown } = await play(make, scenario);
  holds(thrown === null, rules.answered, `the stream of "${scenario.type}" not to throw`, thrown?.error);
  return events;
}

/** Reads until a text is whole. */
async function readText(reading: AsyncIterator<readonly ModelEvent[]>, text: string): Promise<void> {
  const events: ModelEvent[] = [];
  while (textOf(events) !== text) {
    const next = await within(patienceMs, reading.next(), rules.whole, `the text "${text}"`);
    holds(next.done !== true, rules.whole, `the text "${text}" before the end`, textOf(events));
    events.push(...next.value);
  }
}

/** What else comes, until the stream ends, by throwing or not. */
async function restOf(reading: AsyncIterator<readonly ModelEvent[]>): Promise<readonly ModelEvent[]> {
  const events: ModelEvent[] = [];
  await thrownBy(async () => {
    for (let next = await reading.next(); next.done !== true; next = await reading.next()) events.push(...next.value);
  });
  return events;
}

function closedOnce({ closed = 1 }: AdapterUnderTest): void {
  holds(closed === 1, rules.closes, "one stream to be closed, once", closed);
}

function isTerminal(type: ModelEvent["type"]): boolean {
  return type === "message_completed" || type === "error";
}

function typesOf(events: readonly ModelEvent[]): readonly ModelEvent["type"][] {
  return events.map(({ type }) => type);
}

function textOf(events: readonly ModelEvent[]): string {
  return events.map((event) => (event.type === "text_delta" ? event.delta : "")).join("");
}

function aboutCall(events: readonly ModelEvent[], callId: string): readonly ModelEvent[] {
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

function wholeCall(events: readonly ModelEvent[], callId: string) {
  const whole = events.find((event) => event.type === "tool_call_completed" && event.id === callId);
  holds(whole?.type === "tool_call_completed", rules.calls, `tool_call_completed for ${callId}`, typesOf(events));
  return whole;
}

/** What a text says as JSON; the text itself when it is none, which then compares as different. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
