// Commits the transitions of one open turn to the storage, and is the durable form of the loop's ports.
//
// Theory of operation
//   The driver hands every accepted journal item to `commit`. One commit is one conditional batch (Q1) with
//     - the journal row (ordinal = number of commits so far + 1) and its lines of the ledger,
//     - the turn row; at a boundary also the session row and the new message rows,
//     - the events readers will see,
//     - start marks of the tools that begin at once, and the inputs that the item delivered.
//   `writeSession` builds the rows, `LeaseHolder` writes them. The batch checks the lease epoch and the commit count of the turn, so a process that lost
//   the lease cannot write (fencing, H3), and extends the lease. Only after the batch is written are its events published to readers in this process, and only then does the driver order the
//   effects that follow from it.
//   The result of the last tool of a step and the checkpoint after it are one commit, unless the checkpoint calls a function of the program: the item waits
//   for the answer of the checkpoint, which takes one read of the inbox (`#held`). If the loop stops in between, `flush` writes it alone.
//   The commit that ends the turn also decides what follows: input that arrived too late becomes the next turn in the same batch (Q11). The process keeps
//   the session for it under the next epoch; otherwise the lease is released.
//
// Crash points
//   before the batch          the effect may have run and is not recorded. Recovery performs it again or answers by its replay policy (Q3, H4)
//   after the batch           recovery replays the row and continues after it; nothing is performed again (H1)
//   the answer to the batch is lost   the write rejects, the turn is left as it is stored, and the next holder of the lease reads what was written
//   after the ending batch    the turn has ended; a next turn is open, and any worker takes it when the lease expires
//   Who recovers: the process that claims the session after the lease is released or has expired (`ActiveTurns.pickUp`, from `recover` or `work`).
//
// Invariants
//   1. No effect is ordered before the batch that caused it is written (Q1).
//   2. Readers never see an event that is not stored, except live ones, which follow the stored event they belong to (H2).
//   3. The rows written by a commit do not depend on the number of earlier steps (H5).
//   4. Storage errors stop the turn; they are never recorded as the response of an effect.

import type {
  Effect,
  EffectResponse,
  ToolReturned,
  ToolWaits,
  Transition,
  Turn,
  TurnHistory,
} from "../../kernel/internal.ts";
import type { ChatResult, JsonObject, Session, TurnEvent } from "../../model/internal.ts";
import type { Committed, JournalItem, LiveOrigin, Ports } from "../../run/internal.ts";
import type { RuntimeContext } from "../context.ts";
import type { Changes } from "../rows/batch.ts";
import type { Lease } from "../rows/lease.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { SessionChange, StoredSession } from "../rows/session-write.ts";
import type { Key, Put, Removal } from "../rows/storage.ts";
import type { TableName } from "../rows/tables.ts";
import type { JournalRow, StoredEvent, TurnProgress, TurnStart } from "../rows/values.ts";
import type { DrivenTurn } from "./driven-turn.ts";
import type { PlannedTurn } from "./new-turn.ts";

import { appendHistory } from "../../kernel/internal.ts";
import { addUsage, RuntimeError } from "../../model/internal.ts";
import { applyChatResult, applyStepResult, recover } from "../../session/internal.ts";
import { Channel } from "../read/hub.ts";
import { merge, noChanges, putting } from "../rows/batch.ts";
import { sha256 } from "../rows/digest.ts";
import { takenInputs } from "../rows/inbox.ts";
import { journalPut } from "../rows/journal-rows.ts";
import { leasePut, releasePut } from "../rows/lease.ts";
import { ledgerPuts } from "../rows/ledger.ts";
import { keyOf, nameOf, turnKey } from "../rows/session-key.ts";
import { moveDue, writeSession } from "../rows/session-write.ts";
import { summaryOf } from "../rows/summary.ts";
import { eventsOfItem, ofTurn, turnStartedByInput } from "../rows/turn-events.ts";
import { openCallDeadlines } from "../verbs/waits.ts";
import { childUsage } from "./children.ts";
import { claimInputs } from "./claim-inputs.ts";
import { acceptedTurn } from "./driven-turn.ts";
import { EffectRecords } from "./effect-records.ts";
import { countingRows, DurableJournal } from "./journal.ts";
import { LeaseHolder } from "./lease-holder.ts";
import { followingTurn } from "./new-turn.ts";

/** The turn is handed over to another process, because this one stops. */
export class HandedOver extends Error {
  constructor() {
    super("this process stops; another one continues the turn");
  }
}

/** A turn that follows in this process, and the lease it is driven under. */
export type NextTurn = { readonly turn: DrivenTurn; readonly lease: Lease };

export class TurnCommitter {
  readonly channel: Channel;
  readonly journal: DurableJournal;
  readonly records: EffectRecords;
  /** Set to hand the turn over at its next commit. */
  draining = false;
  /**
   * The commit of a tool result waits for the checkpoint that follows it, and both are one batch. Only if the checkpoint calls no function of the program:
   * then it takes one read of the inbox.
   */
  mergesCheckpoints = false;
  /** Set by the commit that ends the turn, if another turn follows it here. */
  next: NextTurn | null = null;
  readonly #context: RuntimeContext;
  readonly #turn: string;
  readonly #start: TurnStart;
  /** The lease: every write goes through it. */
  readonly holder: LeaseHolder;
  #stored: StoredSession;
  /** An accepted item that is written with the checkpoint after it. */
  #held: Held | null = null;
  /** The turn is ended without its engine: nothing begins, and the session after it is usable. */
  readonly #isEnding: boolean;
  /** Pieces of an earlier holder are removed with the first commit. */
  #mayHavePieces: boolean;

  /** `ending`: the turn is not driven any more but ended with this item (Q16). */
  constructor(context: RuntimeContext, turn: DrivenTurn, lease: Lease, ending: JournalItem | null = null) {
    const { id, stored, start, rows, records, events, mayHavePieces } = turn;
    this.#context = context;
    this.#turn = id;
    this.#start = start;
    this.holder = new LeaseHolder(context, stored.key, lease);
    this.#stored = stored;
    this.#mayHavePieces = mayHavePieces;
    this.channel = new Channel(id, this.#progress.sequence, events);
    this.#isEnding = ending !== null;
    this.journal = new DurableJournal(countingRows(rows), {
      before: () => this.#ensure(),
      finish: (effect, response) => this.#orStop(this.#withChildUsage(effect, response)),
      ending:
        ending === null ? null : { performs: ({ id: effectId }) => this.records.hasStarted(effectId), item: ending },
    });
    this.records = new EffectRecords(
      context,
      this.at,
      start,
      this.holder,
      records,
      (changes) => this.#orStop(this.holder.write(changes).then(() => undefined)),
      () => this.#ensure(),
    );
  }

  get ports(): Ports {
    return {
      journal: this.journal,
      scope: this.records,
      accepted: true,
      inbox: { claim: () => this.#orStop(claimInputs(this.#context.storage, this.holder, this.#turn)) },
      sink: {
        live: (events, of) => this.#live(events, of),
        commit: (transition, reported, item) =>
          item === null ? this.#begin(transition) : this.#commit(transition, reported, item),
      },
    };
  }

  get at(): Key {
    return turnKey(this.#key, this.#turn);
  }

  get #key(): SessionKey {
    return this.#stored.key;
  }

  get #progress(): TurnProgress {
    const { turn } = this.#stored;
    if (turn === null) throw new Error("a turn is driven whose row has not been read");
    return turn.progress;
  }

  // Commits.

  async #commit(transition: Transition, reported: readonly TurnEvent[], item: JournalItem): Promise<Committed> {
    if (this.journal.replayed !== null) return "replayed";
    const { turn } = transition;
    const held = this.#held;
    const ordinal = (held?.ordinal ?? this.#progress.committed) + 1;
    const row = await this.#journalRow(item);
    const own = eventsOfItem(this.#turn, ordinal, item, row, reported, this.channel.tail.heard);
    const events = [...(held?.events ?? []), ...own];
    const handsOver = this.draining;
    // A turn that is handed over here begins nothing: the next holder does.
    const marks = handsOver || this.#isEnding ? [] : this.records.startMarks(turn);
    const rows = merge(
      held?.rows ?? noChanges,
      putting(journalPut(this.at, ordinal, row), ...ledgerPuts(this.at, item, ordinal), ...marks),
    );
    const ended = turn.phase.type === "ended";
    if (!handsOver && this.mergesCheckpoints && awaitsCheckpoint(turn)) {
      this.#held = { ordinal, rows, events, turn };
      return "fresh";
    }
    await this.#write(async (now) => {
      const also = merge(rows, await this.#delivered(item));
      return ended
        ? this.#ending(turn, resultIn(reported), ordinal, events, also, now)
        : this.#advancing(turn, ordinal, events, also, now);
    });
    // Until then `flush` can still write it alone.
    this.#held = null;
    if (handsOver && !ended) this.stop(new HandedOver());
    return "fresh";
  }

  /** Writes the item that waits for its checkpoint, when the loop stops before the checkpoint is answered. */
  async flush(): Promise<void> {
    const held = this.#held;
    if (held === null) return;
    this.#held = null;
    await this.#write(async (now) => this.#advancing(held.turn, held.ordinal, held.events, held.rows, now));
  }

  /** The first commit of a turn. Acceptance has stored its start, so only start marks and a turn made of input need a batch. */
  async #begin({ turn }: Transition): Promise<Committed> {
    if (this.#progress.status !== "queued") return "replayed";
    const marks = this.draining || this.#isEnding ? [] : this.records.startMarks(turn);
    const { inputs } = this.#start;
    const grown = turn.history.length > this.#stored.head.length;
    if (marks.length === 0 && !grown && inputs.length === 0) return "fresh";
    const events = inputs.length === 0 ? [] : turnStartedByInput(this.#turn, this.#key.session, this.#start);
    await this.#write(async (now) => this.#advancing(turn, 0, events, putting(...marks), now));
    return "fresh";
  }

  #advancing(turn: Turn, committed: number, events: readonly StoredEvent[], also: Changes, now: number): Commit {
    const change = { now, turn: { type: "advance", committed, step: turn.step }, events, also } as const;
    const { history } = turn;
    const { session, length } = this.#stored.head;
    // Messages of an open step belong to the turn; the session gets them at the boundary.
    const isBoundary = history.length > length && (committed === 0 || turn.openReply === null);
    if (!isBoundary) return { change };
    const messages = history.entries.slice(length, history.length);
    return { change: { ...change, session: { after: session, messages, history } }, history };
  }

  /** The commit that ends the turn: the session after it, and the turn that follows. */
  async #ending(
    turn: Turn,
    result: ChatResult,
    committed: number,
    events: readonly StoredEvent[],
    also: Changes,
    now: number,
  ): Promise<Commit> {
    const { head } = this.#stored;
    const { retentionMs } = this.#context;
    const after = this.#sessionAfter(result);
    const history = appendHistory(turn.history, after.thread.messages);
    const messages = history.entries.slice(head.length, history.length);
    const { turn: next, changes } = await followingTurn(this.#context, this.#key, this.#start, after, history, now);
    const keeps = next !== null && !this.draining;
    const deadlines = openCallDeadlines(this.#key, this.#turn, after.pendingToolCalls, this.#start.options, now, after);
    const change: SessionChange = {
      now,
      session: { after, messages, history },
      turn: {
        type: "end",
        committed,
        step: turn.step,
        end: summaryOf(result),
        next,
        nextDue: keeps ? now + this.#context.lease.ttlMs : now,
        retainedUntil: retentionMs === null ? null : now + retentionMs,
      },
      events,
      also: merge(also, changes, putting(...deadlines)),
    };
    return { change, history, next: keeps ? next : null, releases: !keeps };
  }

  #sessionAfter(result: ChatResult): Session<JsonObject> {
    const { session } = this.#stored.head;
    // The operations of `session/` compute it. Messages of the turn are stored already; those they add are left in the thread.
    const bare = { ...session.thread, messages: [] };
    const step = result.steps.at(-1);
    const after =
      this.#start.verb === "step" && step !== undefined && result.outcome.type !== "cancelled"
        ? applyStepResult(session, { ...step, thread: bare })
        : applyChatResult(session, { ...result, thread: bare });
    const usable = this.#isEnding ? recover(after) : after;
    return usable.lastRun === null ? usable : { ...usable, lastRun: { ...usable.lastRun, turnId: this.#turn } };
  }

  /** Parks the turn: it stays as it is until `recover`. */
  async park({ failure }: RuntimeError): Promise<void> {
    const { session: before, length, digest } = this.#stored.head;
    const metadata = { ...before.metadata, error: { ...failure } };
    const after: Session<JsonObject> = { ...before, status: "error", metadata };
    const event = ofTurn(this.#turn, this.#progress.committed, -1, { type: "error", error: failure });
    const session = { after, messages: [], history: { length, digest } };
    await this.#write(async (now) => ({
      change: { now, session, turn: { type: "park", failure }, events: [event] },
      releases: true,
    }));
  }

  async #journalRow(item: JournalItem): Promise<JournalRow> {
    const { epoch } = this.holder;
    if (item.type !== "response") return { effect: null, hash: null, item, epoch, attempt: 1 };
    const effect = this.journal.effectText(item.response.id);
    const attempt = this.channel.tail.attemptOf(item.response.id);
    return { effect, hash: effect === null ? null : await sha256(effect), item, epoch, attempt };
  }

  /** Inputs that the item delivered are settled in the batch that records it (Q11). */
  async #delivered(item: JournalItem): Promise<Changes> {
    if (item.type !== "response" || item.response.type !== "checkpoint_delivered") return noChanges;
    const { inputs } = item.response.delivery;
    if (inputs.length === 0) return noChanges;
    return takenInputs(this.#context.storage, this.#key, inputs, this.#turn);
  }

  /** Settle, commit, publish: one batch. `build` is called again when input arrived between its reads and the write. */
  async #write(build: (now: number) => Promise<Commit>): Promise<void> {
    const { pieces, clock, histories } = this.#context;
    const hadPieces = await pieces.settle(this.at);
    const removals: readonly Removal[] = hadPieces || this.#mayHavePieces ? [{ table: "pieces", prefix: this.at }] : [];
    for (;;) {
      const commit = await this.#orStop(this.holder.whenFree(() => build(clock.now())));
      const { change, history, next = null, releases = false } = commit;
      const write = writeSession(this.#stored, change);
      const batch = merge({ checks: [], removals, puts: [] }, write.changes);
      const put = next !== null ? this.#nextLeasePut : releases ? this.#releasePut : null;
      const written = await this.#orStop(this.holder.write(batch, { put }));
      if (!written.ok) {
        const { table } = written.check;
        if (table === "inboxes" || table === "inbox") continue;
        throw this.#conflict(table);
      }
      this.#stored = write.after;
      this.#mayHavePieces = false;
      pieces.dropped(this.at);
      if (history !== undefined) histories.keep(nameOf(this.#key), history);
      if (next !== null) this.next = { turn: acceptedTurn(write, next), lease: nextLease(this.holder.lease) };
      this.channel.publish(write.events);
      return;
    }
  }

  /** The lease row of a commit that keeps the session for the next turn, under the next epoch. */
  readonly #nextLeasePut = (lease: Lease): Put => leasePut(keyOf(this.#key), nextLease(lease), this.#context.lease);

  /** The lease row of a commit that releases the session. */
  readonly #releasePut = (lease: Lease): Put => releasePut(keyOf(this.#key), lease);

  // Live events.

  #live(events: readonly TurnEvent[], of: LiveOrigin): void {
    // The end of a reply is published once it is stored (H2).
    const shown = events.filter(({ type }) => type !== "message_completed");
    if (shown.length === 0) return;
    const items = this.channel.tail.add(shown, of);
    this.#context.pieces.add(this.at, this.channel.sequence, items);
    this.channel.wake();
  }

  /** Checks the lease before an effect; a lost lease stops the turn. */
  #ensure(): void | Promise<void> {
    const renewed = this.holder.ensure();
    if (renewed instanceof Promise) return this.#orStop(renewed);
  }

  /** Releases the session: another process may take the turn at once. */
  async release(): Promise<void> {
    const { turn, key } = this.#stored;
    if (turn === null) return this.holder.release();
    const open = { turn: turn.id, engine: turn.engine, due: turn.due };
    await this.holder.release(moveDue(key, open, this.#context.clock.now()));
  }

  // Stopping.

  /** Stops the loop without recording anything: the turn stays as it is stored. */
  stop<E extends Error>(reason: E): E {
    this.journal.break(reason);
    return reason;
  }

  #conflict(table: TableName): RuntimeError {
    const message = `another process has written to session ${this.#key.session} (table ${table}); this turn stops here`;
    return this.stop(new RuntimeError("conflict", { message }));
  }

  async #orStop<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      this.journal.break(error);
      throw error;
    }
  }

  /** What child turns of a call had cost when the process died is booked with the answer of the call (Q10). */
  async #withChildUsage(effect: Effect, response: EffectResponse): Promise<EffectResponse> {
    if (effect.type !== "call_tool" || !isUnknown(response)) return response;
    const usage = await childUsage(this.#context, this.#key, effect, this.records.childrenOf(effect.id));
    const spent = addUsage(response.spent, usage);
    return spent.ok ? { ...response, spent: spent.value } : response;
  }
}

/** The rows and events of an accepted item that are not written yet. */
type Held = {
  readonly ordinal: number;
  readonly rows: Changes;
  readonly events: readonly StoredEvent[];
  readonly turn: Turn;
};

/** Is the only effect that follows the checkpoint after the work of a step? */
function awaitsCheckpoint(turn: Turn): boolean {
  const { phase } = turn;
  return phase.type === "awaiting_checkpoint" && phase.checkpoint === "after_work";
}

function nextLease(lease: Lease): Lease {
  return { ...lease, epoch: lease.epoch + 1 };
}

/** One batch to write, and what this process knows once it is written. */
type Commit = {
  readonly change: SessionChange;
  /** The history of the session after it, if the session got messages. */
  readonly history?: TurnHistory;
  /** The turn that follows in this process. */
  readonly next?: PlannedTurn | null;
  /** The lease is released. */
  readonly releases?: boolean;
};

function resultIn(reported: readonly TurnEvent[]): ChatResult {
  const result = reported.findLast((event) => event.type === "chat_completed")?.result;
  if (result === undefined) throw new Error("a turn ended without a chat_completed event");
  return result;
}

/** Is the outcome of the call unknown? */
function isUnknown(response: EffectResponse): response is ToolReturned | ToolWaits {
  if (response.type === "tool_waits") return response.reason === "outcome_unknown";
  if (response.type !== "tool_returned") return false;
  return response.outcome.type === "failure" && response.outcome.failure.reason === "outcome_unknown";
}
