// A language model of the AI SDK as an adapter. Every provider with an AI SDK package (Bedrock, Vertex, about 45
// others) then works with durable turns.
//
// Theory of operation of one call
//   1. resolve       the model: the one that was given, or the one that the provider creates for the name in the
//                    request
//   2. encodeCall    the request as call options of the model's specification
//   3. beforeRequest rejects if this process has lost the lease of the turn (fencing)
//   4. doStream      the package of the provider sends the request
//   5. ReplyDecoder  its parts become events, one batch a part
//   The packages do not retry; the retries of the run apply.
//
// Invariants
//   1. Nothing is called before the first batch is read (E1).
//   2. An aborted call, and an iteration that returns early, abort the signal of `doStream` and cancel its stream, also
//      if the model ignores the signal.
//   3. The longest silence between two parts is limited (`timeoutMs`), because the packages have no timeouts of their
//      own.
//   4. The route of replay data is `model.provider`, the endpoint of the options, and `model.modelId`. Signatures of
//      one cloud are not valid in another, and the names of their packages differ.

import type { Adapter, AdapterCall, Rules } from "../../core/engine/internal.ts";
import type { ModelEvent, ModelName, ModelRequest, ProviderRoute } from "../../core/model/internal.ts";
import type { Target } from "./encode.ts";
import type { AiSdkLanguageModel, AiSdkProvider, AiSdkStreamResult, StreamPart } from "./specification.ts";

import { checkCallOptions, checkUserContent, headersOfCall, modelNameFor } from "../../core/adapters/internal.ts";
import { Deadline } from "../../core/clock/timer.ts";
import { failureWithoutKey, anything, checkOptions, positive } from "../../core/engine/internal.ts";
import {
  adapterFailure,
  assistant,
  EngineError,
  invalidArgument,
  isEverturnError,
  streamFailure,
} from "../../core/model/internal.ts";
import { warningsOf } from "../../core/wire/internal.ts";
import { ReplyDecoder } from "./decode.ts";
import { encodeCall } from "./encode.ts";
import { failureOfError, preflightError } from "./failure.ts";
import { specificationOf } from "./specification.ts";

/** Creates the model for a call: by its name in the request, and with the API key of the call, if it has one. */
type AiSdkModelFactory = (modelId: string, call: { readonly apiKey: string | null }) => AiSdkLanguageModel;

/** Options of {@link aiSdkAdapter}. */
type AiSdkAdapterOptions = {
  /**
   * The name of the adapter in failures and model names. Default: `provider` of the model; `ai-sdk` for a provider or a
   * function.
   */
  readonly provider?: string;
  /**
   * What distinguishes this server from others with the same models, for example a base URL or a region that you set.
   * Signatures and other replay data go back to the same endpoint only. Default: `ai-sdk`.
   */
  readonly endpoint?: string;
  /**
   * The longest time without a part of the stream, in milliseconds. The call then fails with `timeout`, which is
   * retried. Default: 300,000; `null`: no limit.
   */
  readonly timeoutMs?: number | null;
};

const optionRules: Rules<AiSdkAdapterOptions> = {
  provider: anything,
  endpoint: anything,
  timeoutMs: {
    ...positive,
    must: "a number of milliseconds above 0, or null",
    fits: (value) => value === null || positive.fits(value),
  },
};
const defaultTimeoutMs = 300_000;

/**
 * Makes model calls with a language model of the AI SDK: one model, a provider whose models the engine names, or a
 * function that creates the model of a call. Specifications v2, v3 and v4 (AI SDK 5, 6 and 7). Throws `MisuseError` for
 * another value.
 *
 * @example
 * ```ts
 * import { chat, engine } from "everturn";
 * import { aiSdkAdapter } from "everturn/ai-sdk";
 *
 * // In a program: import { bedrock } from "@ai-sdk/amazon-bedrock", and aiSdkAdapter(bedrock).
 * const parts = [
 *   { type: "text-delta", id: "0", delta: "Hello." },
 *   { type: "finish", finishReason: { unified: "stop", raw: "end_turn" }, usage: {} },
 * ];
 * const model = {
 *   specificationVersion: "v3",
 *   provider: "demo",
 *   modelId: "m",
 *   doStream: async () => ({
 *     stream: new ReadableStream<{ type: string }>({
 *       start: (controller) => {
 *         for (const part of parts) controller.enqueue(part);
 *         controller.close();
 *       },
 *     }),
 *   }),
 * };
 * (await chat(engine({ adapter: aiSdkAdapter(model) }), "Hi!")).finalResponse?.outputText; // => "Hello."
 * ```
 */
export function aiSdkAdapter(
  source: AiSdkLanguageModel | AiSdkProvider | AiSdkModelFactory,
  options: AiSdkAdapterOptions = {},
): Adapter {
  checkOptions("aiSdkAdapter", options, optionRules);
  const { timeoutMs = defaultTimeoutMs, endpoint = "ai-sdk" } = options;
  const only = isModel(source) ? checkedModel(source) : null;
  const provider = options.provider ?? only?.provider ?? "ai-sdk";
  const settings: Settings = { source, only, provider, endpoint, timeoutMs };
  return {
    provider,
    ...(endpoint === "" ? {} : { endpoint }),
    checkModel: (model) => void requiredName(settings, model),
    checkOptions: (adapterOptions) => checkCallOptions(provider, adapterOptions),
    stream: (request, call) => ({ [Symbol.asyncIterator]: () => streamReply(settings, request, call) }),
  };
}

type Settings = {
  readonly source: AiSdkLanguageModel | AiSdkProvider | AiSdkModelFactory;
  /** The model, if the adapter has only one. */
  readonly only: AiSdkLanguageModel | null;
  readonly provider: string;
  readonly endpoint: string;
  readonly timeoutMs: number | null;
};

function isModel(source: Settings["source"]): source is AiSdkLanguageModel {
  return "doStream" in source && typeof source.doStream === "function";
}

function isProvider(source: Settings["source"]): source is AiSdkProvider {
  return "languageModel" in source && typeof source.languageModel === "function";
}

/** Throws `MisuseError` for a model of a specification that the bridge does not know. */
function checkedModel(model: AiSdkLanguageModel): AiSdkLanguageModel {
  if (specificationOf(model) !== null) return model;
  const message = `aiSdkAdapter: the model ${model.modelId} has the specification ${String(model.specificationVersion)}; v2, v3 and v4 are supported`;
  throw invalidArgument(message);
}

/**
 * The name of the model to call. Throws `EngineError` (`missing_model`) if there is none, or if the adapter has another
 * model only.
 */
function requiredName({ only, provider }: Settings, model: ModelName | null): string {
  const name = modelNameFor({ provider, ownPrefixes: "any" }, model);
  if (only !== null && (name === "" || name === only.modelId)) return only.modelId;
  if (only !== null) {
    const message = `the adapter calls the model ${only.modelId} only, and the engine names ${name}; pass the provider to aiSdkAdapter instead of a model, or remove the name`;
    throw new EngineError("missing_model", { provider, message });
  }
  if (name !== "") return name;
  throw new EngineError("missing_model", {
    provider,
    message: `no model is set for ${provider}; set one: engine({ model: "…" })`,
  });
}

/** The model of a call. Throws `EngineError` for a key that only a function could use. */
function resolveModel(settings: Settings, request: ModelRequest, { apiKey }: AdapterCall): AiSdkLanguageModel {
  const { source, provider } = settings;
  const name = requiredName(settings, request.model);
  const isFactory = !isModel(source) && !isProvider(source);
  if (apiKey !== null && !isFactory) {
    const message = `${provider}: an AI SDK model has its own key, and the call has another; pass a function to aiSdkAdapter that creates the model with the key of the call: (modelId, { apiKey }) => …`;
    throw new EngineError("invalid_engine", { provider, message });
  }
  try {
    return checkedModel(
      isModel(source) ? source : isProvider(source) ? source.languageModel(name) : source(name, { apiKey }),
    );
  } catch (error) {
    throw preflightError(error, { provider, endpoint: "", model: name }) ?? error;
  }
}

/** One call. See the theory of operation. */
async function* streamReply(
  settings: Settings,
  request: ModelRequest,
  call: AdapterCall,
): AsyncGenerator<readonly ModelEvent[]> {
  checkUserContent(request);
  const model = resolveModel(settings, request, call);
  const route: ProviderRoute = { provider: model.provider, endpoint: settings.endpoint, model: model.modelId };
  const target: Target = {
    route,
    specification: specificationOf(model) ?? "v4",
    // A model that cannot list the URLs it fetches gets none.
    supportedUrls: await Promise.resolve(model.supportedUrls ?? {}).catch(() => ({})),
  };
  const { options, omissions } = encodeCall(request, target);
  const isAnthropic = model.provider.includes("anthropic");
  const headers = headersOfCall(settings.provider, call.options, isAnthropic ? "anthropic-beta" : null);
  const failureOf = (error: unknown) =>
    failureWithoutKey(failureOfError(error, route, call.clock.now()), secretsOf(headers, call.apiKey));
  await call.beforeRequest?.();
  call.signal.throwIfAborted();
  const exchange = new Exchange(call, settings.timeoutMs);
  const begin: readonly ModelEvent[] = [
    { type: "message_started", message: assistant("") },
    ...warningsOf(omissions).map((warning): ModelEvent => ({ type: "warning", warning })),
  ];
  let hasBegun = false;
  const batch = (events: readonly ModelEvent[]): readonly ModelEvent[] => {
    const first = hasBegun ? [] : begin;
    hasBegun = true;
    return [...first, ...events];
  };
  let decoder: ReplyDecoder | null = null;
  try {
    const headersOfResponse = await exchange.open(() =>
      model.doStream({
        ...options,
        ...(Object.keys(headers).length === 0 ? {} : { headers }),
        ...(call.rawChunks ? { includeRawChunks: true } : {}),
        abortSignal: exchange.signal,
      }),
    );
    const contentType = headersOfResponse["content-type"] ?? null;
    decoder = new ReplyDecoder({ route, settings: new Set(Object.keys(options)), contentType, failureOf });
    for (let part = await exchange.read(); part !== null; part = await exchange.read()) {
      const events = decoder.push(part);
      if (events.length > 0 || !hasBegun) yield batch(events);
      if (decoder.hasEnded) break;
    }
    const lastEvents = decoder.end();
    if (lastEvents.length > 0) yield batch(lastEvents);
  } catch (error) {
    if (call.signal.aborted) throw call.signal.reason;
    if (decoder?.hasEnded === true || isEverturnError(error)) throw error;
    const preflight = exchange.isOpen ? null : preflightError(error, route);
    if (preflight !== null) throw preflight;
    const { provider } = route;
    const timedOut = () => {
      const message = `${provider}: no part of the reply for ${settings.timeoutMs} ms`;
      return exchange.isOpen
        ? streamFailure("timeout", { provider, message })
        : adapterFailure("timeout", { provider, message });
    };
    const broken = () => (decoder === null ? failureOf(error) : decoder.interrupted(error));
    yield batch([{ type: "error", error: exchange.hasTimedOut ? timedOut() : broken() }]);
  } finally {
    exchange.close();
  }
}

/** The key of the call, and the values of headers that the call adds. */
function secretsOf(headers: { readonly [name: string]: string }, apiKey: string | null): readonly string[] {
  return [...(apiKey === null ? [] : [apiKey]), ...Object.values(headers)];
}

/** The stream of one call with its abort signal and its timeout. Closed exactly once, whoever ends it. */
class Exchange {
  readonly #stop = new AbortController();
  readonly #deadline: Deadline;
  readonly #timeoutMs: number | null;
  readonly #call: AdapterCall;
  #reader: ReadableStreamDefaultReader<StreamPart> | null = null;
  #hasReadAll = false;
  #hasTimedOut = false;
  /** Rejects the wait that is under way. */
  #interrupt: ((reason: unknown) => void) | null = null;

  constructor(call: AdapterCall, timeoutMs: number | null) {
    this.#call = call;
    this.#timeoutMs = timeoutMs;
    this.#deadline = new Deadline(call.clock, () => {
      this.#hasTimedOut = true;
      this.#abort(new Error("the model call timed out"));
    });
    call.signal.addEventListener("abort", this.#cancelled);
  }

  /** The signal for `doStream`. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Has the model answered with a stream? */
  get isOpen(): boolean {
    return this.#reader !== null;
  }

  get hasTimedOut(): boolean {
    return this.#hasTimedOut;
  }

  /** Sends the request. Resolves with the headers of the response, as far as the package passes them on. */
  async open(send: () => PromiseLike<AiSdkStreamResult>): Promise<{ readonly [name: string]: string }> {
    const { stream, response } = await this.#waitFor(send());
    this.#reader = stream.getReader();
    return response?.headers ?? {};
  }

  /** The next part; `null` at the end of the stream. */
  async read(): Promise<StreamPart | null> {
    if (this.#reader === null) return null;
    const { done, value } = await this.#waitFor(this.#reader.read());
    this.#hasReadAll = done;
    return value ?? null;
  }

  close(): void {
    this.#call.signal.removeEventListener("abort", this.#cancelled);
    this.#deadline.clear();
    if (this.#hasReadAll) return;
    this.#stop.abort();
    // The stream may be errored already, and its source may throw while it is cancelled. Neither matters to a call that
    // is over.
    this.#reader?.cancel().catch(() => undefined);
  }

  readonly #cancelled = (): void => this.#abort(this.#call.signal.reason);

  #abort(reason: unknown): void {
    this.#stop.abort(reason);
    this.#interrupt?.(reason);
  }

  /** Waits for a promise until the call is aborted or times out, also if the promise ignores the signal. */
  #waitFor<T>(pending: PromiseLike<T>): Promise<T> {
    if (this.#timeoutMs !== null) this.#deadline.set(this.#call.clock.now() + this.#timeoutMs);
    return new Promise<T>((resolve, reject) => {
      this.#interrupt = reject;
      pending.then(resolve, reject);
    }).finally(() => {
      this.#interrupt = null;
      // The time that the reader takes between two parts does not count.
      this.#deadline.set(Infinity);
    });
  }
}
