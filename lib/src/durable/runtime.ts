// The durable runtime: the public interface (`Runtime`) and the function that builds it.
//
// Theory of operation
//   `runtime` builds one `RuntimeContext`, which all verbs and all turns of this process share: the storage, the
//   engines, the lease timings, the channels of local readers (`Hub`), the writer of live text (`PieceWriter`), the
//   watch for stored cancels and the cache of histories. `runtimeOf` binds the functions of the folders beside it to
//   that context and a tenant. A verb that starts a turn (1) reads the session, (2) writes one conditional batch that
//   accepts the turn, and (3) hands the turn to `ActiveTurns`, which drives it in the background under the lease that
//   the batch has claimed. Any process that shares the storage and has the engine can drive the turn instead, after the
//   lease is released or has expired.
//
// Invariants
//   1. A verb has either written its whole batch or changed nothing. Once a verb resolves, the turn survives a crash of
//      this process.
//   2. No state that a result depends on lives in this process: caches, channels and timers only avoid reads.
//   3. Verbs see the rows of one tenant, because the tenant is the first part of every session's key. `work`, `close`,
//      `recover` without an id, and `complete`, whose token names the tenant, concern all tenants.

import type { Engine } from "../core/engine/internal.ts";
import type { Rules } from "../core/engine/internal.ts";
import type {
  AuditEntry,
  Cancelled,
  Closeable,
  Compaction,
  HistoryFrame,
  Json,
  JsonObject,
  LedgerSum,
  Message,
  Page,
  Recovered,
  RuntimeEvent,
  Session,
  SessionSummary,
  SessionView,
  Usage,
  Withdrawn,
  UserMessage,
} from "../core/model/internal.ts";
import type { DecisionInput } from "../core/session/internal.ts";
import type { CancelOptions } from "./accept/cancel.ts";
import type { CompactOptions, FramePageOptions, UndoCompactionOptions } from "./accept/compaction.ts";
import type { SteerOptions } from "./accept/steer.ts";
import type { Completion, TokenAnswer, TokenOptions } from "./accept/tokens.ts";
import type { RuntimeContext, VerbContext } from "./drive/context.ts";
import type {
  AnswerOptions,
  DurableOptions,
  EventOptions,
  MessageOptions,
  OutputOption,
  RuntimeOptions,
  StartOptions,
  SteerInput,
  TurnHandle,
} from "./drive/types.ts";
import type { AuditPageOptions } from "./rows/audit.ts";
import type { LeaseTimings } from "./rows/lease.ts";
import type { MessagePageOptions, SessionPageOptions } from "./sessions/browse.ts";
import type { ForkOptions } from "./sessions/fork.ts";
import type { TenantPageOptions } from "./sessions/tenants.ts";
import type { Driven, DriveOptions } from "./work/drive-session.ts";
import type { Swept, SweepOptions } from "./work/sweep.ts";
import type { WorkOptions } from "./work/work.ts";

import { anything, checkOptions, systemClock } from "../core/engine/internal.ts";
import { FairShare } from "../core/fair/fair-share.ts";
import { closeable, MisuseError } from "../core/model/internal.ts";
import { isObject } from "../core/model/parse/reading.ts";
import { admitRun } from "./accept/admit-run.ts";
import { decide, submitToolResults } from "./accept/answers.ts";
import { cancel } from "./accept/cancel.ts";
import { compact, listFrames, undoCompaction } from "./accept/compaction.ts";
import { steer, withdraw } from "./accept/steer.ts";
import { complete, token } from "./accept/tokens.ts";
import { continueSession, sendMessage, start } from "./accept/verbs.ts";
import { ActiveTurns } from "./drive/active-turns.ts";
import { CancelWatch } from "./drive/cancel-watch.ts";
import { checkedStorage } from "./drive/context.ts";
import { GrowingLease } from "./drive/growing-lease.ts";
import { OutputChecks } from "./drive/output-checks.ts";
import { warnTurnFailure } from "./drive/warn-turn-failure.ts";
import { Hub } from "./read/hub.ts";
import { JoinedReads } from "./read/joined-reads.ts";
import { pagesInMemory, readsAtOnce } from "./read/page-budget.ts";
import { PieceWriter, pieceTimings } from "./read/pieces.ts";
import { auditPage } from "./rows/audit.ts";
import { randomText } from "./rows/digest.ts";
import { withFormat } from "./rows/format.ts";
import { HistoryCache } from "./rows/history-cache.ts";
import { withLargeValues } from "./rows/large-values.ts";
import { checkedTimings, leaseTimings, tenYearsMs } from "./rows/lease.ts";
import { checkedLimitKey, checkedLimits } from "./rows/limits.ts";
import { storageClock } from "./rows/storage-clock.ts";
import { StoredPinned } from "./rows/stored-pinned.ts";
import { bookUsage, getSession, listMessages, listSessions, readUsage } from "./sessions/browse.ts";
import { deleteSession } from "./sessions/delete.ts";
import { recordExport } from "./sessions/export.ts";
import { fork } from "./sessions/fork.ts";
import { attach, typedHandle, watch } from "./sessions/handles.ts";
import { deleteAllSessions, listTenants } from "./sessions/tenants.ts";
import { driveSession } from "./work/drive-session.ts";
import { recover } from "./work/recover.ts";
import { sweep } from "./work/sweep.ts";
import { work } from "./work/work.ts";

/** The parts of a runtime that inspection needs. */
type InspectedSource = Pick<RuntimeOptions, "host" | "engines" | "clock"> & {
  readonly owner: () => string;
  readonly places: () => number | null;
  readonly tenant: string;
};

/**
 * Durable sessions over a storage. A verb that starts a turn is accepted by one atomic write; any process that shares
 * the storage and has the engine can drive the turn. Verbs reject with `RuntimeError` (`not_found`, `conflict`,
 * `storage_…`) or throw `MisuseError` for arguments that can never be valid.
 */
export type Runtime = Closeable & {
  // Verbs that start a turn. Each stores the turn before it returns the handle.

  /** Creates a session from text, a user message, messages or a complete session, and runs its first turn. */
  readonly start: <Output = Json>(
    input: string | UserMessage | readonly Message[] | Session<JsonObject>,
    options?: StartOptions<Output>,
  ) => Promise<TurnHandle<Output>>;
  /**
   * Adds a user message, a text or a message with images and files, and runs a turn. If the session asked a question,
   * the message is the answer. While a turn is open, `whenBusy` decides; by default the call rejects with `conflict`.
   */
  readonly reply: <Output = Json>(
    id: string,
    message: string | UserMessage,
    options?: MessageOptions<Output>,
  ) => Promise<TurnHandle<Output>>;
  /** Runs the next turn, with one more message or without. */
  readonly continue: <Output = Json>(
    id: string,
    message?: Message | null,
    options?: DurableOptions<Output>,
  ) => Promise<TurnHandle<Output>>;
  /** Runs a turn of one step: a model reply and its tool calls. */
  readonly step: <Output = Json>(id: string, options?: DurableOptions<Output>) => Promise<TurnHandle<Output>>;
  /**
   * Records the results of pending tool calls. The result that answers the last pending call starts a turn, unless
   * `continue` is `false`. Options override those of the turn that made the calls.
   */
  readonly submitToolResults: <Output = Json>(
    id: string,
    results: readonly (readonly [toolCallId: string, content: unknown])[],
    options?: AnswerOptions<Output>,
  ) => Promise<TurnHandle<Output>>;
  /**
   * Approves a pending tool call, with edited arguments if given, or denies it. The decision that answers the last
   * pending call starts a turn, unless `continue` is `false`. Options override those of the turn that made the call.
   */
  readonly decide: <Output = Json>(
    id: string,
    toolCallId: string,
    decision: DecisionInput,
    options?: AnswerOptions<Output>,
  ) => Promise<TurnHandle<Output>>;
  /**
   * Sends a user message like `reply`, but steers an open turn by default. The returned handle is that of the turn
   * which reads the message.
   */
  readonly send: <Output = Json>(
    id: string,
    message: string | UserMessage,
    options?: MessageOptions<Output>,
  ) => Promise<TurnHandle<Output>>;

  // Commands for the open turn.

  /**
   * Adds input to the open turn at its next checkpoint, or to the next turn if no checkpoint follows or no turn is
   * open. Returns the id of the input and the turn that is expected to accept it. `id` makes the call idempotent.
   * `turnContext` is that of a turn which the input starts; if the open turn has another one, the call rejects with
   * `conflict`.
   */
  readonly steer: (
    id: string,
    input: SteerInput,
    options?: SteerOptions,
  ) => Promise<{ readonly inputId: string; readonly turnId: string }>;
  /**
   * Withdraws input that no turn has accepted yet: the `id` of a `steer`, or the `key` of a message that steers a turn
   * or is queued. The cancel of an interrupted turn is not undone.
   */
  readonly withdraw: (id: string, inputId: string) => Promise<Withdrawn>;
  /**
   * Cancels the open turn. The command is stored, so it takes effect whichever process drives the turn (H6). Waits for
   * the end of the turn, for up to `waitMs` (default 60,000), and returns `cancelled`; `completion_won` if the end of
   * the turn was committed first (Q9); `stored` if the turn has not ended in time; or `nothing_open`.
   */
  readonly cancel: (id: string, options?: CancelOptions) => Promise<Cancelled>;

  // The context window (`contextPolicy` of the engine).

  /**
   * Requests a compaction: the next model call of the session is preceded by a summary of its older messages, which
   * stands for them in requests. Starts no turn, so pending calls and questions are not touched; a later call replaces
   * `instructions`. Rejects with `conflict` while a turn is open.
   */
  readonly compact: (id: string, options?: CompactOptions) => Promise<Compaction>;
  /**
   * Undoes the newest compaction: takes its frame back, so that the next request contains the messages that it stood
   * for, and the frame before it if there was one. Withdraws a requested compaction first. Rejects with `conflict`
   * while a turn is open, and with `MisuseError` if there is nothing to undo.
   */
  readonly undoCompaction: (id: string, options?: UndoCompactionOptions) => Promise<Compaction>;
  /**
   * Returns a page of the frames of a session, oldest first. A frame stands for the messages before its position `to`
   * in requests; `messages` returns these messages nevertheless. A frame that was undone has a time in `undoneAt`.
   */
  readonly frames: (id: string, options?: FramePageOptions) => Promise<Page<HistoryFrame>>;

  // Reading and managing sessions.

  /**
   * Returns the session as of its last boundary commit, and its open turn; `null` if there is no such session.
   * `messages` limits the thread to that many of the newest messages; `"all"` returns all of them. `maxLength` limits
   * it to the newest messages whose JSON has at most that many characters together, and to at least one message.
   */
  readonly get: (
    id: string,
    options?: { readonly messages?: number | "all"; readonly maxLength?: number },
  ) => Promise<SessionView | null>;
  /**
   * Returns a page of messages, oldest first. `after` is the index of a message, counted from 0, or the cursor `next`
   * of the previous page. `before` reads backwards: the page ends before that index, and its `next` is the `before` of
   * the page before it. A page has at most `limit` messages (default 100), and at most `maxLength` characters of JSON
   * (default: no limit) or one message.
   */
  readonly messages: (id: string, options?: MessagePageOptions) => Promise<Page<Message>>;
  /**
   * Returns a page of sessions, most recently changed first. `after` is the cursor `next` of the previous page. A
   * session whose row cannot be read is left out; `get` reports the reason. `status`, `engine`, `owner`, `metadata` and
   * the function `where` select sessions. The statuses `waiting` and `parked` and the owner have an index. Other
   * filters examine at most 1,024 sessions for a page, which may have fewer items than `limit`, also none, and a
   * `next`.
   */
  readonly list: (options?: SessionPageOptions) => Promise<Page<SessionSummary>>;
  /**
   * Deletes a session, also one whose row cannot be read. A tombstone remains, so that a process that still drives the
   * session cannot write it again. Retention entries and tokens hold ids and digests only; workers remove them later.
   * Pinned configurations of engines are shared by content and remain; those with texts of a call, such as
   * `instructions`, are deleted. The branches of a chat (`useChat`) are deleted with it, and replies that
   * `responseCache` has stored for the session in this storage; forks of a program are sessions of their own and
   * remain.
   */
  readonly delete: (id: string) => Promise<void>;
  /**
   * Deletes all sessions of the tenant, or those that belong to the caller `owner`, and returns their number. The audit
   * log keeps a row for each.
   */
  readonly deleteAll: (options?: { readonly owner?: string }) => Promise<number>;
  /**
   * Returns a page of the names of the tenants that have sessions, in order; `after` is the cursor `next` of the
   * previous page.
   */
  readonly tenants: (options?: TenantPageOptions) => Promise<Page<string>>;
  /**
   * Creates a session with the messages of this one, or with the first `at` messages, and returns its id. Approvals are
   * not copied while a turn uses them: the call is pending again in the fork. Calls there have idempotency keys of
   * their own. `redo` makes a finished call pending again, to run it with other arguments or to give it another result.
   */
  readonly fork: (id: string, options?: ForkOptions) => Promise<string>;
  /**
   * Returns the usage that was booked to a session, by source and by model. `null`: what `book` has booked without a
   * session.
   */
  readonly usage: (id: string | null) => Promise<LedgerSum>;
  /**
   * Books usage that belongs to no session, such as that of a stateless run, in the ledger of the tenant: one line for
   * each `model`, to which the usage is added. `model`: the model that caused it; default: none.
   */
  readonly book: (usage: Usage, options?: { readonly model?: string | null }) => Promise<void>;
  /**
   * Takes the slots that `limits` require for a run of `engine` that is no turn, such as a stateless completion, and
   * returns the function that releases them. `name` is the name of the engine if this runtime does not have it. Rejects
   * with `quota_exceeded` if a limit has no free slot: such a run does not wait, and `metadata.retryAfterMs` says when
   * to try again. Slots of a process that died expire after the lease time. Call the function once, also if the run
   * failed.
   */
  readonly admit: (engine: Engine, name: string) => Promise<() => Promise<void>>;

  // Reading events.

  /**
   * Reads the events of a session, from the first one or after a cursor, and follows new ones until the reader
   * leaves.
   */
  readonly events: (id: string, options?: EventOptions) => AsyncIterable<RuntimeEvent>;
  /**
   * Returns a handle on the open turn, or on the given turn, whichever process drives it. `output` is the schema that
   * the turn was started with: it gives the output of the result its type and its conversions.
   */
  readonly attach: <Output = Json>(
    id: string,
    turnId?: string | null,
    options?: OutputOption<Output>,
  ) => TurnHandle<Output>;

  // Completing a pending call from outside.

  /**
   * Returns a capability token that completes this pending call once, while the call is pending with its current
   * arguments. Whoever has the token can answer the call and nothing else.
   */
  readonly token: (id: string, toolCallId: string, options?: TokenOptions) => Promise<string>;
  /**
   * Completes the call of a token. The first answer is recorded; later ones change nothing, and the result says so.
   */
  readonly complete: (token: string, answer: TokenAnswer) => Promise<Completion>;

  // The audit log.

  /**
   * Returns a page of the audit log, newest first: decisions, cancels, deletions, exports and changes of keys, with who
   * did it (`actedBy`), when, and a digest of what it was done to. Of all tenants, unless `tenant` names one. A page
   * that is filtered may have fewer items than `limit` (default 100) and a `next`.
   */
  readonly audit: (options?: AuditPageOptions) => Promise<Page<AuditEntry>>;
  /** Records in the audit log that a turn was exported. `createHandler` and `everturn show --export` call it. */
  readonly exported: (id: string, turnId: string) => Promise<void>;

  /**
   * What `inspection` of `everturn/http` reads: the storage, the engines, the clock, the tenant, and the name of this
   * process in leases. Inspection is no part of the runtime: it lists turns with their timelines, exports records,
   * searches messages and sums up turns, over a storage alone.
   */
  readonly source: InspectedSource;

  // Driving turns of other processes.

  /**
   * Without an id: drives every open turn that no process holds, and returns their number. With an id: drives the open
   * turn of that session, makes a failed session usable again, or ends a parked turn. `from: "step"` restarts the open
   * step of a parked turn and names the effects that may be performed twice (Q14).
   */
  readonly recover: (id?: string, options?: { readonly from?: "step" }) => Promise<Recovered>;
  /**
   * Runs a worker until the signal aborts: drives open turns that no process holds, which are turns of crashed
   * processes and turns that were only accepted; applies deadlines; removes expired journals. It continues after
   * errors, and reports them ({@link WorkOptions}).
   */
  readonly work: (options: WorkOptions) => Promise<void>;
  /**
   * How long the leases of this process last and how often it renews them, in milliseconds (`lease` of
   * {@link RuntimeOptions}). For a system that calls `drive`: it derives from `ttlMs` how soon it calls another process
   * if one does not answer.
   */
  readonly lease: LeaseTimings;
  /**
   * Drives one session until no turn is open (`idle`), until `deadlineMs` is over (`handed_over`), or not at all
   * because another process holds it (`busy`) or because the turn is parked (`parked`). For a queue, a cron job or a
   * serverless function that decides where sessions run. Whether and how often it is called affects when a turn runs,
   * and nothing else. Rejects with the error that stopped the turn here; the turn stays open.
   */
  readonly drive: (id: string, options?: DriveOptions) => Promise<Driven>;
  /**
   * Does once what a worker does besides driving turns: applies deadlines, removes expired journals and unreferenced
   * rows. Lists the sessions that are due, of all tenants, at most `limit` (default 256), for `drive`. For deployments
   * without a worker.
   */
  readonly sweep: (options?: SweepOptions) => Promise<Swept>;
  /**
   * Hands over every turn that this process drives: each at its next commit, or during an effect after `graceMs`
   * milliseconds (default 10,000). The leases are released, so other processes continue the turns at once; no turn
   * fails. Resolves when the leases are released, at the latest 5 seconds after `graceMs`: a lease that a busy storage
   * kept from being released expires. `result` of an open turn of this process rejects with `lease_lost`. A verb that
   * is called later only accepts its turn.
   */
  readonly close: (options?: { readonly graceMs?: number }) => Promise<void>;

  /**
   * Returns the same runtime for one tenant, whose verbs cannot reach sessions of other tenants. `work`, `sweep`,
   * `close`, `recover` without an id and `complete` concern all tenants. The default tenant is the empty string.
   */
  readonly tenant: (name: string) => Runtime;
  /**
   * Returns the same runtime with a limit key for the turns of its verbs, unless a verb has its own or continues a turn
   * that has one. For a request handler: the key of the authenticated user. Throws `MisuseError` for a key that is
   * empty or longer than 256 characters.
   */
  readonly limitedBy: (limitKey: string) => Runtime;
  /**
   * Returns the same runtime for one caller of the tenant, which `everturn/http` does for the caller of each request.
   * Sessions that its verbs start belong to the caller (`owner`), and turns are stored as started by it (`startedBy`).
   * Its verbs still reach every session of the tenant; the rules of `createHandler` say who may do what over HTTP.
   * Throws `MisuseError` for a name that is longer than 256 characters.
   */
  readonly calledBy: (caller: string) => Runtime;
  /**
   * Returns the same runtime with the name that the audit log records for its verbs; `null`: that of the caller.
   * `createHandler` names the caller of each request.
   */
  readonly actedBy: (actor: string | null) => Runtime;
};

/** The values without a rule here are checked where they are used. */
const optionRules: Rules<RuntimeOptions> = {
  host: {
    must: "a storage, such as memoryStorage()",
    fits: (value) => isObject(value) && typeof value["read"] === "function",
    required: true,
  },
  engines: {
    must: "an object of engines by name, { default: engine({ … }) }",
    fits: (value) => isObject(value) && Object.values(value).every((each) => isObject(each) && "adapter" in each),
    required: true,
  },
  durability: anything,
  drive: anything,
  clock: anything,
  owner: anything,
  lease: anything,
  maxTakeovers: anything,
  maxActiveTurns: anything,
  limits: anything,
  retentionMs: anything,
  sessionRetentionMs: anything,
  live: anything,
  onTurnFailure: anything,
};

/**
 * Builds a runtime over a storage. Performs no I/O. Throws `MisuseError` if there is no engine or an option is out of
 * range, and `RuntimeError` (`volatile_storage`) if `durability: "durable"` is required and the storage is volatile.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { memoryStorage } from "everturn/runtime";
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
  checkOptions("runtime", options, optionRules);
  const { engines, clock = systemClock, lease = {}, live = {} } = options;
  const growingLease = new GrowingLease(checkedTimings({ ...leaseTimings, ...lease }));
  const maxActiveTurns = checkedCount("maxActiveTurns", options.maxActiveTurns ?? 4096);
  const { storage: host, clock: storageTime } = storageClock(
    growingLease.measured(checkedStorage(options.host, options.durability ?? null), clock),
    clock,
  );
  const storage = withFormat(withLargeValues(host));
  if (Object.keys(engines).length === 0) {
    throw new MisuseError("invalid_argument", "a runtime needs an engine: { engines: { default: engine({ … }) } }", {
      path: ["engines"],
    });
  }
  let { owner } = options;
  const timings = live === false ? null : { ...pieceTimings, ...live };
  const context: RuntimeContext = {
    storage,
    format: storage.format,
    engines,
    clock: storageTime,
    // Created at first use: some edge platforms refuse random numbers outside of a request.
    owner: () => (owner ??= `process-${randomText(8)}`),
    lease: growingLease,
    maxTakeovers: checkedCount("maxTakeovers", options.maxTakeovers ?? 5),
    maxActiveTurns: () => Math.min(maxActiveTurns, growingLease.places),
    limits: checkedLimits(options.limits),
    retentionMs: checkedRetention("retentionMs", options.retentionMs),
    sessionRetentionMs: checkedRetention("sessionRetentionMs", options.sessionRetentionMs),
    reportFailure: (report) => {
      try {
        (options.onTurnFailure ?? warnTurnFailure)(report);
      } catch {
        // A function of the program that reports failures must not cause one.
      }
    },
    hub: new Hub(),
    pieces: new PieceWriter(storage, clock, timings),
    reads: new JoinedReads(storage),
    cancels: new CancelWatch(storage, clock),
    histories: new HistoryCache(),
    pages: new FairShare(pagesInMemory),
    readPermits: new FairShare(readsAtOnce),
    outputChecks: new OutputChecks(),
    forkPermits: new FairShare({ each: 1, total: 8 }),
    endReads: new Map(),
    pinned: new StoredPinned(clock),
  };
  const drives = options.drive ?? true;
  const turns = new ActiveTurns(context, drives);
  return runtimeOf(
    { ...context, turns, tenant: "", limitKey: null, caller: null, actor: null, drives },
    { host: options.host, engines, clock, owner: context.owner, places: () => turns.workerPlaces },
  );
}

function runtimeOf(context: VerbContext, source: Omit<InspectedSource, "tenant">): Runtime {
  return closeable({
    start: async (input, options) => typedHandle(await start(context, input, options), options?.output),
    reply: async (id, message, options) =>
      typedHandle(await sendMessage(context, "reject", id, message, options), options?.output),
    continue: async (id, message, options) =>
      typedHandle(await continueSession(context, "continue", id, message, options), options?.output),
    step: async (id, options) =>
      typedHandle(await continueSession(context, "step", id, null, options), options?.output),
    submitToolResults: async (id, results, options) =>
      typedHandle(await submitToolResults(context, id, results, options), options?.output),
    decide: async (id, callId, decision, options) =>
      typedHandle(await decide(context, id, callId, decision, options), options?.output),
    send: async (id, message, options) =>
      typedHandle(await sendMessage(context, "steer", id, message, options), options?.output),
    steer: (...args) => steer(context, ...args),
    withdraw: (...args) => withdraw(context, ...args),
    cancel: (...args) => cancel(context, ...args),
    compact: (...args) => compact(context, ...args),
    undoCompaction: (...args) => undoCompaction(context, ...args),
    frames: (...args) => listFrames(context, ...args),
    get: (...args) => getSession(context, ...args),
    messages: (...args) => listMessages(context, ...args),
    list: (...args) => listSessions(context, ...args),
    delete: (...args) => deleteSession(context, ...args),
    deleteAll: (...args) => deleteAllSessions(context, ...args),
    tenants: (...args) => listTenants(context, ...args),
    audit: (...args) => auditPage(context.storage, ...args),
    exported: (...args) => recordExport(context, ...args),
    fork: (...args) => fork(context, ...args),
    usage: (...args) => readUsage(context, ...args),
    book: (...args) => bookUsage(context, ...args),
    admit: (...args) => admitRun(context, ...args),
    lease: context.lease,
    events: (...args) => watch(context, ...args),
    attach: (id, turnId, options) => typedHandle(attach(context, id, turnId), options?.output),
    token: (...args) => token(context, ...args),
    complete: (...args) => complete(context, ...args),
    source: { ...source, tenant: context.tenant },
    recover: (...args) => recover(context, ...args),
    work: (...args) => work(context, ...args),
    drive: (...args) => driveSession(context, ...args),
    sweep: (...args) => sweep(context, ...args),
    close: async ({ graceMs = 10_000 } = {}) => {
      await context.turns.close(graceMs);
      context.pieces.flush();
    },
    tenant: (name) => runtimeOf({ ...context, tenant: name }, source),
    limitedBy: (limitKey) => runtimeOf({ ...context, limitKey: checkedLimitKey(limitKey) }, source),
    calledBy: (caller) => runtimeOf({ ...context, caller: checkedCaller(caller) }, source),
    actedBy: (actor) => runtimeOf({ ...context, actor }, source),
  } satisfies Omit<Runtime, keyof Closeable>);
}

/** The longest name of a caller, in UTF-16 code units: it is part of the key of a row. */
export const longestCallerName = 256;

function checkedCaller(caller: string): string {
  if (typeof caller === "string" && caller.length <= longestCallerName) return caller;
  throw new MisuseError(
    "invalid_argument",
    `calledBy: the name of a caller must be a string of up to ${longestCallerName} characters`,
  );
}

function checkedCount(name: "maxTakeovers" | "maxActiveTurns", count: number): number {
  if (Number.isSafeInteger(count) && count >= 1) return count;
  throw new MisuseError("invalid_argument", `${name} must be a whole number of 1 or more, not ${String(count)}`, {
    path: [name],
  });
}

/** Validates a retention time. `null`: without limit. */
function checkedRetention(name: "retentionMs" | "sessionRetentionMs", ms: number | undefined): number | null {
  if (ms === undefined || ms === Number.POSITIVE_INFINITY) return null;
  if (typeof ms === "number" && ms >= 0 && ms <= tenYearsMs) return ms;
  const rule = "must be a number of milliseconds from 0 to ten years, or Infinity";
  throw new MisuseError("invalid_argument", `${name} ${rule}, not ${String(ms)}`, { path: [name] });
}
