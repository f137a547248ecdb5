// References to work that a provider continues without a connection, for example background responses (`resume` of an
// adapter).
//
// Order of writes: the adapter reports the reference, it is recorded as `reference/<n>` of the effect (Q2), and only
// then is any event of the reply read. Crash points
//   before the record   the provider works on a reply that no process can find; the request is sent again, as for any
//                       other model call
//   after the record    the process that takes over reads the reply of that work instead of sending the request
// A cancel of the turn stops the work. The end of a run for another reason (a hand-over, a lost lease) does not:
// another process reads the reply.

import type { Adapter, AdapterCall } from "../../engine/internal.ts";
import type { CallModel, Compact } from "../../kernel/internal.ts";
import type { Failure, JsonObject, ModelEvent, ModelName, ModelRequest } from "../../model/internal.ts";
import type { Infer, Shape } from "../../model/parse/reading.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { Scope } from "../ports/ports.ts";

import { jsonObject, nullable, object, required, string } from "../../model/parse/reading.ts";
import { isPair } from "../plan/plan.ts";
import { attemptName, readRecord } from "./records.ts";
import { modelId } from "./routes.ts";

const workReferenceFields = {
  provider: required(string),
  model: required(nullable(string)),
  reference: required(jsonObject),
};

/** The record: the reference, and the provider and model it belongs to. Another provider or model must not read it. */
type WorkReference = Infer<typeof workReferenceFields>;

const workReferenceShape: Shape<WorkReference> = object(workReferenceFields);

/** Time limit of the request that stops the provider's work, in milliseconds. The turn does not wait for it. */
const cancelMs = 10_000;

/** Failures after which the provider may still be working on the reply. */
const unfinished: ReadonlySet<Failure["reason"]> = new Set(["network_error", "timeout", "interrupted"]);

/**
 * Thrown through the adapter if its reference could not be recorded. It marks a failure of the storage, so that it is
 * not taken for one of the provider.
 */
export class RecordFailure extends Error {}

type WorkPorts = {
  readonly scope: Scope;
  readonly signal: AbortSignal;
  readonly isCancelled: () => boolean;
};

/** The provider's work for one attempt of a model call. */
export class ProviderWork {
  readonly #ports: WorkPorts;
  readonly #effectId: string;
  readonly #n: number;
  readonly #adapter: Adapter;
  readonly #call: AdapterCall;
  #isOpened = false;
  /** The attempt has ended: no request is sent for it any more. */
  isClosed = false;
  /** The work was started by an earlier process. */
  isResumed = false;
  /** The model of the newest request. */
  model: ModelName | null = null;
  #reference: JsonObject | null = null;

  /** `n`: the number of the attempt. */
  constructor(ports: WorkPorts, effectId: string, n: number, adapter: Adapter, call: AdapterCall) {
    this.#ports = ports;
    this.#effectId = effectId;
    this.#n = n;
    this.#adapter = adapter;
    this.#call = { ...call, onReference: (reference) => this.#record(reference) };
  }

  /**
   * Sends the request, or reads the reply of the work that an earlier process started. A middleware may call it several
   * times; only the first call reads that reply.
   */
  open(request: ModelRequest): AsyncIterable<readonly ModelEvent[]> {
    const { signal } = this.#ports;
    if (this.isClosed) throw new DOMException("the model call has ended", "AbortError");
    this.model = request.model;
    this.#reference = this.#isOpened ? null : this.#recordedReference();
    this.isResumed = this.#reference !== null;
    if (!this.#isOpened) signal.addEventListener("abort", this.#onAbort, { once: true });
    this.#isOpened = true;
    const resumed = this.#reference === null ? null : this.#adapter.resume?.(this.#reference, request, this.#call);
    return resumed ?? this.#adapter.stream(request, this.#call);
  }

  /** Ends the attempt. If the connection failed, the provider may still be working; that work is stopped. */
  close(failure: Failure | null): void {
    this.isClosed = true;
    this.#ports.signal.removeEventListener("abort", this.#onAbort);
    if (failure !== null && unfinished.has(failure.reason)) this.#stop();
  }

  readonly #onAbort = (): void => {
    if (this.#ports.isCancelled()) this.#stop();
  };

  #stop(): void {
    if (this.#reference !== null) stopWork(this.#adapter, this.#reference, this.#call);
  }

  #recordedReference(): JsonObject | null {
    const record = readRecord(workReferenceShape, this.#ports.scope.find(this.#effectId, referenceName(this.#n)));
    if (record === null || this.#adapter.resume === undefined) return null;
    const { provider, model, reference } = record;
    return provider === this.#adapter.provider && model === modelId(this.model) ? reference : null;
  }

  async #record(reference: JsonObject): Promise<void> {
    this.#reference = reference;
    // The turn was cancelled while the request was in flight.
    if (this.#ports.signal.aborted) return this.#onAbort();
    const { provider } = this.#adapter;
    const value: WorkReference = { provider, model: modelId(this.model), reference };
    try {
      await this.#ports.scope.record(this.#effectId, referenceName(this.#n), value);
    } catch (cause) {
      throw new RecordFailure("the reference could not be recorded", { cause });
    }
  }
}

/**
 * Stops the work that an earlier process started for a model call. Called if the turn is cancelled before this process
 * performs the call.
 */
export function cancelRecordedWork(plan: RunPlan, scope: Scope, { id }: CallModel | Compact): void {
  let n = 1;
  while (scope.find(id, attemptName(n)) !== null) n += 1;
  const record = readRecord(workReferenceShape, scope.find(id, referenceName(n)));
  if (record === null) return;
  const adapters = [plan.adapter, ...plan.fallback.flatMap((entry) => (isPair(entry) ? [entry.adapter] : []))];
  const adapter = adapters.find(({ provider }) => provider === record.provider);
  const { requestId, adapterOptions: options, apiKey, clock } = plan;
  const call = { requestId, options, apiKey, clock, rawChunks: false, attempt: n };
  if (adapter !== undefined) stopWork(adapter, record.reference, { ...call, signal: new AbortController().signal });
}

/**
 * Asks the provider to stop, best effort and in bounded time. Not subject to the lease: the cancel of the turn is
 * stored already.
 */
function stopWork(adapter: Adapter, reference: JsonObject, call: AdapterCall): void {
  if (adapter.cancel === undefined) return;
  const { beforeRequest: _, onReference: __, ...stopCall } = call;
  const stop = new AbortController();
  const done = new AbortController();
  stopCall.clock.sleep(cancelMs, done.signal).then(
    () => stop.abort(new DOMException("the provider did not stop in time", "TimeoutError")),
    () => undefined,
  );
  const stopping = async (): Promise<void> => adapter.cancel?.(reference, { ...stopCall, signal: stop.signal });
  stopping()
    .catch(() => undefined)
    .finally(() => done.abort());
}

function referenceName(n: number): string {
  return `reference/${n}`;
}
