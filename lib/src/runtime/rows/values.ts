// Types of the values that rows hold, by table. `stored.ts` reads and writes them.

import type { CallAnswer, TurnCause } from "../../kernel/internal.ts";
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
} from "../../model/internal.ts";
import type { JournalItem } from "../../run/internal.ts";

/** The head of a session: everything but its messages, which are rows of their own. */
export type SessionHead = {
  /** With no message in its thread. */
  readonly session: Session<JsonObject>;
  /** How many messages it has, and a digest of them. */
  readonly length: number;
  readonly digest: string;
  /** The turn that is open; `null` when none is. */
  readonly turn: string | null;
  /** The newest turn that ended. */
  readonly lastTurn: string | null;
  /** The newest event that was told. */
  readonly sequence: number;
  readonly createdAt: number;
  readonly changedAt: number;
  /** Only that it was here is left of it. */
  readonly deleted: boolean;
};

/** What a turn was accepted with. */
export type TurnStart = {
  readonly verb: "chat" | "step";
  /** The name of its engine, and what was said to the verb. */
  readonly engine: string;
  readonly options: JsonObject;
  /** The kernel revision it was started under, and is replayed and continued under (Q6). */
  readonly revision: number;
  /** How many messages of the session came before it, and their digest. */
  readonly base: number;
  readonly digest: string;
  /** What it is pinned to, by the digest of its content. */
  readonly pinned: string;
  readonly answers: readonly CallAnswer[];
  readonly cell: SuspendedCell | null;
  /** What was in the inbox when it was made of that. */
  readonly messages: readonly Message[];
  readonly turnCauses: readonly TurnCause[];
  readonly inputs: readonly string[];
  /** What the session had cost before. */
  readonly spentBefore: Usage;
  readonly acceptedAt: number;
};

/** How far a turn has got. */
export type TurnProgress = {
  readonly status: TurnStatus;
  /** Number of rows of its journal whose consequences are stored. */
  readonly committed: number;
  /** The newest event of the session. */
  readonly sequence: number;
  readonly step: number;
  /** Takeovers after an expired lease since the last journal row (Q17). */
  readonly takeovers: number;
  /** What it came to, once it has ended. */
  readonly end: TurnSummary | null;
  /** Why it is parked. */
  readonly failure: Failure | null;
};

/** What a turn came to, without the messages it added. */
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
  /** The effect an answer is for, as canonical JSON, and its hash; `null` for what answers none. */
  readonly effect: string | null;
  readonly hash: string | null;
  readonly item: JournalItem | StepRestarted;
  /** Who settled it, and at which try. */
  readonly epoch: number;
  readonly attempt: number;
};

/** Rows of a step from this ordinal on no longer count (Q14). */
export type StepRestarted = { readonly type: "step_restarted"; readonly from: number; readonly step: number };

/** Something that was said while a turn ran, or that is to start one. */
export type InboxEntry = {
  readonly id: string;
  readonly input: InboxInput;
  readonly state: InputState;
  /** The turn that took it. */
  readonly turn: string | null;
  /** Who claimed it: void when somebody else has the session. */
  readonly epoch: number | null;
  readonly at: number;
};

/** Input that was delivered or withdrawn is no longer in the inbox; its row in `accepted` says which. */
type InputState = (typeof inputStates)[number];
export const inputStates = ["pending", "claimed"] as const;

/** A message for history, one for this turn only, or something that happened elsewhere. */
export type InboxInput =
  | { readonly type: "message"; readonly message: Message }
  | { readonly type: "transient"; readonly message: Message }
  | { readonly type: "cause"; readonly cause: TurnCause };

/** That a turn is to stop. */
export type StoredCancel = { readonly evidence: CancelEvidence; readonly at: number };

/** An entry of the event log. */
export type StoredEvent = {
  readonly turn: string;
  /** The row of the journal that caused it, and its place among what that row caused. */
  readonly ordinal: number;
  readonly index: number;
  /** Which try at the effect it settles, if it settles one. */
  readonly settles: { readonly effectId: string; readonly epoch: number; readonly n: number } | null;
  readonly event: TurnEvent;
};

/** What was paid for. */
export type LedgerLine = {
  readonly source: "model" | "tool" | "cancelled";
  readonly model: string | null;
  readonly usage: Usage;
};

/** What was accepted under an id: the same content under the same id is accepted once. */
export type Accepted = {
  /** Of the content. */
  readonly digest: string;
  readonly state: "pending" | "taken" | "cancelled";
  /** The turn that took it. */
  readonly turn: string | null;
};

export type Deadline = { readonly turn: string; readonly onTimeout: "error_as_result" | "fail_turn" };

export type Token = {
  readonly tenant: string;
  readonly session: string;
  readonly call: string;
  /** Of the call's name and arguments, which it was made for. */
  readonly digest: string;
  readonly answers: readonly ("result" | "approve" | "deny" | "answer")[];
  readonly usedAt: number | null;
};

/** What the rows of these tables say, by table. The others are found by their keys alone. */
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
  readonly leases: LeaseHolder;
  readonly pieces: Piece;
};

/** A turn that somebody has to drive. */
export type OpenTurn = {
  readonly turn: string;
  readonly engine: string;
  /** The time of its row in `due`, in milliseconds. */
  readonly due: number;
};

/** Who has a session. */
export type LeaseHolder = {
  readonly owner: string;
  /** How long the lease lasts without a renewal, in milliseconds. */
  readonly ttlMs: number;
  /** Released by its holder, as opposed to expired: a claim after it is no takeover (Q17). */
  readonly released: boolean;
};

/** What was heard of an attempt, for readers elsewhere: events in order, the deltas of a part run together. */
export type Piece = {
  readonly effectId: string;
  readonly epoch: number;
  readonly n: number;
  /** The event it comes behind. */
  readonly after: number;
  readonly items: readonly PieceItem[];
};

export type PieceItem = { readonly part: string | null; readonly offset: number; readonly event: TurnEvent };
