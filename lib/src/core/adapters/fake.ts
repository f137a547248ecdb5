// The scripted adapter for tests. It plays one script a call and records the calls.
//
// It is strict: a call without a script throws, steps after an error are not played, and `assertUsedUp` reports scripts
// that were never used. Its events satisfy the adapter suite of `everturn/testing`, except for the steps that break the
// contract on purpose (`cut`, `throw`).

import type { Adapter, AdapterCall, Clock, Rules } from "../engine/internal.ts";
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
  Warning,
} from "../model/internal.ts";

import { anything, checkOptions } from "../engine/internal.ts";
import {
  adapterFailure,
  AdapterError,
  assistant,
  invalidArgument,
  reasoningPart,
  streamFailure,
  textPart,
  toolCall,
  usage,
} from "../model/internal.ts";
import { checkUserContent } from "./user-content.ts";

/** One step of a script for {@link fake}: an output, a failure or a delay. */
export type FakeStep =
  /** One `text_delta`. Consecutive texts are one text of the message. */
  | { readonly type: "text"; readonly text: string }
  /** One `reasoning_delta`. */
  | { readonly type: "reasoning"; readonly text: string }
  /** A complete call. */
  | {
      readonly type: "tool_call";
      /** The name of the tool. */
      readonly name: string;
      /** The id of the call. Default: `call_<n>`, counted from 0 in each reply. */
      readonly id?: string;
      /** The parsed arguments; `null`: the model's text is no JSON object. Default: `{}`. */
      readonly arguments?: JsonObject | null;
      /** The text of the arguments. Default: the JSON of `arguments`. */
      readonly rawArguments?: string;
    }
  /**
   * A piece of a call's arguments. The call is complete when a step of another type follows, or at the end of the
   * script.
   */
  | {
      readonly type: "tool_call_delta";
      /** The id of the call. Another id starts another call. */
      readonly id: string;
      /** The name of the tool, in the first piece. */
      readonly name?: string;
      /** Appended to the JSON text of the arguments. */
      readonly argumentsDelta: string;
    }
  /** Usage of this call, merged over the adapter's `usage`. */
  | { readonly type: "usage"; readonly usage: Partial<Usage> }
  | { readonly type: "raw_chunk"; readonly chunk: Json }
  /** A warning about the request, as a real adapter reports a field that its API does not have. */
  | { readonly type: "warning"; readonly warning: Warning }
  /**
   * Ends the reply. Later steps are not played; `trailing` is. Without this step a script ends with `tool_calls` if it
   * has calls, otherwise with `stop`.
   */
  | { readonly type: "finish"; readonly reason: FinishReason; readonly trailing?: readonly FakeTrailing[] }
  /** Throws `AdapterError` before the first event. Only valid as the first step. */
  | ({ readonly type: "preflight_error"; readonly reason: AdapterErrorReason } & FakeDetails)
  /** Ends the stream with an error of the provider. */
  | ({ readonly type: "error"; readonly reason: AdapterErrorReason } & FakeDetails)
  /** Ends the stream with a failure of the stream itself. */
  | ({ readonly type: "stream_error"; readonly reason: StreamErrorReason } & FakeDetails)
  /** Ends the stream without a terminal event. */
  | { readonly type: "cut" }
  /** Throws an `Error` from the adapter. */
  | { readonly type: "throw"; readonly message: string }
  /** Waits on the clock, in milliseconds. */
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

/**
 * The step of a script in which the model writes a text.
 *
 * @example
 * ```ts
 * import { calls, chat, engine, fake, says, tool, unwrap } from "everturn";
 *
 * const clock = tool({ name: "clock", description: "The time.", schema: { type: "object" }, handler: () => "noon" });
 * const adapter = fake({ scripts: [calls("clock"), says("It is noon.")] });
 * unwrap(await chat(engine({ adapter, model: "fake:m", tools: [clock] }), "What time is it?")); // => "It is noon."
 * ```
 */
export function says(text: string): { readonly type: "text"; readonly text: string } {
  return { type: "text", text };
}

/**
 * The step of a script in which the model calls a tool. Without `id` the call is `call_<n>`, as in {@link FakeStep}.
 */
export function calls(
  name: string,
  args: JsonObject = {},
  id?: string,
): Extract<FakeStep, { readonly type: "tool_call" }> {
  return { type: "tool_call", name, arguments: args, ...(id === undefined ? {} : { id }) };
}

/** Options of {@link fake}. */
export type FakeOptions = {
  /** The script of the only call. Not together with `scripts`. A step alone is a script of one step. */
  readonly script?: FakeScript | FakeStep;
  /** One script for each call, in order. */
  readonly scripts?: readonly (FakeScript | FakeStep)[];
  /** The usage of every call whose script has no `usage` step. Default: none is reported. */
  readonly usage?: Partial<Usage>;
  /** Calls before this one, counted from 1, fail with `timeout` and use no script. Default: 1, none fails. */
  readonly retryUntilCall?: number;
  /** `delay` steps wait on it. Default: the clock of the engine that makes the call. */
  readonly clock?: Clock;
  /** The name of the provider. Default: `fake`. */
  readonly provider?: string;
};

const optionRules: Rules<FakeOptions> = {
  script: anything,
  scripts: anything,
  usage: anything,
  retryUntilCall: anything,
  clock: anything,
  provider: anything,
};

/** A scripted adapter that records its calls. */
export type FakeAdapter = Adapter & {
  /** The requests of all calls, in order. */
  readonly calls: readonly FakeCall[];
  /** The number of scripts that have not been used. */
  readonly remaining: number;
  /** The number of scripted streams that have ended or were closed early. */
  readonly closed: number;
  /** Throws if a script was not used. */
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
  checkOptions("fake", options, optionRules);
  const { provider = "fake", retryUntilCall = 1 } = options;
  const scripts = scriptsOf(options);
  const calls: FakeCall[] = [];
  let failedCalls = 0;
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
      throw new Error(`${scripts.length - next} of ${scripts.length} scripts of the fake adapter were not used`);
    },
    stream: (request, call) => ({
      async *[Symbol.asyncIterator]() {
        checkUserContent(request);
        calls.push({ request, call });
        if (failedCalls < retryUntilCall - 1) {
          failedCalls += 1;
          yield [started(), { type: "error", error: adapterFailure("timeout", { provider }) }];
          return;
        }
        const script = scripts[next];
        next += 1;
        if (script === undefined) {
          const message = `no scripted response: this is call ${next}, and the fake adapter has ${scripts.length} scripts`;
          throw new AdapterError("no_scripted_response", { provider, message, metadata: { call: next } });
        }
        try {
          yield* new ScriptedReply(provider, request, options.usage ?? {}, options.clock ?? call.clock).play(
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
    throw invalidArgument("fake: set either script or scripts, not both");
  }
  const all: unknown = scripts ?? (script === undefined ? [] : [script]);
  if (!Array.isArray(all) || !all.every((item) => [item].flat().every((step) => isStepOf(stepTypes, step)))) {
    throw invalidArgument("fake: script must be a step or a list of steps, and scripts a list of these");
  }
  const lists = all.map((item: FakeScript | FakeStep): FakeScript => ("type" in item ? [item] : item));
  const lateIndex = lists.findIndex((item: FakeScript) => item.slice(1).some(({ type }) => type === "preflight_error"));
  if (lateIndex !== -1)
    throw invalidArgument(`fake: script ${lateIndex}: a preflight_error can only be the first step`);
  return lists;
}

/** Is the value an object with one of these types? */
export function isStepOf(types: object, step: unknown): boolean {
  const type: unknown = typeof step === "object" && step !== null && "type" in step ? step.type : null;
  return typeof type === "string" && Object.hasOwn(types, type);
}

/** All types of steps; the compiler keeps the list complete. */
const stepTypes: { readonly [T in FakeStep["type"]]: true } = {
  text: true,
  reasoning: true,
  tool_call: true,
  tool_call_delta: true,
  usage: true,
  raw_chunk: true,
  warning: true,
  finish: true,
  preflight_error: true,
  error: true,
  stream_error: true,
  cut: true,
  throw: true,
  delay: true,
};

/** Plays one script. */
class ScriptedReply {
  readonly #provider: string;
  readonly #request: ModelRequest;
  readonly #usage: Partial<Usage>;
  readonly #clock: Clock;
  readonly #parts: (TextPart | ReasoningPart)[] = [];
  readonly #calls: ToolCall[] = [];
  #text = "";
  #openCall: { readonly id: string; readonly name: string; raw: string } | null = null;
  #hasReportedUsage = false;

  constructor(provider: string, request: ModelRequest, usageEvents: Partial<Usage>, clock: Clock) {
    this.#provider = provider;
    this.#request = request;
    this.#usage = usageEvents;
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
      if (step.type !== "tool_call_delta") yield* this.#closeOpenCall();
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
          for (const trailing of step.trailing ?? []) yield this.#emit(trailing);
          return;
        case "error":
        case "stream_error":
          yield [{ type: "error", error: scriptedFailure(this.#provider, step) }];
          return;
        case "preflight_error":
          break;
        case "text":
        case "reasoning":
        case "tool_call":
        case "tool_call_delta":
        case "usage":
        case "raw_chunk":
        case "warning":
          yield this.#emit(step);
          break;
      }
    }
    yield* this.#closeOpenCall();
    yield this.#end(this.#calls.length > 0 ? "tool_calls" : "stop");
  }

  #emit(
    step: Extract<
      FakeStep,
      { readonly type: "text" | "reasoning" | "tool_call" | "tool_call_delta" | "usage" | "raw_chunk" | "warning" }
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
        this.#hasReportedUsage = true;
        return [{ type: "usage", usage: usage({ ...this.#usage, ...step.usage }) }];
      case "raw_chunk":
        return [{ type: "raw_chunk", chunk: step.chunk }];
      case "warning":
        return [{ type: "warning", warning: step.warning }];
      case "tool_call": {
        const { name, id = `call_${this.#calls.length}` } = step;
        const args = step.arguments === undefined ? {} : step.arguments;
        return [
          this.#startCall(id, name),
          this.#completeCall(id, name, args, step.rawArguments ?? JSON.stringify(args ?? {})),
        ];
      }
      case "tool_call_delta": {
        const { id, name = "", argumentsDelta } = step;
        const isNewCall = this.#openCall?.id !== id;
        if (isNewCall) this.#openCall = { id, name, raw: "" };
        if (this.#openCall !== null) this.#openCall.raw += argumentsDelta;
        return [...(isNewCall ? [this.#startCall(id, name)] : []), { type: "tool_call_delta", id, argumentsDelta }];
      }
    }
  }

  #startCall(id: string, name: string): ModelEvent {
    return { type: "tool_call_started", id, name, providerExecuted: false };
  }

  #completeCall(id: string, name: string, args: JsonObject | null, rawArguments: string): ModelEvent {
    const call = toolCall({ id, name, arguments: args, rawArguments });
    this.#calls.push(call);
    return { type: "tool_call_completed", ...call, providerExecuted: false };
  }

  /** Completes the call whose arguments were scripted in pieces. */
  *#closeOpenCall(): Generator<readonly ModelEvent[]> {
    if (this.#openCall === null) return;
    const { id, name, raw } = this.#openCall;
    this.#openCall = null;
    yield [this.#completeCall(id, name, parsedObject(raw), raw)];
  }

  #end(finishReason: FinishReason): readonly ModelEvent[] {
    const { model } = this.#request;
    const name = typeof model === "string" ? model : (model?.id ?? null);
    const route = { provider: this.#provider, endpoint: "fake", model: name ?? "" };
    const usageEvents: readonly ModelEvent[] =
      this.#hasReportedUsage || Object.keys(this.#usage).length === 0
        ? []
        : [{ type: "usage", usage: usage(this.#usage) }];
    const text: readonly ModelEvent[] =
      this.#text === "" ? [] : [{ type: "text_completed", id: null, text: this.#text, phase: null, provider: null }];
    return [
      ...text,
      ...usageEvents,
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
    const isPlainText = this.#parts.every(({ type }) => type === "text");
    return isPlainText ? assistant(this.#text, { toolCalls }) : assistant(mergeAdjacent(this.#parts), { toolCalls });
  }
}

function started(): ModelEvent {
  return { type: "message_started", message: assistant("") };
}

/** Joins consecutive parts of one type. */
function mergeAdjacent(parts: readonly (TextPart | ReasoningPart)[]): readonly (TextPart | ReasoningPart)[] {
  return parts.reduce<readonly (TextPart | ReasoningPart)[]>((merged, part) => {
    const last = merged.at(-1);
    if (last === undefined || last.type !== part.type) return [...merged, part];
    return [...merged.slice(0, -1), { ...last, text: last.text + part.text }];
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

function scriptedFailure(
  provider: string,
  step: Extract<FakeStep, { readonly type: "error" | "stream_error" }>,
): Failure {
  if (step.type === "error") {
    const { type: _, reason, ...details } = step;
    return adapterFailure(reason, { provider, ...details });
  }
  const { type: _, reason, ...details } = step;
  return streamFailure(reason, { provider, ...details });
}
