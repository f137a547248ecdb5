// The durable runtime: the verbs of a session over a storage. A verb that drives is accepted by one write and then driven at once, here or by
// whichever process gets to it; what it gives back can be read, left and come back to from anywhere.

import type {
  Cancelled,
  JsonObject,
  LedgerSum,
  Message,
  Page,
  Recovered,
  RuntimeEvent,
  Session,
  SessionSummary,
  SessionView,
  Withdrawn,
} from "../model/internal.ts";
import type { DecisionInput } from "../session/internal.ts";
import type { RuntimeContext, VerbContext } from "./context.ts";
import type { DurableOptions, EventOptions, RuntimeOptions, StartOptions, SteerInput, TurnHandle } from "./types.ts";
import type { CancelOptions } from "./verbs/cancel.ts";
import type { TurnRecord } from "./verbs/record.ts";
import type { Completion, TokenAnswer } from "./verbs/tokens.ts";

import { systemClock } from "../engine/internal.ts";
import { MisuseError } from "../model/internal.ts";
import { checkedStorage } from "./context.ts";
import { ActiveTurns } from "./drive/active-turns.ts";
import { CancelWatch } from "./drive/cancel-watch.ts";
import { Histories } from "./histories.ts";
import { Hub } from "./read/hub.ts";
import { PieceWriter, pieceTimings } from "./read/pieces.ts";
import { randomText } from "./rows/digest.ts";
import { withLargeValues } from "./rows/large-values.ts";
import { checkedTimings, leaseTimings, longestMs } from "./rows/lease.ts";
import { decide, submitToolResults } from "./verbs/answers.ts";
import { getSession, listMessages, listSessions, usageOf } from "./verbs/browse.ts";
import { cancel } from "./verbs/cancel.ts";
import { deleteSession } from "./verbs/delete.ts";
import { continueSession, reply, start, step } from "./verbs/drive-verbs.ts";
import { fork } from "./verbs/fork.ts";
import { attach, watch } from "./verbs/handles.ts";
import { exportTurn } from "./verbs/record.ts";
import { recover } from "./verbs/recover.ts";
import { send } from "./verbs/send.ts";
import { steer, withdraw } from "./verbs/steer.ts";
import { complete, token } from "./verbs/tokens.ts";
import { work } from "./verbs/work.ts";

/**
 * Durable sessions over a storage. Verbs that start a turn are accepted by one atomic write; any process that
 * shares the storage can drive the turn.
 */
export type Runtime = {
  // Verbs that drive. Each is accepted durably, runs at once, and gives back the turn.

  /** Starts a session from text, messages or a whole session, and runs its first turn. */
  readonly start: (
    input: string | readonly Message[] | Session<JsonObject>,
    options?: StartOptions,
  ) => Promise<TurnHandle>;
  /** Adds a user message and runs a turn. If the session asked a question, the message is the answer. */
  readonly reply: (id: string, text: string, options?: DurableOptions) => Promise<TurnHandle>;
  /** Runs the next turn, with a message or without one. */
  readonly continue: (id: string, message?: Message | null, options?: DurableOptions) => Promise<TurnHandle>;
  /** Runs a turn of one step: a model reply and its tool calls. */
  readonly step: (id: string, options?: DurableOptions) => Promise<TurnHandle>;
  /**
   * Records the results of pending calls. The answer to the last pending call starts a turn, unless `continue` is
   * `false`. Options override those of the turn that made the calls.
   */
  readonly submitToolResults: (
    id: string,
    results: readonly (readonly [toolCallId: string, content: unknown])[],
    options?: DurableOptions & { readonly continue?: boolean },
  ) => Promise<TurnHandle>;
  /**
   * Approves or denies a pending call, with other arguments if given. The answer to the last pending call starts a
   * turn, unless `continue` is `false`. Options override those of the turn that made the call.
   */
  readonly decide: (
    id: string,
    toolCallId: string,
    decision: DecisionInput,
    options?: DurableOptions & { readonly continue?: boolean },
  ) => Promise<TurnHandle>;
  /** Sends a user message: `steer` while a turn is running, `reply` otherwise. */
  readonly send: (id: string, text: string, options?: DurableOptions) => Promise<TurnHandle>;

  // What is said to a turn that runs.

  /**
   * Adds input to the running turn at its next checkpoint, or to the next turn if there is none. Returns the turn
   * that is expected to accept it.
   */
  readonly steer: (
    id: string,
    input: SteerInput,
    options?: { readonly id?: string; readonly engine?: string },
  ) => Promise<{ readonly inputId: string; readonly turnId: string }>;
  /** Withdraws input that was steered and not yet accepted by a turn. */
  readonly withdraw: (id: string, inputId: string) => Promise<Withdrawn>;
  /**
   * Cancels the running turn. The command is stored, so it takes effect whichever process drives the turn. Returns
   * whether the cancel or the end of the turn was recorded first.
   */
  readonly cancel: (id: string, options?: CancelOptions) => Promise<Cancelled>;

  // Looking at sessions.

  /**
   * Returns the session as of its last committed turn, and its open turn; `null` if there is no such session.
   * `messages` limits the number of newest messages.
   */
  readonly get: (id: string, options?: { readonly messages?: number | "all" }) => Promise<SessionView | null>;
  /**
   * Returns a page of messages, oldest first. `after` is the index of a message, from 0, or `next` of the last
   * page.
   */
  readonly messages: (
    id: string,
    options?: { readonly after?: number | string; readonly limit?: number },
  ) => Promise<Page<Message>>;
  /**
   * Returns a page of sessions, most recently changed first. A session that cannot be read is left out; `get`
   * reports why.
   */
  readonly list: (options?: { readonly limit?: number; readonly after?: string }) => Promise<Page<SessionSummary>>;
  /**
   * Deletes a session, also one that cannot be read. A tombstone stays, so that a process that still holds the
   * session cannot restore it. Journals to be removed and tokens, which hold ids and digests only, are removed
   * when they expire; pinned environments are shared by content and stay.
   */
  readonly delete: (id: string) => Promise<void>;
  /**
   * Creates a session with the messages of this one, or with the first `at` messages, and returns its id.
   * Approvals are not copied while a turn uses them: the call is pending again in the fork. Calls there have
   * idempotency keys of their own.
   */
  readonly fork: (id: string, options?: { readonly id?: string; readonly at?: number }) => Promise<string>;
  /** Returns what a session has cost, by kind and by model. */
  readonly usage: (id: string) => Promise<LedgerSum>;

  // Watching.

  /**
   * Reads the events of a session, from the first one or after a cursor, and follows new ones until the reader
   * leaves.
   */
  readonly events: (id: string, options?: EventOptions) => AsyncIterable<RuntimeEvent>;
  /** Returns a handle on the open turn, or on the given turn, whichever process drives it. */
  readonly attach: (id: string, turnId?: string | null) => TurnHandle;

  /**
   * Returns a turn as one JSON value: the open one, the latest, or the given one. `replayTurn` runs it again
   * offline.
   */
  readonly export: (id: string, turnId?: string) => Promise<TurnRecord>;

  // Completion from outside.

  /**
   * Returns a token that completes this pending call once, while it waits with its current arguments. Give it to
   * the system or person that answers.
   */
  readonly token: (id: string, toolCallId: string) => Promise<string>;
  /**
   * Completes the call of a token. The first answer counts; for later ones nothing changes, and the result says
   * so.
   */
  readonly complete: (token: string, answer: TokenAnswer) => Promise<Completion>;

  // Keeping turns going.

  /**
   * Without an id: drives every turn that no process drives, and returns their number. With an id: drives its open
   * turn, makes a failed session usable again, or ends a parked turn. `from: "step"` restarts the open step of a
   * parked turn and names the effects that may run twice.
   */
  readonly recover: (id?: string, options?: { readonly from?: "step" }) => Promise<Recovered>;
  /**
   * Drives turns that no process drives, until the signal aborts: turns of crashed processes and turns that were
   * only accepted. `concurrency` is 16 by default.
   */
  readonly work: (options: { readonly concurrency?: number; readonly signal: AbortSignal }) => Promise<void>;
  /**
   * Releases every turn that this process drives: each at its next commit, or in the middle of a step after
   * `graceMs` (default 10,000). No turn fails; other processes continue them.
   */
  readonly close: (options?: { readonly graceMs?: number }) => Promise<void>;

  /**
   * Returns the runtime of one tenant, which cannot reach the sessions of another. `work`, `close`, `recover`
   * without an id and `complete` concern the whole runtime.
   */
  readonly tenant: (name: string) => Runtime;
};

/**
 * Builds a runtime over a storage. Throws `MisuseError` without an engine, `RuntimeError` (`volatile_storage`) if
 * `durability: "durable"` is required and the storage is volatile.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { memoryStorage } from "everturn/host/memory";
 * import { runtime } from "everturn/runtime";
 *
 * const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello!" }] }), model: "fake:m" });
 * const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
 * const turn = await sessions.start("hi", { id: "s1" });
 * (await turn.result).text; // => "Hello!"
 * (await sessions.get("s1"))?.session.status; // => "completed"
 * ```
 */
export function runtime(options: RuntimeOptions): Runtime {
  const { engines, clock = systemClock, lease = {}, live = {} } = options;
  const storage = withLargeValues(checkedStorage(options.host, options.durability ?? null));
  if (Object.keys(engines).length === 0) {
    throw new MisuseError("invalid_argument", "a runtime needs an engine: { engines: { default: engine({ … }) } }", {
      path: ["engines"],
    });
  }
  let { owner } = options;
  const timings = live === false ? null : { ...pieceTimings, ...live };
  const context: RuntimeContext = {
    storage,
    engines,
    // Times are parts of keys, which are whole.
    clock: { ...clock, now: () => Math.floor(clock.now()) },
    // Created when it is needed: some platforms have no random numbers before the first request.
    owner: () => (owner ??= `process-${randomText(8)}`),
    lease: checkedTimings({ ...leaseTimings, ...lease }),
    maxTakeovers: checkedCount("maxTakeovers", options.maxTakeovers ?? 5),
    maxActiveTurns: checkedCount("maxActiveTurns", options.maxActiveTurns ?? 4096),
    retentionMs: checkedRetention(options.retentionMs),
    hub: new Hub(),
    pieces: new PieceWriter(storage, clock, timings),
    cancels: new CancelWatch(storage, clock),
    histories: new Histories(),
  };
  return runtimeOf({ ...context, turns: new ActiveTurns(context), tenant: "", drives: options.drive ?? true });
}

function runtimeOf(context: VerbContext): Runtime {
  return {
    start: (...given) => start(context, ...given),
    reply: (...given) => reply(context, ...given),
    continue: (...given) => continueSession(context, ...given),
    step: (...given) => step(context, ...given),
    submitToolResults: (...given) => submitToolResults(context, ...given),
    decide: (...given) => decide(context, ...given),
    send: (...given) => send(context, ...given),
    steer: (...given) => steer(context, ...given),
    withdraw: (...given) => withdraw(context, ...given),
    cancel: (...given) => cancel(context, ...given),
    get: (...given) => getSession(context, ...given),
    messages: (...given) => listMessages(context, ...given),
    list: (...given) => listSessions(context, ...given),
    delete: (...given) => deleteSession(context, ...given),
    fork: (...given) => fork(context, ...given),
    usage: (...given) => usageOf(context, ...given),
    events: (...given) => watch(context, ...given),
    attach: (...given) => attach(context, ...given),
    export: (...given) => exportTurn(context, ...given),
    token: (...given) => token(context, ...given),
    complete: (...given) => complete(context, ...given),
    recover: (...given) => recover(context, ...given),
    work: (...given) => work(context, ...given),
    close: async ({ graceMs = 10_000 } = {}) => {
      await context.turns.close(graceMs);
      context.pieces.flush();
    },
    tenant: (name) => runtimeOf({ ...context, tenant: name }),
  };
}

function checkedCount(name: "maxTakeovers" | "maxActiveTurns", count: number): number {
  if (Number.isSafeInteger(count) && count >= 1) return count;
  throw new MisuseError("invalid_argument", `${name} has to be a whole number of 1 or more, not ${String(count)}`, {
    path: [name],
  });
}

/** How long journals are kept: a time, or for ever. */
function checkedRetention(retentionMs: number | undefined): number | null {
  if (retentionMs === undefined || retentionMs === Number.POSITIVE_INFINITY) return null;
  if (typeof retentionMs === "number" && retentionMs >= 0 && retentionMs <= longestMs) return retentionMs;
  throw new MisuseError(
    "invalid_argument",
    `retentionMs has to be a time of less than ten years, not ${String(retentionMs)}`,
    {
      path: ["retentionMs"],
    },
  );
}
