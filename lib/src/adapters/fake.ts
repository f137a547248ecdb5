// A model that says what it was told to say. It is strict: a call nobody scripted is an error, an error ends the stream, and what was left
// over can be asked for.

import type { Adapter, AdapterCall, Clock } from "../engine/internal.ts";
import type {
  AdapterErrorReason,
  AssistantMessage,
  Failure,
  FinishReason,
  Json,
  JsonObject,
  ModelEvent,
  ModelRequest,
  ReasoningPart,
  StreamErrorReason,
  TextPart,
  ToolCall,
  Usage,
} from "../model/internal.ts";

import {
  adapterFailure,
  AdapterError,
  assistant,
  MisuseError,
  reasoningPart,
  streamFailure,
  textPart,
  toolCall,
  usage,
} from "../model/internal.ts";

/** One step of a script for {@link fake}: an output, a failure or a delay. */
export type FakeStep =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "reasoning"; readonly text: string }
  /** A whole call; without an id it is known by its place. */
  | {
      readonly type: "tool_call";
      readonly name: string;
      readonly id?: string;
      readonly arguments?: JsonObject | null;
      readonly rawArguments?: string;
    }
  /** A piece of a call's arguments; the call is whole when something else follows, or its end is scripted. */
  | { readonly type: "tool_call_delta"; readonly id: string; readonly name?: string; readonly argumentsDelta: string }
  | { readonly type: "usage"; readonly usage: Partial<Usage> }
  | { readonly type: "raw_chunk"; readonly chunk: Json }
  /** The reply is whole; what the script says behind it is not used. Without it a script ends as `stop`, or `tool_calls`. */
  | { readonly type: "finish"; readonly reason: FinishReason; readonly trailing?: readonly FakeTrailing[] }
  /** Fails before the first event: only as the first step. */
  | ({ readonly type: "preflight_error"; readonly reason: AdapterErrorReason } & FakeDetails)
  /** The provider says no, and the stream is over. */
  | ({ readonly type: "error"; readonly reason: AdapterErrorReason } & FakeDetails)
  /** The stream breaks. */
  | ({ readonly type: "stream_error"; readonly reason: StreamErrorReason } & FakeDetails)
  /** The stream stops without having come to its end. */
  | { readonly type: "cut" }
  /** The adapter itself breaks. */
  | { readonly type: "throw"; readonly message: string }
  /** Waits on the clock. */
  | { readonly type: "delay"; readonly ms: number };

type FakeTrailing = Extract<FakeStep, { readonly type: "usage" | "raw_chunk" }>;
type FakeDetails = {
  readonly message?: string;
  readonly status?: number;
  readonly retryAfterMs?: number;
  readonly requestId?: string;
  readonly retryable?: boolean;
};

/** What a {@link fake} adapter does in one call, in order. */
export type FakeScript = readonly FakeStep[];

export type FakeOptions = {
  /** One call. */
  readonly script?: FakeScript;
  /** A call each. */
  readonly scripts?: readonly FakeScript[];
  /** What every call costs, unless its script says otherwise. */
  readonly usage?: Partial<Usage>;
  /** Calls before this one, counted from 1, fail as if they had timed out. */
  readonly retryUntilCall?: number;
  /** `delay` steps wait on it. Default: the clock of the engine that makes the call. */
  readonly clock?: Clock;
  readonly provider?: string;
};

/** A scripted adapter that records its calls. */
export type FakeAdapter = Adapter & {
  /** What it was asked, in order. */
  readonly calls: readonly FakeCall[];
  /** Scripts that have not been used. */
  readonly remaining: number;
  /** Streams that were closed, for whatever reason. */
  readonly closed: number;
  /** Throws when a script was not used: a test that scripted more than happened says so. */
  readonly assertUsedUp: () => void;
};

type FakeCall = { readonly request: ModelRequest; readonly call: AdapterCall };

/**
 * An adapter that plays a script for every call, for tests. A call without a script throws `AdapterError` with the
 * reason `no_scripted_response`.
 *
 * @example
 * ```ts
 * import { chat, engine, fake } from "everturn";
 *
 * const adapter = fake({ script: [{ type: "text", text: "Hello." }] });
 * const result = await chat(engine({ adapter, model: "fake:m" }), "Hi!");
 * result.finalResponse?.outputText; // => "Hello."
 * ```
 */
export function fake(options: FakeOptions = {}): FakeAdapter {
  const { provider = "fake", retryUntilCall = 1 } = options;
  const scripts = scriptsOf(options);
  const calls: FakeCall[] = [];
  let failed = 0;
  let closed = 0;
  let next = 0;
  return {
    provider,
    get calls() {
      return calls;
    },
    get remaining() {
      return scripts.length - next;
    },
    get closed() {
      return closed;
    },
    assertUsedUp: () => {
      if (next === scripts.length) return;
      throw new Error(`the fake has ${scripts.length - next} of ${scripts.length} scripts left that nothing asked for`);
    },
    stream: (request, call) => ({
      async *[Symbol.asyncIterator]() {
        calls.push({ request, call });
        if (failed < retryUntilCall - 1) {
          failed += 1;
          yield [started(), { type: "error", error: adapterFailure("timeout", { provider }) }];
          return;
        }
        const script = scripts[next];
        next += 1;
        if (script === undefined) {
          const message = `no scripted response: this is call ${next}, and there are ${scripts.length} scripts`;
          throw new AdapterError("no_scripted_response", { provider, message, metadata: { call: next } });
        }
        try {
          yield* new Reply(provider, request, options.usage ?? {}, options.clock ?? call.clock).play(
            script,
            call.signal,
          );
        } finally {
          closed += 1;
        }
      },
    }),
  };
}

function scriptsOf({ script, scripts }: FakeOptions): readonly FakeScript[] {
  if (script !== undefined && scripts !== undefined) {
    throw new MisuseError("invalid_argument", "fake: give one script, or scripts, not both");
  }
  const all: unknown = scripts ?? (script === undefined ? [] : [script]);
  if (!Array.isArray(all) || !all.every((one) => Array.isArray(one) && one.every(isStep))) {
    throw new MisuseError("invalid_argument", "fake: a script is a list of steps, and scripts are a list of scripts");
  }
  const late = all.findIndex((one: FakeScript) => one.slice(1).some(({ type }) => type === "preflight_error"));
  if (late !== -1)
    throw new MisuseError("invalid_argument", `fake: script ${late}: a preflight_error can only be the first step`);
  return all;
}

function isStep(step: unknown): step is FakeStep {
  return (
    typeof step === "object" &&
    step !== null &&
    "type" in step &&
    typeof step.type === "string" &&
    step.type in stepTypes
  );
}

const stepTypes: { readonly [T in FakeStep["type"]]: true } = {
  text: true,
  reasoning: true,
  tool_call: true,
  tool_call_delta: true,
  usage: true,
  raw_chunk: true,
  finish: true,
  preflight_error: true,
  error: true,
  stream_error: true,
  cut: true,
  throw: true,
  delay: true,
};

/** One reply being given. */
class Reply {
  readonly #provider: string;
  readonly #request: ModelRequest;
  readonly #usage: Partial<Usage>;
  readonly #clock: Clock;
  readonly #parts: (TextPart | ReasoningPart)[] = [];
  readonly #calls: ToolCall[] = [];
  #text = "";
  #open: { readonly id: string; readonly name: string; raw: string } | null = null;
  #saidUsage = false;

  constructor(provider: string, request: ModelRequest, spent: Partial<Usage>, clock: Clock) {
    this.#provider = provider;
    this.#request = request;
    this.#usage = spent;
    this.#clock = clock;
  }

  async *play(script: FakeScript, signal: AbortSignal): AsyncGenerator<readonly ModelEvent[]> {
    const [first] = script;
    if (first?.type === "preflight_error") {
      const { type: _, reason, ...details } = first;
      throw new AdapterError(reason, { provider: this.#provider, ...details });
    }
    yield [started()];
    for (const step of script) {
      signal.throwIfAborted();
      if (step.type !== "tool_call_delta") yield* this.#closeCall();
      switch (step.type) {
        case "delay":
          await this.#clock.sleep(step.ms, signal);
          break;
        case "cut":
          return;
        case "throw":
          throw new Error(step.message);
        case "finish":
          yield this.#end(step.reason);
          for (const trailing of step.trailing ?? []) yield this.#say(trailing);
          return;
        case "error":
        case "stream_error":
          yield [{ type: "error", error: failureOf(this.#provider, step) }];
          return;
        case "preflight_error":
          break;
        case "text":
        case "reasoning":
        case "tool_call":
        case "tool_call_delta":
        case "usage":
        case "raw_chunk":
          yield this.#say(step);
          break;
      }
    }
    yield* this.#closeCall();
    yield this.#end(this.#calls.length > 0 ? "tool_calls" : "stop");
  }

  #say(
    step: Extract<
      FakeStep,
      { readonly type: "text" | "reasoning" | "tool_call" | "tool_call_delta" | "usage" | "raw_chunk" }
    >,
  ): readonly ModelEvent[] {
    switch (step.type) {
      case "text":
        this.#text += step.text;
        this.#parts.push(textPart(step.text));
        return [{ type: "text_delta", id: null, delta: step.text }];
      case "reasoning":
        this.#parts.push(reasoningPart(step.text));
        return [{ type: "reasoning_delta", id: null, delta: step.text }];
      case "usage":
        this.#saidUsage = true;
        return [{ type: "usage", usage: usage({ ...this.#usage, ...step.usage }) }];
      case "raw_chunk":
        return [{ type: "raw_chunk", chunk: step.chunk }];
      case "tool_call": {
        const { name, id = `call_${this.#calls.length}` } = step;
        const args = step.arguments === undefined ? {} : step.arguments;
        return [this.#start(id, name), this.#whole(id, name, args, step.rawArguments ?? JSON.stringify(args ?? {}))];
      }
      case "tool_call_delta": {
        const { id, name = "", argumentsDelta } = step;
        const begins = this.#open?.id !== id;
        if (begins) this.#open = { id, name, raw: "" };
        if (this.#open !== null) this.#open.raw += argumentsDelta;
        return [...(begins ? [this.#start(id, name)] : []), { type: "tool_call_delta", id, argumentsDelta }];
      }
    }
  }

  #start(id: string, name: string): ModelEvent {
    return { type: "tool_call_started", id, name, providerExecuted: false };
  }

  #whole(id: string, name: string, args: JsonObject | null, rawArguments: string): ModelEvent {
    const call = toolCall({ id, name, arguments: args, rawArguments });
    this.#calls.push(call);
    return { type: "tool_call_completed", ...call, providerExecuted: false };
  }

  /** A call that came in pieces is whole. */
  *#closeCall(): Generator<readonly ModelEvent[]> {
    if (this.#open === null) return;
    const { id, name, raw } = this.#open;
    this.#open = null;
    yield [this.#whole(id, name, parsedObject(raw), raw)];
  }

  #end(finishReason: FinishReason): readonly ModelEvent[] {
    const { model } = this.#request;
    const name = typeof model === "string" ? model : (model?.id ?? null);
    const route = { provider: this.#provider, endpoint: "fake", model: name ?? "" };
    const spent: readonly ModelEvent[] =
      this.#saidUsage || Object.keys(this.#usage).length === 0 ? [] : [{ type: "usage", usage: usage(this.#usage) }];
    const text: readonly ModelEvent[] =
      this.#text === "" ? [] : [{ type: "text_completed", id: null, text: this.#text, phase: null, provider: null }];
    return [
      ...text,
      ...spent,
      {
        type: "message_completed",
        message: this.#message(),
        finishReason,
        rawFinishReason: null,
        requestId: null,
        responseId: null,
        model: name,
        route,
        output: null,
        metadata: {},
      },
    ];
  }

  #message(): AssistantMessage {
    const toolCalls = this.#calls;
    const plain = this.#parts.every(({ type }) => type === "text");
    return plain ? assistant(this.#text, { toolCalls }) : assistant(joined(this.#parts), { toolCalls });
  }
}

function started(): ModelEvent {
  return { type: "message_started", message: assistant("") };
}

/** Pieces of text that follow each other are one text. */
function joined(parts: readonly (TextPart | ReasoningPart)[]): readonly (TextPart | ReasoningPart)[] {
  return parts.reduce<readonly (TextPart | ReasoningPart)[]>((before, part) => {
    const last = before.at(-1);
    if (last === undefined || last.type !== part.type) return [...before, part];
    return [...before.slice(0, -1), { ...last, text: last.text + part.text }];
  }, []);
}

function parsedObject(raw: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(raw);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? toolCall({ id: "x", name: "x", arguments: { ...value } }).arguments
      : null;
  } catch {
    return null;
  }
}

function failureOf(provider: string, step: Extract<FakeStep, { readonly type: "error" | "stream_error" }>): Failure {
  if (step.type === "error") {
    const { type: _, reason, ...details } = step;
    return adapterFailure(reason, { provider, ...details });
  }
  const { type: _, reason, ...details } = step;
  return streamFailure(reason, { provider, ...details });
}
