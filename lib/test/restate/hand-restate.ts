// An implementation of what the handlers need of Restate, in memory and on a clock that a test advances: invocations
// with idempotency keys and delays, one exclusive invocation at a time for each key, recorded steps, and attempts that
// are repeated. For tests without a Restate server.

import type { Handler, Handlers } from "../../src/durable/restate/handlers.ts";
import type { Invocation, SendRequest } from "../../src/durable/restate/invocation.ts";
import type { RestateServiceOptions } from "../../src/durable/restate/service-context.ts";
import type { RestateHandlerContext } from "everturn/restate";
import type { HandClock } from "everturn/testing";

import { sessionHandlers, sweeperHandlers } from "../../src/durable/restate/handlers.ts";
import { RefusedCall } from "../../src/durable/restate/invocation.ts";
import { serviceContext } from "../../src/durable/restate/service-context.ts";

/** One invocation and its record. */
export type HandInvocation = {
  readonly request: SendRequest;
  readonly id: string;
  /** Results of recorded steps as JSON, in order. */
  readonly steps: string[];
  /** Requests that were sent, in order. */
  readonly sent: SendRequest[];
  attempts: number;
  /** The result; an error if the call was refused or given up. */
  readonly outcome: Promise<unknown>;
  status: "scheduled" | "running" | "completed" | "failed";
  attempt: AbortController;
};

/** The largest number of attempts. */
const maxAttempts = 10;

export class HandRestate {
  readonly invocations: HandInvocation[] = [];
  /** Requests that match are lost. */
  loses: (request: SendRequest) => boolean = () => false;
  /** Attempts that match end after a recorded step was performed, before its result reaches Restate. */
  dies: (invocation: HandInvocation) => boolean = () => false;
  readonly state = new Map<string, unknown>();
  readonly #clock: HandClock;
  readonly #handlers: ReadonlyMap<string, Handler>;
  readonly #queues = new Map<string, Promise<unknown>>();

  /** `sweepLimit`: how many sessions one sweep sends. Default: as in production. */
  constructor(clock: HandClock, options: Omit<RestateServiceOptions, "clock">, sweepLimit: number | null = null) {
    this.#clock = clock;
    const base = serviceContext({ ...options, clock });
    const context = sweepLimit === null ? base : { ...base, sweepLimit };
    const { session, sweeper } = context.names;
    this.#handlers = new Map([
      ...named(session, sessionHandlers(context)),
      ...named(sweeper, sweeperHandlers(context)),
    ]);
  }

  /** The ingress, for `restate.fetch` of a runtime. */
  readonly fetch: typeof fetch = async (url, init) => {
    const { pathname, searchParams } = new URL(String(url));
    const [, service = "", key = "", handler = ""] = pathname.split("/");
    const body: unknown = JSON.parse(String(init?.body));
    const request = {
      service,
      handler,
      key: decodeURIComponent(key),
      input: body,
      idempotencyKey: new Headers(init?.headers).get("idempotency-key"),
      delayMs: Number((searchParams.get("delay") ?? "0").replace("ms", "")),
    };
    if (this.loses(request)) throw new TypeError("fetch failed");
    this.send(request);
    return Response.json({ status: "Accepted" }, { status: 202 });
  };

  /** The context of a handler of the caller's own. */
  get context(): RestateHandlerContext {
    return {
      genericCall: async ({ service, method, key, parameter, inputSerde, outputSerde, idempotencyKey }) => {
        const input: unknown = JSON.parse(new TextDecoder().decode(inputSerde.serialize(parameter)));
        const base = { service, handler: method, key, input, delayMs: 0 };
        const called = this.send({ ...base, idempotencyKey: idempotencyKey ?? null });
        const value = await called.outcome.catch((error: unknown) => {
          throw Object.assign(new Error(String(error)), { name: "TerminalError" });
        });
        return outputSerde.deserialize(new TextEncoder().encode(JSON.stringify(value)));
      },
      genericSend: ({ service, method, key, parameter, delay = 0 }) =>
        void this.send({ service, handler: method, key, input: parameter, idempotencyKey: null, delayMs: delay }),
      sleep: (ms) => this.#clock.sleep(ms),
    };
  }

  /** Sends a request. Returns its invocation, or the earlier one with the same idempotency key. */
  send(request: SendRequest): HandInvocation {
    return this.sendBytes(request, new TextEncoder().encode(JSON.stringify(request.input)));
  }

  /** Sends a request with this body. */
  sendBytes(request: SendRequest, body: Uint8Array): HandInvocation {
    const handler = this.#handlers.get(`${request.service}/${request.handler}`);
    if (handler === undefined) throw new Error(`there is no handler ${request.service}/${request.handler}`);
    const earlier = this.invocations.find(
      (other) => isSame(other.request, request) && (handler.keepsResult || !isOver(other)),
    );
    if (earlier !== undefined) return earlier;
    const settle: ((outcome: Promise<unknown>) => void)[] = [];
    const outcome = new Promise<unknown>((resolve) => settle.push(resolve));
    outcome.catch(() => undefined);
    const invocation: HandInvocation = {
      request,
      id: `inv_${this.invocations.length + 1}`,
      steps: [],
      sent: [],
      attempts: 0,
      outcome,
      status: "scheduled",
      attempt: new AbortController(),
    };
    this.invocations.push(invocation);
    settle[0]?.(this.#deliver(invocation, handler, body));
    return invocation;
  }

  /** All invocations of a handler. */
  of(handler: string): readonly HandInvocation[] {
    return this.invocations.filter(({ request }) => request.handler === handler);
  }

  async #deliver(invocation: HandInvocation, handler: Handler, body: Uint8Array): Promise<unknown> {
    const { request } = invocation;
    if (request.delayMs > 0) await this.#clock.sleep(request.delayMs);
    const queue = `${request.service}/${request.key}`;
    const before = handler.isExclusive ? this.#queues.get(queue) : undefined;
    const running = Promise.resolve(before).then(() => this.#attempts(invocation, handler, body));
    if (handler.isExclusive)
      this.#queues.set(
        queue,
        running.catch(() => undefined),
      );
    return running;
  }

  /** Calls the handler until it returns or refuses the call. */
  async #attempts(invocation: HandInvocation, handler: Handler, body: Uint8Array): Promise<unknown> {
    invocation.status = "running";
    for (;;) {
      invocation.attempts += 1;
      invocation.attempt = new AbortController();
      try {
        const value = await handler.call(this.#on(invocation), body);
        invocation.status = "completed";
        return value;
      } catch (error) {
        if (error instanceof RefusedCall || invocation.attempts === maxAttempts) {
          invocation.status = "failed";
          throw error;
        }
      }
    }
  }

  #on(invocation: HandInvocation): Invocation {
    const { request, id, steps, sent, attempt } = invocation;
    let [step, sends] = [0, 0];
    const stateKey = (name: string) => `${request.service}/${request.key}/${name}`;
    return {
      key: request.key,
      id,
      attemptOver: attempt.signal,
      run: async (_, work) => {
        const recorded = steps[step];
        step += 1;
        if (recorded !== undefined) return JSON.parse(recorded);
        const value = JSON.stringify(await work());
        // The result of an attempt that is over does not reach Restate.
        if (attempt.signal.aborted || this.dies(invocation)) throw new Error("the attempt is over");
        steps.push(value);
        return JSON.parse(value);
      },
      send: (next) => {
        sends += 1;
        if (sends <= sent.length) return;
        sent.push(next);
        if (!this.loses(next)) this.send(next);
      },
      sleep: (ms) => this.#clock.sleep(ms),
      get: async (name) => this.state.get(stateKey(name)) ?? null,
      set: (name, value) => void this.state.set(stateKey(name), value),
    };
  }
}

/** Handlers by service and name. */
function named(service: string, handlers: Handlers): readonly (readonly [string, Handler])[] {
  return Object.entries(handlers).map(([name, handler]) => [`${service}/${name}`, handler]);
}

function isOver({ status }: HandInvocation): boolean {
  return status === "completed" || status === "failed";
}

function isSame(left: SendRequest, right: SendRequest): boolean {
  return (
    left.idempotencyKey !== null &&
    left.idempotencyKey === right.idempotencyKey &&
    left.service === right.service &&
    left.handler === right.handler &&
    left.key === right.key
  );
}
