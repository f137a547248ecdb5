// One request `tools/call` and what follows from it: its result, or questions of the server that arrive before the result.
//
// Servers of protocol versions before 2026-07-28 ask with a request of their own (`elicitation/create`) while the call is open, and wait for the response.
// That request names its call only if the call is a task. `OpenCalls` assigns it:
//   - to the task that it names;
//   - to the call that is running, if there is one that does not wait for an answer;
//   - if several run: a call that asked cannot end before it is answered, so the request is held until the other calls have ended;
//   - if that is still not clear after `holdMs`, the request is cancelled. It is never assigned by a guess: the question of one user could reach another.

import type { Clock } from "../clock/clock.ts";
import type { JsonObject } from "../model/internal.ts";
import type { McpElicitation, McpElicitationResult } from "./types.ts";
import type {
  CallToolResult,
  Client,
  RequestOptions,
  specTypeSchemas,
  Tool as SdkTool,
} from "@modelcontextprotocol/client";

import { startTimer } from "../clock/timer.ts";

/** The parameters of `tools/call`. The last two answer questions of an earlier call (2026-07-28). */
export type CallParams = {
  readonly name: string;
  readonly arguments: JsonObject;
  readonly inputResponses?: JsonObject;
  readonly requestState?: string;
};

/** What happens next in a call. */
export type CallEvent =
  | { readonly type: "result"; readonly result: CallToolResult }
  | { readonly type: "failed"; readonly error: unknown }
  | { readonly type: "asked"; readonly elicitation: McpElicitation };

/** What calls need to know about their connection. */
export type CallConnection = {
  readonly client: Client;
  readonly sdk: { readonly specTypeSchemas: typeof specTypeSchemas };
  /**
   * The definitions of the tools by name, without output schemas: with one, the SDK rejects a result that asks for input. A tool that can be called only as a task (2025-11-25)
   * returns the id of the task, and a second request its result.
   */
  readonly definitions: ReadonlyMap<string, SdkTool>;
};

/** How long the server keeps the result of a task, in milliseconds. */
const taskTtlMs = 3_600_000;

/** The longest timeout of a request. The time limit of the tool applies, and the SDK's is not needed. */
const noTimeoutMs = 2 ** 31 - 1;

/** A call that is open at the server. */
export class OpenCall {
  readonly #stop = new AbortController();
  #question: { readonly elicitation: McpElicitation; readonly resolve: (result: McpElicitationResult) => void } | null =
    null;
  #end: Exclude<CallEvent, { readonly type: "asked" }> | null = null;
  #wake: () => void = () => undefined;
  onProgress: (progress: JsonObject) => void = () => undefined;

  /** The id of the task that the call is; `null`: it is none. */
  taskId: string | null = null;

  constructor(connection: CallConnection, params: CallParams, onEnd: (call: OpenCall) => void) {
    const finish = (end: Exclude<CallEvent, { readonly type: "asked" }>) => {
      this.#end = end;
      onEnd(this);
      this.#wake();
    };
    const options: RequestOptions = {
      signal: this.#stop.signal,
      timeout: noTimeoutMs,
      allowInputRequired: true,
      onprogress: ({ progress, total, message }) => {
        const details = { ...(total === undefined ? {} : { total }), ...(message === undefined ? {} : { message }) };
        this.onProgress({ progress, ...details });
      },
    };
    const { client, definitions } = connection;
    const toolDefinition = definitions.get(params.name);
    const sent = { ...params, arguments: { ...params.arguments } };
    const called =
      toolDefinition?.execution?.taskSupport === "required"
        ? this.#callAsTask(connection, sent, options)
        : client.callTool(sent, { ...options, ...(toolDefinition === undefined ? {} : { toolDefinition }) });
    called.then(
      (result) => finish({ type: "result", result }),
      (error: unknown) => finish({ type: "failed", error }),
    );
  }

  async #callAsTask(
    { client, sdk }: CallConnection,
    params: { readonly name: string; readonly arguments: { [name: string]: unknown } },
    options: RequestOptions,
  ): Promise<CallToolResult> {
    const { CreateTaskResult, CallToolResult } = sdk.specTypeSchemas;
    const request = { method: "tools/call", params: { ...params, task: { ttl: taskTtlMs } } } as const;
    const { task } = await client.request(request, CreateTaskResult, options);
    const { taskId } = task;
    this.taskId = taskId;
    const cancelTask = () => {
      const cancel = { method: "tasks/cancel", params: { taskId } } as const;
      void client.request(cancel, sdk.specTypeSchemas.CancelTaskResult).catch(() => undefined);
    };
    options.signal?.addEventListener("abort", cancelTask, { once: true });
    return client.request({ method: "tasks/result", params: { taskId } }, CallToolResult, options);
  }

  /** Whether the call waits for the answer to a question. */
  get isAsking(): boolean {
    return this.#question !== null;
  }

  /** Passes a question of the server to the call. */
  ask(elicitation: McpElicitation): Promise<McpElicitationResult> {
    return new Promise((resolve) => {
      this.#question = { elicitation, resolve };
      this.#wake();
    });
  }

  /** Answers the question that the call waits for. */
  answer(result: McpElicitationResult): void {
    this.#question?.resolve(result);
    this.#question = null;
  }

  /** The next event. An abort of the signal while this waits cancels the call; the event is then its failure. */
  async next(signal: AbortSignal): Promise<CallEvent> {
    const cancel = () => this.cancel(signal.reason);
    signal.addEventListener("abort", cancel, { once: true });
    if (signal.aborted) cancel();
    try {
      while (this.#end === null && this.#question === null) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
      if (this.#end !== null) return this.#end;
      return this.#question === null ? this.next(signal) : { type: "asked", elicitation: this.#question.elicitation };
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  }

  /** Cancels the request; the server is notified. */
  cancel(reason: unknown): void {
    this.#stop.abort(reason);
    this.answer({ action: "cancel" });
  }
}

/** The open calls of one connection. */
export class OpenCalls {
  readonly #connection: CallConnection;
  readonly #clock: Clock;
  readonly #calls = new Set<OpenCall>();
  readonly #held = new Set<() => boolean>();
  /** How long a question is held that may belong to several calls, in milliseconds. */
  static readonly holdMs = 60_000;

  constructor(connection: CallConnection, clock: Clock) {
    this.#connection = connection;
    this.#clock = clock;
  }

  start(params: CallParams): OpenCall {
    const call = new OpenCall(this.#connection, params, (ended) => {
      this.#calls.delete(ended);
      for (const assign of this.#held) if (assign()) this.#held.delete(assign);
    });
    this.#calls.add(call);
    return call;
  }

  /** Assigns a question of the server to the call that it belongs to, and returns the answer. `taskId`: the task that it names. */
  ask(elicitation: McpElicitation, taskId: string | null): Promise<McpElicitationResult> {
    const named = taskId === null ? undefined : [...this.#calls].find((call) => call.taskId === taskId);
    if (named !== undefined) return named.ask(elicitation);
    return new Promise((resolve) => {
      const assign = (): boolean => {
        const candidates = [...this.#calls].filter((call) => !call.isAsking);
        const [only] = candidates;
        if (candidates.length > 1) return false;
        if (only === undefined) resolve({ action: "cancel" });
        else void only.ask(elicitation).then(resolve);
        stopTimer();
        return true;
      };
      const stopTimer = startTimer(this.#clock, OpenCalls.holdMs, () => {
        this.#held.delete(assign);
        resolve({ action: "cancel" });
      });
      if (!assign()) this.#held.add(assign);
    });
  }
}
