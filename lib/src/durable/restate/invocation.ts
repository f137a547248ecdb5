// What a handler of this folder needs of Restate. `services.ts` implements it with the context of the SDK; the tests
// implement it in memory.

/** One attempt of an invocation. */
export type Invocation = {
  /** The key of the virtual object. */
  readonly key: string;
  /** The id of the invocation, the same in all its attempts. */
  readonly id: string;
  /** Aborts when the attempt is over, also when the connection to Restate is lost. */
  readonly attemptOver: AbortSignal;
  /**
   * Runs `work` and records its result, which must be JSON. An attempt that finds a recorded result does not run it
   * again. {@link RefusedCall} is recorded too; any other error makes Restate repeat the invocation.
   */
  readonly run: <T>(name: string, work: () => Promise<T>) => Promise<T>;
  /** Sends an invocation. Restate delivers it once, also if this attempt is repeated. */
  readonly send: (request: SendRequest) => void;
  /** Waits without a process: Restate continues the invocation later. */
  readonly sleep: (ms: number) => Promise<void>;
  /** Reads state of the object. */
  readonly get: (name: string) => Promise<unknown>;
  /** Writes state of the object. Only exclusive handlers may. */
  readonly set: (name: string, value: unknown) => void;
};

/** An invocation that is sent without waiting for its result. */
export type SendRequest = {
  readonly service: string;
  readonly handler: string;
  readonly key: string;
  /** JSON. */
  readonly input: unknown;
  /**
   * A second request with the key is dropped while Restate knows the first one. `null`: every request is an invocation
   * of its own.
   */
  readonly idempotencyKey: string | null;
  /** Restate delivers the request after this many milliseconds. */
  readonly delayMs: number;
};

/** A call that can never succeed. Restate records it as the result of the invocation and does not repeat the call. */
export class RefusedCall extends Error {
  override readonly name: string = "RefusedCall";
  /** The status of a response over HTTP. */
  readonly status: number;

  constructor(message: string, status: number, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.status = status;
  }
}
