// Types of stored values, by table. `stored.ts` reads and writes them. Field names are stored data: renaming one needs an upgrade step in
// `stored.ts`, because any release reads the rows of older ones (S1).

import type { CallAnswer, TurnCause } from "../../core/kernel/internal.ts";
import type {
  CancelEvidence,
  Failure,
  HaltedReason,
  Json,
  JsonObject,
  Message,
  ModelReply,
  Session,
  SuspendedCell,
  TurnEvent,
  TurnOutcome,
  TurnStatus,
  Usage,
} from "../../core/model/internal.ts";
import type { WordOf } from "../../core/model/parse/reading.ts";
import type { JournalItem } from "../../core/run/internal.ts";
import type { Rollup } from "./rollup.ts";

/** The session row: the session without its messages, which are rows of `entries`. */
export type SessionHead = {
  /** The session; the thread has no messages here. */
  readonly session: Session<JsonObject>;
  /** The name of the engine of the newest turn, with which the session continues; `null` in rows of older releases. */
  readonly engine: string | null;
  /** The caller that the session belongs to (`Runtime.calledBy`); `null`: a program started it, or an older release. */
  readonly owner: string | null;
  /** `startedBy` of the newest turn: the open one, or the one that ended last, whose calls are pending. */
  readonly startedBy: readonly string[];
  /** The number of messages. */
  readonly length: number;
  /** The rolling digest of the messages. */
  readonly digest: string;
  /** The open turn, also when it is parked; `null`: none. */
  readonly turn: string | null;
  /** The turn that ended last. */
  readonly lastTurn: string | null;
  /** The sequence number of the newest event at the last write of this row. Between boundaries the turn row has a newer one. */
  readonly sequence: number;
  /** In milliseconds. */
  readonly createdAt: number;
  /** In milliseconds; also the key of the row in `recent`. */
  readonly changedAt: number;
  /** The beginning of the first user message; `null`: there is none, or an older release created the session. */
  readonly title: string | null;
  /** The status under which the session has a row in `attention`; `null`: it has none. `unknown` in rows of older releases. */
  readonly attention: Attention | "unknown" | null;
  /** `true`: the row is a tombstone. A new session under the same id continues its version and its sequence. */
  readonly deleted: boolean;
};

/** Why a session is listed in `attention`. `waiting`: a person or a program has to answer. `parked`: its turn is parked. */
export type Attention = WordOf<typeof attentions>;
export const attentions = ["waiting", "parked"] as const;

/** The input and options that a turn was accepted with. Any process builds the same plan from it and from the pinned configuration. */
export type TurnStart = {
  readonly verb: "chat" | "step";
  /** The name of the engine. */
  readonly engine: string;
  /** The options of the verb. */
  readonly options: JsonObject;
  /** The context that tool handlers receive in this turn; `null`: that of the session. */
  readonly context: JsonObject | null;
  /**
   * The callers whose input the turn has: the one that started it, and those of the turns that it continues. Empty: a program started the turn, or an older
   * release. Who decided about a call is not among them.
   */
  readonly startedBy: readonly string[];
  /** The kernel revision under which the turn was started, and is replayed and continued (Q6). */
  readonly revision: number;
  /** The number of messages of the session before the turn. */
  readonly base: number;
  /** The rolling digest of these messages. */
  readonly digest: string;
  /** The number of records of protocols that the session had before the turn (`Session.protocolEvents`). */
  readonly protocolEvents: number;
  /** The digest of the pinned configuration: its key in `contents`. See `own-pinned.ts` for configurations of one session. */
  readonly pinned: string;
  /** Results and decisions for pending calls, with which the turn begins. */
  readonly answers: readonly CallAnswer[];
  /** The suspended cell that the turn resumes. */
  readonly cell: SuspendedCell | null;
  /** Messages from the inbox, if the turn was built from inbox input (Q11). */
  readonly messages: readonly Message[];
  /** Turn causes from the inbox. */
  readonly turnCauses: readonly TurnCause[];
  /** The ids of these inputs. */
  readonly inputs: readonly string[];
  /** The usage of the session before the turn: budgets of a session continue from it. */
  readonly spentBefore: Usage;
  /** In milliseconds. */
  readonly acceptedAt: number;
  /** The trace context with which any process continues the trace of the turn (`everturn/otel`); `null`: the turn is not traced. */
  readonly trace: JsonObject | null;
};

/** The progress of a turn. */
export type TurnProgress = {
  readonly status: TurnStatus;
  /** The number of journal rows. The state that follows from them is stored with them. */
  readonly committed: number;
  /** The sequence number of the newest event of the session at the last commit of the turn. */
  readonly sequence: number;
  /** The step the turn is in. */
  readonly step: number;
  /** Takeovers after an expired lease since the last journal row of the turn or of its child turns (Q17). */
  readonly takeovers: number;
  /** Attempts at effects that were thrown away so far: retries, attempts that a crash has ended, and restarted steps. 0 in rows of older releases. */
  readonly discarded: number;
  /** The result, once the turn has ended. */
  readonly end: TurnSummary | null;
  /** The reason why the turn is parked. */
  readonly failure: Failure | null;
};

/** The result of a turn, without the messages it added. */
export type TurnSummary = {
  readonly haltedReason: HaltedReason;
  readonly outcome: TurnOutcome;
  readonly finalResponse: ModelReply | null;
  readonly steps: number;
  readonly usage: Usage;
  readonly metadata: JsonObject;
};

/** A row of the journal. */
export type JournalRow = {
  /** The effect that the response answers, as canonical JSON: a replay must order the same effect. `null`: the item is no response. */
  readonly effect: string | null;
  /** SHA-256 of `effect`. It tells a damaged row from a replay that diverged. */
  readonly hash: string | null;
  readonly item: JournalItem | StepRestarted;
  /** The lease epoch under which the item was settled. */
  readonly epoch: number;
  /** The number of the attempt that settled it, from 1. */
  readonly attempt: number;
  /** `null` in rows of older releases. */
  readonly timing: EffectTiming | null;
};

/** When and by which process an item was settled. For people; a replay does not compare it. Times are in milliseconds, by the clock of that process. */
export type EffectTiming = {
  /** When the effect began. For an item that answers no effect, the time of the commit. */
  readonly startedAt: number;
  /** When the first content of the reply arrived, in the last attempt; `null`: the effect is no model call, or was not streamed. */
  readonly firstAt: number | null;
  readonly endedAt: number;
  /** The name of the process. */
  readonly owner: string;
  /** When the process claimed the session. */
  readonly heldSince: number;
  /** The claim was a takeover: the process before had crashed or was blocked. */
  readonly takesOver: boolean;
};

/** Supersedes the journal rows from the ordinal `from` on: the step was restarted (Q14). */
export type StepRestarted = { readonly type: "step_restarted"; readonly from: number; readonly step: number };

/** An input in the inbox. */
export type InboxEntry = {
  /** The id of the input: an idempotency key. */
  readonly id: string;
  readonly input: InboxInput;
  readonly state: InputState;
  /** The turn that claimed the input. */
  readonly turn: string | null;
  /** The lease epoch of the claim. Under another epoch the claim is void. */
  readonly epoch: number | null;
  /** When the input arrived, in milliseconds. */
  readonly at: number;
  /** The turn that the input starts when the open turn has ended; `null`: the next checkpoint claims the input (Q11). */
  readonly ownTurn: OwnTurn | null;
};

/** The turn that queued input starts. Its id is chosen when the input is accepted, so that readers can wait for the turn. */
export type OwnTurn = {
  readonly id: string;
  /** The name of the engine. */
  readonly engine: string;
  /** The options of the verb. */
  readonly options: JsonObject;
  /** The context of the turn; `null`: that of the session. */
  readonly context: JsonObject | null;
  /** The caller that queued the input, or none. */
  readonly startedBy: readonly string[];
  /** The input cancelled the open turn (`whenBusy: "interrupt"`): its turn starts before the turns of other queued input. */
  readonly interrupts: boolean;
  /** The trace context of the call that queued the input; see `TurnStart`. */
  readonly trace: JsonObject | null;
  /**
   * The configuration that the turn would have had when the input was accepted. It is used if the process that ends the open turn cannot plan this one.
   * `null`: an earlier release accepted the input.
   */
  readonly pinned: Json | null;
};

/** Input that was delivered or withdrawn is no longer in the inbox; its row in `accepted` has the state. */
type InputState = (typeof inputStates)[number];
export const inputStates = ["pending", "claimed"] as const;

/** A message for the history, a message for this turn only, or an event from outside the conversation. */
export type InboxInput =
  | { readonly type: "message"; readonly message: Message }
  | { readonly type: "transient"; readonly message: Message }
  | { readonly type: "cause"; readonly cause: TurnCause };

/** A cancel command for a turn. */
export type StoredCancel = { readonly evidence: CancelEvidence; readonly at: number };

/** An event of the log. */
export type StoredEvent = {
  readonly turn: string;
  /** The ordinal of the journal row that caused it; 0: the start of the turn. */
  readonly ordinal: number;
  /** Its index among the events of that row; -1: the event that a parked turn adds. */
  readonly index: number;
  /** The attempt that it settles, if it settles one. */
  readonly settles: { readonly effectId: string; readonly epoch: number; readonly n: number } | null;
  readonly event: TurnEvent;
};

/** A line of the ledger: one cost. */
export type LedgerLine = {
  readonly source: "model" | "tool" | "cancelled";
  readonly model: string | null;
  readonly usage: Usage;
};

/** What was accepted under an idempotency key: a verb, or an input of the inbox. */
export type Accepted = {
  /** The digest of the content: other content under the same key is a conflict. */
  readonly digest: string;
  /** `taken`: a turn accepted it. `cancelled`: the input was withdrawn. */
  readonly state: "pending" | "taken" | "cancelled";
  /** The turn that accepted it. */
  readonly turn: string | null;
};

/** The deadline of a pending call of a turn. */
export type Deadline = { readonly turn: string; readonly onTimeout: "error_as_result" | "fail_turn" };

/** A capability token for one pending call. */
export type Token = {
  readonly tenant: string;
  readonly session: string;
  readonly call: string;
  /** The digest of the wait that the token was made for: the call with its arguments, as the turn left it. */
  readonly digest: string;
  /** The kinds of answers that the token accepts. */
  readonly answers: readonly ("result" | "approve" | "deny" | "answer")[];
  /** When the token was used, in milliseconds; `null`: not yet. */
  readonly usedAt: number | null;
};

/** The types of values, by table. Rows of the other tables have an empty value or an opaque text. */
export type StoredValues = {
  readonly sessions: SessionHead;
  readonly entries: Message;
  readonly starts: TurnStart;
  readonly turns: TurnProgress;
  readonly contents: Json;
  readonly journal: JournalRow;
  readonly records: Json;
  readonly inbox: InboxEntry;
  readonly accepted: Accepted;
  readonly cancels: StoredCancel;
  readonly events: StoredEvent;
  readonly ledger: LedgerLine;
  readonly deadlines: Deadline;
  readonly tokens: Token;
  readonly open: OpenTurn;
  readonly slots: SlotHolder;
  readonly waiting: WaitingTurn;
  readonly leases: LeaseHolder;
  readonly pieces: Piece;
  readonly rollup_lines: Rollup;
  readonly rollups: Rollup;
};

/** An open turn: some process drives it, or has to. */
export type OpenTurn = {
  readonly turn: string;
  readonly engine: string;
  /** The time of its row in `due`, in milliseconds. A turn that waits for a limit has no row there, unless it is woken. */
  readonly due: number;
  /** The option `limitKey` of the verb; `null`: none. */
  readonly limitKey: string | null;
  /** Whether the limits have admitted the turn; `null`: no limit was applied to it. */
  readonly limit: TurnLimit | null;
};

/** The state of an open turn with respect to the limits of the runtime. */
export type TurnLimit = AdmittedTurn | LimitedTurn;

/** The limits have admitted the turn. It holds these slots until it ends or is parked, whichever process drives it. */
export type AdmittedTurn = { readonly type: "admitted"; readonly slots: readonly Slot[] };

/** The turn waits for a limit. `scope` and `since` are parts of the key of its row in `waiting`. */
export type LimitedTurn = {
  readonly type: "waiting";
  readonly scope: string;
  /** When the turn first had to wait, in milliseconds. */
  readonly since: number;
};

/** A slot of the limit of concurrent turns of a scope. */
export type Slot = { readonly scope: string; readonly number: number };

/** The turn that took a slot. */
export type SlotHolder = { readonly tenant: string; readonly session: string; readonly turn: string };

/** A turn that waits for a limit. */
export type WaitingTurn = { readonly turn: string };

/** The holder of a lease. */
export type LeaseHolder = {
  /** The name of the process. */
  readonly owner: string;
  /** How long the lease lasts without a renewal, in milliseconds. */
  readonly ttlMs: number;
  /** The holder released the lease. A claim after a release is no takeover (Q17). */
  readonly released: boolean;
  /** The identity of the process (`Liveness.process`); `null`: it has none, and the lease can only expire. */
  readonly process: string | null;
  /** When the holder claimed the session, in milliseconds, by its own clock; `null` in rows of older releases and after a release. */
  readonly since: number | null;
  /** The process that held the session before, if it had crashed or was blocked; `null`: the claim was no takeover. */
  readonly tookOverFrom: string | null;
  /** The process drives no other turn (`drive/takeovers.ts`). `false` in rows of older releases. */
  readonly alone: boolean;
};

/** Live events of one attempt, for readers in other processes, in order. Adjacent deltas of one part are merged. */
export type Piece = {
  readonly effectId: string;
  readonly epoch: number;
  readonly n: number;
  /** The sequence number of the stored event that the items follow. */
  readonly after: number;
  readonly items: readonly PieceItem[];
};

/** A live event. `part` and `offset` say where its text belongs in the reply; `part` is `null` for an event without text. */
export type PieceItem = { readonly part: string | null; readonly offset: number; readonly event: TurnEvent };
