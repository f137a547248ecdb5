// Stored values, by table: their fields, types and shapes. `stored.ts` reads and writes them. A field with `fallback`
// may be absent in rows of older releases. Field names are stored data: renaming one needs an upgrade step in
// `stored.ts`, because any release reads the rows of older ones (S1).

import type { TurnStatus } from "../../core/model/internal.ts";
import type { Infer, InferShapes, InferUnion, Shape, WordOf } from "../../core/model/parse/reading.ts";

import { callAnswerShape, journalItems } from "../../core/kernel/internal.ts";
import { noUsage } from "../../core/model/internal.ts";
import {
  answerKinds,
  array,
  boolean,
  cancelEvidenceShape,
  contextWindowShape,
  emptyObject,
  eventShape,
  failureShape,
  fallback,
  frameShape,
  haltedReasonShape,
  json,
  jsonObject,
  messageShape,
  nullable,
  number,
  object,
  oneOf,
  outcomeShape,
  replyShape,
  required,
  sessionShape,
  settings,
  string,
  suspendedCellShape,
  turnCauseShape,
  turnStatuses,
  usageShape,
  variant,
} from "../../core/model/parse/reading.ts";

/**
 * Why a session is listed in `attention`. `waiting`: a person or a program has to answer. `parked`: its turn is parked.
 */
export type Attention = WordOf<typeof attentions>;
export const attentions = ["waiting", "parked"] as const;

const headFields = {
  /** The session; the thread has no messages here. */
  session: required(sessionShape),
  /** The name of the engine of the newest turn, with which the session continues; `null` in rows of older releases. */
  engine: fallback(nullable(string), null),
  /** The caller that the session belongs to (`Runtime.calledBy`); `null`: a program started it, or an older release. */
  owner: fallback(nullable(string), null),
  /** `startedBy` of the newest turn: the open one, or the one that ended last, whose calls are pending. */
  startedBy: fallback(array(string), []),
  /** The number of messages. */
  length: required(number),
  /** The rolling digest of the messages. */
  digest: required(string),
  /** The open turn, also when it is parked; `null`: none. */
  turn: fallback(nullable(string), null),
  /** The turn that ended last. */
  lastTurn: fallback(nullable(string), null),
  /**
   * The sequence number of the newest event at the last write of this row. Between boundaries the turn row has a newer
   * one.
   */
  sequence: fallback(number, 0),
  /** In milliseconds. */
  createdAt: fallback(number, 0),
  /**
   * When a verb changed the session, or a turn began, ended or was parked, in milliseconds; a step of a turn does not
   * count. Also the key of the row in `recent`.
   */
  changedAt: fallback(number, 0),
  /** The beginning of the first user message; `null`: there is none, or an older release created the session. */
  title: fallback(nullable(string), null),
  /**
   * The status under which the session has a row in `attention`; `null`: it has none. `unknown` in rows of older
   * releases.
   */
  attention: fallback(nullable(oneOf([...attentions, "unknown"])), "unknown"),
  /** `true`: the row is a tombstone. A new session under the same id continues its version and its sequence. */
  deleted: fallback(boolean, false),
};

/** The session row: the session without its messages, which are rows of `entries`. */
export type SessionHead = Infer<typeof headFields>;

/** The kernel revision of start rows without the field: they were written before there was a second revision. */
const firstRevision = 1;

const turnStartFields = {
  verb: required(oneOf(["chat", "step"])),
  /** The name of the engine. */
  engine: required(string),
  /** The options of the verb. */
  options: fallback(jsonObject, emptyObject),
  /** The context that tool handlers receive in this turn; `null`: that of the session. */
  context: fallback(nullable(settings), null),
  /**
   * The callers whose input the turn has: the one that started it, and those of the turns that it continues. Empty: a
   * program started the turn, or an older release. Who decided about a call is not among them.
   */
  startedBy: fallback(array(string), []),
  /** The kernel revision under which the turn was started, and is replayed and continued (Q6). */
  revision: fallback(number, firstRevision),
  /** The number of messages of the session before the turn. */
  base: required(number),
  /** The rolling digest of these messages. */
  digest: required(string),
  /**
   * The digest of the pinned configuration: its key in `contents`. See `own-pinned.ts` for configurations of one
   * session.
   */
  pinned: required(string),
  /** Results and decisions for pending calls, with which the turn begins. */
  answers: fallback(array(callAnswerShape), []),
  /** The suspended cell that the turn resumes. */
  cell: fallback(nullable(suspendedCellShape), null),
  /** Messages from the inbox, if the turn was built from inbox input (Q11). */
  messages: fallback(array(messageShape), []),
  /** Turn causes from the inbox. */
  turnCauses: fallback(array(turnCauseShape), []),
  /** The ids of these inputs. */
  inputs: fallback(array(string), []),
  /** The number of records of protocols that the session had before the turn (`Session.protocolEvents`). */
  protocolEvents: fallback(number, 0),
  /** The usage of the session before the turn: budgets of a session continue from it. */
  spentBefore: fallback(usageShape, noUsage),
  /** What the requests of the session left out of its history before the turn; `null`: nothing. */
  contextWindow: fallback(nullable(contextWindowShape), null),
  /** In milliseconds. */
  acceptedAt: fallback(number, 0),
  /**
   * The trace context with which any process continues the trace of the turn (`everturn/otel`); `null`: the turn is not
   * traced.
   */
  trace: fallback(nullable(jsonObject), null),
};

/**
 * The input and options that a turn was accepted with. Any process builds the same plan from it and from the pinned
 * configuration.
 */
export type TurnStart = Infer<typeof turnStartFields>;

const turnSummaryFields = {
  haltedReason: required(haltedReasonShape),
  outcome: required(outcomeShape),
  finalResponse: fallback(nullable(replyShape), null),
  steps: fallback(number, 0),
  usage: required(usageShape),
  metadata: fallback(jsonObject, emptyObject),
};

/** The result of a turn, without the messages it added. */
export type TurnSummary = Infer<typeof turnSummaryFields>;

const summaryShape: Shape<TurnSummary> = object(turnSummaryFields);

const turnProgressFields = {
  status: required(oneOf<TurnStatus>(turnStatuses)),
  /** The number of journal rows. The state that follows from them is stored with them. */
  committed: required(number),
  /** The sequence number of the newest event of the session at the last commit of the turn. */
  sequence: required(number),
  /** The step the turn is in. */
  step: fallback(number, 0),
  /** Takeovers after an expired lease since the last journal row of the turn or of its child turns (Q17). */
  takeovers: fallback(number, 0),
  /**
   * Attempts at effects that were thrown away so far: retries, attempts that a crash has ended, and restarted steps. 0
   * in rows of older releases.
   */
  discarded: fallback(number, 0),
  /** The result, once the turn has ended. */
  end: fallback(nullable(summaryShape), null),
  /** When it ended, in milliseconds; `null`: it has not, or an older release ended it. */
  endedAt: fallback(nullable(number), null),
  /** The reason why the turn is parked. */
  failure: fallback(nullable(failureShape), null),
};

/** The progress of a turn. */
export type TurnProgress = Infer<typeof turnProgressFields>;

const effectTimingFields = {
  /** When the effect began. For an item that answers no effect, the time of the commit. */
  startedAt: required(number),
  /**
   * When the first content of the reply arrived, in the last attempt; `null`: the effect is no model call, or was not
   * streamed.
   */
  firstAt: fallback(nullable(number), null),
  endedAt: required(number),
  /** The name of the process. */
  owner: required(string),
  /** When the process claimed the session. */
  heldSince: required(number),
  /** The claim was a takeover: the process before had crashed or was blocked. */
  takesOver: required(boolean),
};

/**
 * When and by which process an item was settled. For people; a replay does not compare it. Times are in milliseconds,
 * by the clock of that process.
 */
export type EffectTiming = Infer<typeof effectTimingFields>;

const timingShape: Shape<EffectTiming> = object(effectTimingFields);

const itemCases = {
  ...journalItems,
  /** Supersedes the rows from the ordinal `from` on: the step was restarted (Q14). */
  step_restarted: { from: required(number), step: required(number) },
};

/** An item of the journal: what the turn accepted, or `step_restarted`. */
type RecordedItem = InferUnion<"type", typeof itemCases>;

const itemShape: Shape<RecordedItem> = variant("type", itemCases);

const journalRowFields = {
  /**
   * The effect that the response answers, as canonical JSON: a replay must order the same effect. `null`: the item is
   * no response.
   */
  effect: fallback(nullable(string), null),
  /** SHA-256 of `effect`. It tells a damaged row from a replay that diverged. */
  hash: fallback(nullable(string), null),
  item: required(itemShape),
  /** The lease epoch under which the item was settled. */
  epoch: fallback(number, 0),
  /** The number of the attempt that settled it, from 1. */
  attempt: fallback(number, 1),
  /** `null` in rows of older releases. */
  timing: fallback(nullable(timingShape), null),
};

/** A row of the journal. */
export type JournalRow = Infer<typeof journalRowFields>;

const ownTurnFields = {
  id: required(string),
  /** The name of the engine. */
  engine: required(string),
  /** The options of the verb. */
  options: required(jsonObject),
  /** The context of the turn; `null`: that of the session. */
  context: fallback(nullable(settings), null),
  /** The caller that queued the input, or none. */
  startedBy: fallback(array(string), []),
  /**
   * The input cancelled the open turn (`whenBusy: "interrupt"`): its turn starts before the turns of other queued
   * input.
   */
  interrupts: required(boolean),
  /** The trace context of the call that queued the input; see `TurnStart`. */
  trace: fallback(nullable(jsonObject), null),
  /**
   * The configuration that the turn would have had when the input was accepted. It is used if the process that ends the
   * open turn cannot plan this one. `null`: an earlier release accepted the input.
   */
  pinned: fallback(nullable(json), null),
};

/**
 * The turn that queued input starts. Its id is chosen when the input is accepted, so that readers can wait for the
 * turn.
 */
export type OwnTurn = Infer<typeof ownTurnFields>;

const ownTurnShape: Shape<OwnTurn> = object(ownTurnFields);

const inputCases = {
  message: { message: required(messageShape) },
  transient: { message: required(messageShape) },
  cause: { cause: required(turnCauseShape) },
};

/** A message for the history, a message for this turn only, or an event from outside the conversation. */
export type InboxInput = InferUnion<"type", typeof inputCases>;

const inputShape: Shape<InboxInput> = variant("type", inputCases);

const inboxFields = {
  /** The id of the input: an idempotency key. */
  id: required(string),
  input: required(inputShape),
  /** Input that was delivered or withdrawn is no longer in the inbox; its row in `accepted` has the state. */
  state: required(oneOf(["pending", "claimed"])),
  /** The turn that claimed the input. */
  turn: fallback(nullable(string), null),
  /** The lease epoch of the claim. Under another epoch the claim is void. */
  epoch: fallback(nullable(number), null),
  /** When the input arrived, in milliseconds. */
  at: fallback(number, 0),
  /**
   * The turn that the input starts when the open turn has ended; `null`: the next checkpoint claims the input (Q11).
   */
  ownTurn: fallback(nullable(ownTurnShape), null),
};

/** An input in the inbox. */
export type InboxEntry = Infer<typeof inboxFields>;

const settlesShape = object({ effectId: required(string), epoch: required(number), n: required(number) });

const storedEventFields = {
  turn: required(string),
  /** The ordinal of the journal row that caused it; 0: the start of the turn. */
  ordinal: required(number),
  /** Its index among the events of that row; -1: the event that a parked turn adds. */
  index: required(number),
  /** The attempt that it settles, if it settles one. */
  settles: fallback(nullable(settlesShape), null),
  event: required(eventShape),
};

/** An event of the log. */
export type StoredEvent = Infer<typeof storedEventFields>;

const slotFields = { scope: required(string), number: required(number) };

/** A slot of the limit of concurrent turns of a scope. */
export type Slot = Infer<typeof slotFields>;

const slotShape: Shape<Slot> = object(slotFields);

const limitCases = {
  /**
   * The limits have admitted the turn. It holds these slots until it ends or is parked, whichever process drives it.
   */
  admitted: { slots: required(array(slotShape)) },
  /** The turn waits for a limit. `scope` and `since` are parts of the key of its row in `work`. */
  waiting: {
    scope: required(string),
    /** When the turn first had to wait, in milliseconds. */
    since: required(number),
  },
};

/** The state of an open turn with respect to the limits of the runtime. */
export type TurnLimit = InferUnion<"type", typeof limitCases>;

export type LimitedTurn = Extract<TurnLimit, { readonly type: "waiting" }>;

const limitShape: Shape<TurnLimit> = variant("type", limitCases);

const openTurnFields = {
  turn: required(string),
  engine: required(string),
  /**
   * The time of its row among the turns in `work`, in milliseconds. A turn that waits for a limit has no such row,
   * unless it is woken.
   */
  due: fallback(number, 0),
  /** The option `limitKey` of the verb; `null`: none. */
  limitKey: fallback(nullable(string), null),
  /** Whether the limits have admitted the turn; `null`: no limit was applied to it. */
  limit: fallback(nullable(limitShape), null),
};

/** An open turn: some process drives it, or has to. */
export type OpenTurn = Infer<typeof openTurnFields>;

/** The lease time of lease rows without the field: the default of the releases that wrote them. */
const leaseTimeMs = 30_000;

const leaseFields = {
  /** The name of the process. */
  owner: required(string),
  /** How long the lease lasts without a renewal, in milliseconds. */
  ttlMs: fallback(number, leaseTimeMs),
  /** The holder released the lease. A claim after a release is no takeover (Q17). */
  released: fallback(boolean, false),
  /** The identity of the process (`Liveness.process`); `null`: it has none, and the lease can only expire. */
  process: fallback(nullable(string), null),
  /**
   * When the holder claimed the session, in milliseconds, by its own clock; `null` in rows of older releases and after
   * a release.
   */
  since: fallback(nullable(number), null),
  /** The process that held the session before, if it had crashed or was blocked; `null`: the claim was no takeover. */
  tookOverFrom: fallback(nullable(string), null),
  /** The process drives no other turn (`drive/takeovers.ts`). `false` in rows of older releases. */
  alone: fallback(boolean, false),
};

/** The holder of a lease. */
export type LeaseHolder = Infer<typeof leaseFields>;

const pieceItemFields = {
  part: fallback(nullable(string), null),
  offset: fallback(number, 0),
  event: required(eventShape),
};

/**
 * A live event. `part` and `offset` say where its text belongs in the reply; `part` is `null` for an event without
 * text.
 */
export type PieceItem = Infer<typeof pieceItemFields>;

const pieceItemShape: Shape<PieceItem> = object(pieceItemFields);

const pieceFields = {
  effectId: required(string),
  epoch: required(number),
  n: required(number),
  /** The sequence number of the stored event that the items follow. */
  after: required(number),
  items: required(array(pieceItemShape)),
};

/** Live events of one attempt, for readers in other processes, in order. Adjacent deltas of one part are merged. */
export type Piece = Infer<typeof pieceFields>;

const rollupOutcomeFields = {
  completed: fallback(number, 0),
  waiting: fallback(number, 0),
  failed: fallback(number, 0),
  cancelled: fallback(number, 0),
  parked: fallback(number, 0),
  /** A budget or the step limit. */
  limited: fallback(number, 0),
};

/** Numbers of turns by how they ended. */
export type RollupOutcomes = Infer<typeof rollupOutcomeFields>;
/** How a turn ended, as the overview counts it. */
export type OutcomeClass = keyof RollupOutcomes;

const rollupOutcomesShape: Shape<RollupOutcomes> = object(rollupOutcomeFields);

const rollupSumFields = {
  name: required(string),
  turns: required(number),
  outcomes: required(rollupOutcomesShape),
  inputTokens: fallback(number, 0),
  cachedInputTokens: fallback(number, 0),
  outputTokens: fallback(number, 0),
  /** In billionths of a US dollar. */
  nanoCost: fallback(number, 0),
  takeovers: fallback(number, 0),
  duration: fallback(array(number), []),
  firstContent: fallback(array(number), []),
};

/** Sums over the turns of one engine or tenant. */
export type RollupSum = Infer<typeof rollupSumFields>;

const rollupSumShape: Shape<RollupSum> = object(rollupSumFields);

const rollupToolFields = {
  name: required(string),
  calls: required(number),
  failed: fallback(number, 0),
  duration: fallback(array(number), []),
};

/** Sums over the calls of one tool. */
export type RollupTool = Infer<typeof rollupToolFields>;

const rollupToolShape: Shape<RollupTool> = object(rollupToolFields);

const rollupFields = {
  engines: required(array(rollupSumShape)),
  tools: fallback(array(rollupToolShape), []),
  tenants: fallback(array(rollupSumShape), []),
};

/** The sums of a period: by engine, by tool, and, in rows of all tenants, by tenant. */
export type Rollup = Infer<typeof rollupFields>;

const auditFields = {
  /** What was done. A text, so that a release can add actions. */
  action: required(string),
  /** Who did it: the name of a caller or of a program; `null`: a program that gave no name. */
  actor: fallback(nullable(string), null),
  tenant: fallback(string, ""),
  session: fallback(nullable(string), null),
  /** The id of the call, the turn, the key or the user. */
  target: fallback(nullable(string), null),
  /** A digest of what it was done to: nothing can be read from it. */
  digest: fallback(nullable(string), null),
};

/** The shapes of values, by table. Rows of the other tables have an empty value or an opaque text. */
export const shapes = {
  sessions: object(headFields),
  entries: messageShape,
  frames: frameShape,
  starts: object(turnStartFields),
  turns: object(turnProgressFields),
  contents: json,
  journal: object(journalRowFields),
  records: json,
  inbox: object(inboxFields),
  /** What was accepted under an idempotency key: a verb, or an input of the inbox. */
  accepted: object({
    /** The digest of the content: other content under the same key is a conflict. */
    digest: required(string),
    /** `taken`: a turn accepted it. `cancelled`: the input was withdrawn. */
    state: required(oneOf(["pending", "taken", "cancelled"])),
    /** The turn that accepted it. */
    turn: fallback(nullable(string), null),
  }),
  /** A cancel command for a turn. */
  cancels: object({ evidence: required(cancelEvidenceShape), at: fallback(number, 0) }),
  events: object(storedEventFields),
  /** A line of the ledger: one cost. */
  ledger: object({
    /** `summary`: a model call for a compaction. */
    source: required(oneOf(["model", "summary", "tool", "cancelled"])),
    model: fallback(nullable(string), null),
    usage: required(usageShape),
  }),
  /**
   * What a row of the index of work adds to its key: the turn that waits for a limit, or the turn of a pending call and
   * what its deadline does. Rows of the other reasons are empty.
   */
  work: object({
    turn: required(string),
    onTimeout: fallback(oneOf(["error_as_result", "fail_turn"]), "error_as_result"),
  }),
  /** A capability token for one pending call. */
  tokens: object({
    tenant: required(string),
    session: required(string),
    call: required(string),
    /** The digest of the wait that the token was made for: the call with its arguments, as the turn left it. */
    digest: required(string),
    /** The kinds of answers that the token accepts. */
    answers: required(array(oneOf(answerKinds))),
    /** When the token was used, in milliseconds; `null`: not yet. */
    usedAt: fallback(nullable(number), null),
  }),
  open: object(openTurnFields),
  /** The turn that took a slot. */
  slots: object({ tenant: required(string), session: required(string), turn: required(string) }),
  leases: object(leaseFields),
  pieces: object(pieceFields),
  /** An API key. */
  keys: object({
    /** SHA-256 of the secret, in hex. */
    digest: required(string),
    name: required(string),
    /** `null`: the key names no tenant. */
    tenant: fallback(nullable(string), null),
    /** `null`: all. */
    scopes: fallback(nullable(array(string)), null),
    /** `null`: all. */
    engines: fallback(nullable(array(string)), null),
    operator: fallback(boolean, false),
    context: fallback(jsonObject, emptyObject),
    createdAt: required(number),
    /** In milliseconds; `null`: the key is not revoked. */
    revokedAt: fallback(nullable(number), null),
  }),
  audit: object(auditFields),
  rollup_lines: object(rollupFields),
  rollups: object(rollupFields),
};

/** The types of values, by table. */
export type StoredValues = InferShapes<typeof shapes>;
export type Accepted = StoredValues["accepted"];
export type LedgerLine = StoredValues["ledger"];
/** The value of a deadline. */
export type Deadline = StoredValues["work"];
