// What is shown of sessions that are kept somewhere: what the durable runtime gives back, and what goes over a wire from it. Plain data, so that a
// client in a browser has the same types as the process that keeps them.

import type { ModelReply } from "../call/reply.ts";
import type { Usage } from "../call/usage.ts";
import type { Failure } from "../failure/failure.ts";
import type { JsonObject } from "../parse/json.ts";
import type { PendingToolCall } from "../tool/pending.ts";
import type { Attempt, TurnEvent } from "../turn/event.ts";
import type { HaltedReason, TurnOutcome } from "../turn/outcome.ts";
import type { Session } from "./session.ts";

/** An event of a session, as readers of the runtime receive it. `cursor` resumes reading after this event. */
export type RuntimeEvent = {
  /** Hand it to `events` to go on behind this. */
  readonly cursor: string;
  readonly turnId: string;
  /** Its place in the log; `null` for what is only worth seeing now. */
  readonly sequence: number | null;
  /** For text: of which try, which part of the reply, and from where on. */
  readonly delta: { readonly attempt: Attempt; readonly part: string; readonly offset: number } | null;
  readonly event: TurnEvent;
};

/**
 * The result of a turn. The status `parked` means that its replay diverged from its record; `waiting` means that
 * pending calls need an answer first.
 */
export type TurnEnd = {
  readonly turnId: string | null;
  /** `parked`: its replay went another way than its record; `failure` says where. */
  readonly status: "ended" | "parked" | "waiting";
  readonly text: string;
  readonly haltedReason: HaltedReason;
  readonly outcome: TurnOutcome;
  readonly finalResponse: ModelReply | null;
  readonly steps: number;
  readonly usage: Usage;
  readonly metadata: JsonObject;
  readonly failure: Failure | null;
  /** The session after it, without its messages: `get` has those. */
  readonly session: SessionSummary;
};

/** A session in a list: its status and what it waits for, without messages. */
export type SessionSummary = {
  readonly id: string;
  readonly status: Session["status"];
  readonly version: number;
  /** How many messages it has. */
  readonly length: number;
  readonly pendingToolCalls: readonly PendingToolCall[];
  readonly pendingQuestion: string | null;
  readonly usage: Usage;
  readonly metadata: JsonObject;
  /** The turn that is open. */
  readonly turnId: string | null;
  readonly createdAt: number;
  readonly changedAt: number;
};

/** A session as of its last committed turn, and its open turn if there is one. */
export type SessionView = {
  readonly session: Session<JsonObject>;
  readonly version: number;
  /** How many messages it has; the thread has the newest of them, or all. */
  readonly length: number;
  readonly openTurn: OpenTurnView | null;
};

export type OpenTurnView = {
  readonly turnId: string;
  readonly status: TurnStatus;
  readonly step: number;
  readonly engine: string;
  /** Why it is parked, if it is. */
  readonly failure: Failure | null;
};

/** One page of a list. `next` continues after it; `null` means that it is the last. */
export type Page<T> = {
  readonly items: readonly T[];
  /** Where the next page begins; `null`: there is none. */
  readonly next: string | null;
};

/** How far a turn has got. `parked`: its replay went another way than its record; somebody has to look at it. */
export type TurnStatus = (typeof turnStatuses)[number];
export const turnStatuses = ["queued", "running", "ended", "parked"] as const;

/**
 * The result of `cancel`. `completion_won` means that the end of the turn was recorded before the cancel;
 * `nothing_open` that no turn was running; `stored` that the cancel is stored and the turn has not ended within the time the
 * caller waits: the process that drives it, or the next one, ends it.
 */
export type Cancelled = "cancelled" | "completion_won" | "nothing_open" | "stored";

/**
 * The result of `withdraw`. `already_claimed` means that a checkpoint is accepting the input at this moment;
 * `already_taken` that a turn has accepted it.
 */
export type Withdrawn = "cancelled" | "already_claimed" | "already_taken" | "already_cancelled" | "not_found";

/**
 * The result of `recover`: how many turns are driven again, whether a failed session is usable, and which effects
 * may run twice.
 */
export type Recovered = {
  /** How many turns are driven again. */
  readonly pickedUp: number;
  /** The session that had failed can be used again. */
  readonly usable: boolean;
  /** Effects that had been answered and will be asked for again. */
  readonly mayRunTwice: readonly string[];
};

/** What a session has cost, by kind and by model. */
export type LedgerSum = {
  readonly total: Usage;
  readonly lines: readonly { readonly source: string; readonly model: string | null; readonly usage: Usage }[];
};
