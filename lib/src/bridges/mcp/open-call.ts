// One request `tools/call` and what follows from it: its result, or questions of the server that arrive before the
// result.
//
// Servers of protocol versions before 2026-07-28 ask with a request of their own (`elicitation/create`) while the call
// is open, and wait for the response. That request names its call only if the call is a task. `OpenCalls` assigns it:
//   - to the task that it names;
//   - to the call that is running, if there is one that does not wait for an answer;
//   - if several run: a call that asked cannot end before it is answered, so the request is held until the other calls
//     have ended;
//   - if all calls that run may have asked, or if that is not clear after `holdMs`, the requests are cancelled. A
//     request is never assigned by a guess: the question of one user could reach another.
// A call that waits for an answer is taken to ask no second question. A tool that has asked once is expected to ask
// again: calls of such tools start one after the other, each after the one before has asked or ended.

import type { Clock } from "../../core/clock/clock.ts";
import type { JsonObject } from "../../core/model/internal.ts";
import type { McpElicitation, McpElicitationResult } from "./types.ts";
import type {
  CallToolResult,
  Client,
  RequestOptions,
  specTypeSchemas,
  Tool as SdkTool,
} from "@modelcontextprotocol/client";

import { startTimer } from "../../core/clock/timer.ts";

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
   * The definitions of the tools by name, without output schemas: with one, the SDK rejects a result that asks for
   * input. A tool that can be called only as a task (2025-11-25) returns the id of the task, and a second request its
   * result.
   */
  readonly definitions: ReadonlyMap<string, SdkTool>;
  /** The tools that have asked inside a call. Kept across connections. */
  readonly askingTools: Set<string>;
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

  /** The name of the tool. */
  readonly name: string;
  /** The id of the task that the call is; `null`: it is none. */
  taskId: string | null = null;

  constructor(connection: CallConnection, params: CallParams, onEnd: (call: OpenCall) => void) {
    this.name = params.name;
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

/** A question that may belong to several calls. */
type Held = {
  readonly elicitation: McpElicitation;
  readonly resolve: (result: McpElicitationResult) => void;
  readonly stopTimer: () => void;
};

/** How long a question is held, in milliseconds. */
const holdMs = 60_000;

/** The open calls of one connection. */
export class OpenCalls {
  readonly #connection: CallConnection;
  readonly #clock: Clock;
  readonly #calls = new Set<OpenCall>();
  readonly #held = new Set<Held>();
  /** Calls that wait to start. */
  readonly #changed = new Set<() => void>();

  constructor(connection: CallConnection, clock: Clock) {
    this.#connection = connection;
    this.#clock = clock;
  }

  /**
   * Starts a call. A call of a tool that asks waits until no other such call runs, so that a question has one possible
   * owner.
   */
  async start(params: CallParams, signal: AbortSignal): Promise<OpenCall> {
    const { askingTools } = this.#connection;
    while (askingTools.has(params.name) && this.#running().some(({ name }) => askingTools.has(name))) {
      await new Promise<void>((resolve) => {
        this.#changed.add(resolve);
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      signal.throwIfAborted();
    }
    const call = new OpenCall(this.#connection, params, (ended) => {
      this.#calls.delete(ended);
      this.#assignHeld();
    });
    this.#calls.add(call);
    return call;
  }

  /**
   * Assigns a question of the server to the call that it belongs to, and returns the answer. `taskId`: the task that it
   * names.
   */
  ask(elicitation: McpElicitation, taskId: string | null): Promise<McpElicitationResult> {
    const named = taskId === null ? undefined : [...this.#calls].find((call) => call.taskId === taskId);
    if (named !== undefined) return this.#askCall(named, elicitation);
    return new Promise((resolve) => {
      const held: Held = {
        elicitation,
        resolve,
        stopTimer: startTimer(this.#clock, holdMs, () => this.#cancel([held])),
      };
      this.#held.add(held);
      this.#assignHeld();
    });
  }

  /** The calls that may ask a question now. */
  #running(): readonly OpenCall[] {
    return [...this.#calls].filter((call) => !call.isAsking);
  }

  #askCall(call: OpenCall, elicitation: McpElicitation): Promise<McpElicitationResult> {
    this.#connection.askingTools.add(call.name);
    const answer = call.ask(elicitation);
    this.#notify();
    return answer;
  }

  /** Assigns the held questions as far as it is certain to which calls they belong. */
  #assignHeld(): void {
    const running = this.#running();
    const [held] = this.#held;
    const [call] = running;
    if (held !== undefined && (running.length <= 1 || this.#held.size >= running.length)) {
      if (running.length > 1) {
        // Every running call has asked. Which call asked which question cannot be known; the next calls of these tools
        // run one after the other.
        for (const { name } of running) this.#connection.askingTools.add(name);
        this.#cancel([...this.#held]);
      } else if (call === undefined) this.#cancel([held]);
      else {
        this.#held.delete(held);
        held.stopTimer();
        void this.#askCall(call, held.elicitation).then(held.resolve);
        this.#assignHeld();
      }
    }
    this.#notify();
  }

  #cancel(questions: readonly Held[]): void {
    for (const { resolve, stopTimer } of questions) {
      stopTimer();
      resolve({ action: "cancel" });
    }
    for (const held of questions) this.#held.delete(held);
  }

  #notify(): void {
    const waiting = [...this.#changed];
    this.#changed.clear();
    for (const resolve of waiting) resolve();
  }
}
