// Commits the transitions of one open turn to the storage, and is the durable form of the loop's ports (`run/ports`).
//
// Theory of operation
//   `TurnDriver` builds one committer for each turn it drives and hands its `ports` to the one loop
//   (`core/run/driver.ts`). The loop repeats: order effects, take the next item from the journal (a response or a
//   cancel), advance the kernel, call `sink.commit`. While the journal replays recorded rows, `commit` writes nothing
//   and returns `replayed`. After that, one accepted item is one conditional batch (Q1):
//     - the journal row (ordinal = number of committed rows + 1) and its ledger lines,
//     - the turn row (commit count + 1); at a boundary also the session row, its entry in `recent` and the new message
//       rows,
//     - the events that readers will see, numbered after the newest event of the session,
//     - the frame that a summary makes, in the table `frames`,
//     - start marks of the tools that begin at once (Q3), and the inbox inputs that the item delivered (Q11),
//     - the removal of the live pieces that the events replace, and records with the text of attempts that were thrown
//       away,
//     - at the end of the turn, the rows of `final-commit.ts`,
//     - the lease row, extended by one lease time, if that is due.
//   `writeSession` builds the rows of the session, `LeaseHolder.write` adds the fencing check and the lease row. The
//   batch checks the lease token, the commit count of the turn and, where it writes the session row, the version of the
//   session. A process that lost the lease therefore cannot write (fencing, H3).
//
//   A boundary is a commit that adds messages to the session. The messages of a step are added together when the step
//   is over (`turn.openReply` is `null`); until then they exist only as journal rows. The first commit of a turn adds
//   the messages of its input.
//
// Order of one commit
//   1. Wait for piece writes of this turn that are in flight, so that the batch can remove them.
//   2. Build the batch. Reads the inbox if the item delivered input or ends the turn. Repeated if input arrives before
//      step 3.
//   3. Write the batch.
//   4. Update what this process knows: the stored rows, the history cache, the next turn.
//   5. Publish the events to readers in this process.
//   6. Return. Only then does the loop order the effects that follow from the item.
//
// Merged checkpoints
//   The result of the last tool of a step and the checkpoint after it are one batch: the rows of the result are held in
//   memory (`#held`) until the checkpoint is answered. If the loop stops in between, `flush` writes the held item
//   alone. The answer takes one read of the inbox in the first step; later ones are assumed to find nothing, and the
//   batch checks that no input has arrived since (`claim-inputs.ts`). If the check refuses the batch, the inbox is
//   claimed and the loop applies the answer with the input instead (`Replaced`). The result is a batch of its own in
//   two cases:
//     - the checkpoint or the end of the step calls a function of the program (`haltWhen`, `onCheckpoint`, step hooks),
//       which must see only committed results;
//     - the turn is handed over: it stops after this commit, or after those of further results that this process holds.
//
// Crash points, and what the next holder does. The next holder is the process that claims the session after the lease
// was released or has expired (`ActiveTurns`, from `recover`, `work` or a verb). It loads the turn and replays the
// journal.
//   accepted, before `#begin`        the turn is `queued`; it is planned again from its start row and the pinned
//                                    configuration
//   after `#begin`                   start marks are stored although the tools may not have run; the replay policy
//                                    answers them (H4)
//   an effect runs or has returned   its response is not recorded. A model call is performed again, or continued from a
//                                    recorded reference to the provider's work; recorded attempts keep their usage
//                                    (Q2). A tool without a start mark runs: it has not started, or its policy is
//                                    `safe` and it runs again under the same idempotency key. With a start mark,
//                                    `never` is answered `outcome_unknown` and `ask` becomes a pending call (H4)
//   an item is held                  the same as for an effect that has returned: the result of the tool was in memory
//                                    only
//   inputs claimed, not committed    the claims belong to the old epoch and are void; the inputs are claimed again
//   during the batch                 the storage applies all of it or nothing
//   after the batch                  the row is replayed, and the turn continues after it; nothing is performed again
//                                    (H1). Readers find the events in the storage
//   the answer to the batch is lost  the batch is written again while this process lives. It cannot write the rows
//                                    twice: the commit count no longer matches, and `LeaseHolder` recognises its own
//                                    rows. The next holder reads what was written
//   after the ending batch           the turn has ended. The next turn, if there is one, is open, and due when its
//                                    lease expires
//   after the parking batch          the turn is in neither `open` nor `work`; only `recover`, `cancel` or `delete`
//                                    touches it
//
// Invariants
//   1. No effect is ordered before the batch that caused it is written (Q1).
//   2. Readers never see an event that is not stored, except live events, which follow the stored event they belong to
//      (H2).
//   3. Each journal ordinal is written once, by the holder of the lease at that time (H3).
//   4. The rows written by a commit do not depend on the number of earlier steps (H5).
//   5. Storage errors and a lost lease stop the loop; they are never recorded as the response of an effect.
//   6. An input is settled in the batch that records its delivery, or in the one that makes it the next turn: never
//      lost, never delivered twice.

import type {
  AskCheckpoint,
  CheckpointDelivery,
  Effect,
  EffectResponse,
  ToolReturned,
  ToolWaits,
  Transition,
  Turn,
} from "../../core/kernel/internal.ts";
import type { TurnEvent } from "../../core/model/internal.ts";
import type { Committed, JournalItem, LiveOrigin, Ports, Replaced } from "../../core/run/internal.ts";
import type { Changes } from "../rows/batch.ts";
import type { Lease } from "../rows/lease.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { SessionChange, StoredSession } from "../rows/session-write.ts";
import type { Check, Key, Put, Removal } from "../rows/storage.ts";
import type { TableName } from "../rows/tables.ts";
import type { JournalRow, StoredEvent, TurnProgress, TurnStart } from "../rows/values.ts";
import type { RuntimeContext } from "./context.ts";
import type { DrivenTurn } from "./driven-turn.ts";
import type { Commit } from "./final-commit.ts";
import type { FencedWrite } from "./lease-holder.ts";

import { checkpointDelivered } from "../../core/kernel/internal.ts";
import { exactSum, RuntimeError } from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { Channel } from "../read/hub.ts";
import { merge, noChanges, putting } from "../rows/batch.ts";
import { sha256 } from "../rows/digest.ts";
import { deliveryOf, settleInputs } from "../rows/inbox.ts";
import { journalPut } from "../rows/journal-rows.ts";
import { leasePut, nextLease, releasePut } from "../rows/lease.ts";
import { ledgerPuts } from "../rows/ledger.ts";
import { moveDue } from "../rows/open-rows.ts";
import { keyOf, nameOf, turnKey } from "../rows/session-key.ts";
import { framePuts, writeSession } from "../rows/session-write.ts";
import { eventsOfItem, eventsOfStart, ofTurn, turnStartedByInput } from "../rows/turn-events.ts";
import { childUsage } from "./children.ts";
import { InboxClaims } from "./claim-inputs.ts";
import { discardedPuts, itemsLeftBefore } from "./discarded-texts.ts";
import { EffectRecords } from "./effect-records.ts";
import { EffectTimes } from "./effect-times.ts";
import { FinalCommit } from "./final-commit.ts";
import { effectiveRows, DurableJournal } from "./journal.ts";
import { LeaseHolder } from "./lease-holder.ts";
import { TurnRollup } from "./turn-rollup.ts";

/** Stops the loop because this process shuts down. The turn is left at its last commit for another process. */
export class HandedOver extends Error {
  constructor() {
    super("this process is shutting down; another process continues the turn");
  }
}

/** The durable ports of one turn. Used for one drive of the turn and then discarded. */
export class TurnCommitter {
  /** Publishes events to readers in this process. */
  readonly channel: Channel;
  readonly journal: DurableJournal;
  readonly records: EffectRecords;
  /**
   * Set by `TurnDriver.handOver`: the turn stops after its next commit, and after those of tools that are running and
   * of results that have arrived until then.
   */
  draining = false;
  /** Is a tool of the run running? Set when the run has started. */
  hasRunningTools: () => boolean = () => false;
  /**
   * Whether the last tool result of a step is committed together with the checkpoint after it. Set if neither the
   * checkpoint nor the end of the step calls a function of the program.
   */
  mergesCheckpoints = false;
  /** Called after each commit that adds a journal row, ends the turn or parks it. */
  onProgress: (() => void) | null = null;
  /** The commit that ends or parks the turn. */
  readonly final: FinalCommit;
  readonly #context: RuntimeContext;
  readonly #turn: string;
  readonly #start: TurnStart;
  readonly #times: EffectTimes;
  readonly #rollup: TurnRollup;
  /** The lease. Every write of the turn goes through it. */
  readonly holder: LeaseHolder;
  /** The session row and the turn row as of the last commit. */
  #stored: StoredSession;
  /** An accepted item that is written with the checkpoint after it. */
  #held: HeldItem | null = null;
  /** The turn is being ended without its engine (Q16): no tool begins, and the session after it is usable. */
  readonly #isEnding: boolean;
  /** The newest frame of the turn. */
  #frame: string | null;
  readonly #inbox: InboxClaims;
  /** The effect of the checkpoint that was answered without a read of the inbox and is not committed yet. */
  #assumedEmpty: string | null = null;
  /** An earlier holder may have left pieces, which the first commit removes. */
  #mayHavePieces: boolean;
  /** Attempts that were thrown away since the last commit. */
  #discarded = 0;
  /**
   * The next journal row is the first one after a takeover: the attempt of the process that crashed was thrown away.
   */
  #followsTakeover: boolean;
  /** How many attempts crashes have ended that the turn row does not count yet. */
  #crashed: number;
  /** The last write of the turn row, done or not. */
  #turnWrite: Promise<unknown> = Promise.resolve();

  /** `ending`: replays the turn without its engine and ends it with this item (Q16). */
  constructor(context: RuntimeContext, turn: DrivenTurn, lease: Lease, ending: JournalItem | null = null) {
    const { id, stored, start, rows, records, events, mayHavePieces } = turn;
    this.#context = context;
    this.#turn = id;
    this.#start = start;
    this.holder = new LeaseHolder(context, stored.key, lease);
    this.#inbox = new InboxClaims(context.storage, this.holder, id);
    this.#times = new EffectTimes(context.clock);
    this.#rollup = new TurnRollup(
      {
        engine: start.engine,
        acceptedAt: start.acceptedAt,
        isParked: stored.turn?.progress.status === "parked",
        rows,
        takeovers: stored.turn?.progress.takeovers ?? 0,
      },
      lease,
    );
    this.final = new FinalCommit(context, { id, start, rollup: this.#rollup, isOffline: ending !== null });
    this.#stored = stored;
    this.#frame = start.contextWindow?.frame?.id ?? null;
    this.#mayHavePieces = mayHavePieces;
    this.#followsTakeover = lease.takesOver;
    // An explicit `recover` resets the count of takeovers.
    this.#crashed = lease.takesOver ? Math.max(1, stored.turn?.progress.takeovers ?? 0) : 0;
    this.channel = new Channel(id, this.#progress.sequence, events);
    this.#isEnding = ending !== null;
    this.journal = new DurableJournal(effectiveRows(rows), {
      before: (effect) => {
        this.#times.start(effect);
        return this.#ensure();
      },
      finish: (effect, response) => {
        this.#times.end(effect);
        return this.orStop(this.#withChildUsage(effect, response));
      },
      ending:
        ending === null ? null : { performs: ({ id: effectId }) => this.records.hasStarted(effectId), item: ending },
    });
    this.records = new EffectRecords(
      context,
      { at: this.at, start, before: records },
      {
        holder: this.holder,
        write: (changes) => this.orStop(this.holder.write(changes).then(() => undefined)),
        ensure: () => this.#ensure(),
      },
    );
  }

  /** The ports of the loop. */
  get ports(): Ports {
    return {
      journal: this.journal,
      scope: this.records,
      accepted: true,
      inbox: { claim: (checkpoint) => this.#claim(checkpoint) },
      sink: {
        live: (events, of) => this.#live(events, of),
        commit: (transition, reported, item) =>
          item === null ? this.#begin(transition, reported) : this.#commit(transition, reported, item),
      },
    };
  }

  /** The key of the turn: the first parts of the keys of its rows. */
  get at(): Key {
    return turnKey(this.#key, this.#turn);
  }

  get #key(): SessionKey {
    return this.#stored.key;
  }

  get #progress(): TurnProgress {
    const { turn } = this.#stored;
    if (turn === null) throw new Error("the turn row of a driven turn has not been read");
    return turn.progress;
  }

  // Commits.

  /** Commits an accepted item, or holds it for the checkpoint that follows. */
  async #commit(
    transition: Transition,
    reported: readonly TurnEvent[],
    item: JournalItem,
  ): Promise<Committed | Replaced> {
    const { turn } = transition;
    const frameBefore = this.#frame;
    const frame = this.#newFrame(turn);
    if (this.journal.replayed !== null) return "replayed";
    const held = this.#held;
    const ordinal = (held?.ordinal ?? this.#progress.committed) + 1;
    const row = await this.#journalRow(item);
    this.#rollup.add(row);
    const itemEvents = eventsOfItem(this.#turn, ordinal, item, row, reported, this.channel.tail.lastAttempt);
    const events = [...(held?.events ?? []), ...itemEvents];
    const handsOver = this.draining;
    // No start mark for a turn that is handed over now: this process does not run the tools, the next holder does.
    const marks = handsOver || this.#isEnding ? [] : this.records.startMarks(turn);
    const discarded = await this.#discard(row, item);
    const rows = merge(
      held?.rows ?? noChanges,
      putting(
        journalPut(this.at, ordinal, row),
        ...ledgerPuts(this.at, item, ordinal),
        ...frame,
        ...marks,
        ...discarded,
      ),
    );
    const ended = turn.phase.type === "ended";
    if (item.type === "response") this.#reportNotRun(item.response);
    if (!handsOver && this.mergesCheckpoints && awaitsCheckpoint(turn)) {
      this.#held = { ordinal, rows, events, turn };
      return "held";
    }
    const emptyCheck = this.#emptyCheckOf(item);
    const isWritten = await this.#write(async (now) => {
      const also = merge(rows, await this.#delivered(item), checking(emptyCheck));
      return ended
        ? this.#ending(turn, reported, ordinal, events, also, now)
        : this.#advancing(turn, ordinal, events, also, now);
    }, emptyCheck !== null);
    if (!isWritten) {
      this.#frame = frameBefore;
      return { item: await this.#claimedInstead(item) };
    }
    // Cleared after the write: if the write fails, `flush` can still write the held item alone.
    this.#held = null;
    if (this.draining && !ended && !this.hasRunningTools()) this.handOver();
    return "fresh";
  }

  /** The row of the frame that the turn has since this transition. */
  #newFrame({ contextWindow }: Turn): readonly Put[] {
    const id = contextWindow.frame?.id ?? null;
    if (id === this.#frame) return [];
    this.#frame = id;
    return framePuts(this.#key, contextWindow.frame);
  }

  /** Answers a checkpoint with input, or assumes that there is none (`claim-inputs.ts`). */
  async #claim({ id, checkpoint }: AskCheckpoint): Promise<CheckpointDelivery> {
    const { emptyCheck } = this.#inbox;
    // Before the completion of the turn the inbox is read: input that is assumed away there would start another turn.
    // The transition of a protocol of one's own is not repeated.
    if (emptyCheck === null || checkpoint !== "after_work" || this.final.hasOwnProtocol)
      return this.orStop(this.#inbox.claim());
    this.#assumedEmpty = id;
    return deliveryOf(this.#turn, []);
  }

  /** The check that the inbox is still empty, if the item answers a checkpoint by that assumption. */
  #emptyCheckOf(item: JournalItem): Check | null {
    if (item.type !== "response" || item.response.id !== this.#assumedEmpty) return null;
    this.#assumedEmpty = null;
    return this.#inbox.emptyCheck;
  }

  /** The answer to the same checkpoint, with the input that has arrived. */
  async #claimedInstead(item: JournalItem): Promise<JournalItem> {
    if (item.type !== "response") throw new Error(`an item ${item.type} answers no checkpoint`);
    const delivery = await this.orStop(this.#inbox.claim());
    return { type: "response", response: checkpointDelivered(item.response.id, delivery) };
  }

  /** Writes the held item alone. Called when the loop stops before the checkpoint is answered. */
  async flush(): Promise<void> {
    const held = this.#held;
    if (held === null) return;
    this.#held = null;
    await this.#write(async (now) => this.#advancing(held.turn, held.ordinal, held.events, held.rows, now));
  }

  /**
   * The commit of the first transition, which no journal item causes. Acceptance has stored the start of the turn
   * already, so a batch is written only if there are start marks, new messages, inbox input or events: the beginning of
   * a compaction before the first model call.
   */
  async #begin({ turn }: Transition, reported: readonly TurnEvent[]): Promise<Committed> {
    if (turn.phase.type === "ended") return this.#endAtOnce(turn, reported);
    if (this.#progress.status !== "queued") return "replayed";
    const marks = this.draining || this.#isEnding ? [] : this.records.startMarks(turn);
    const { inputs } = this.#start;
    const hasNewMessages = turn.history.length > this.#stored.head.length;
    if (marks.length === 0 && !hasNewMessages && inputs.length === 0 && reported.length === 0) return "fresh";
    const events = this.#startEvents(reported);
    await this.#write(async (now) => this.#advancing(turn, 0, events, putting(...marks), now));
    return "fresh";
  }

  /**
   * The commit of a turn that ends in its first transition: its protocol orders no effect, or returned actions that are
   * not valid.
   */
  async #endAtOnce(turn: Turn, reported: readonly TurnEvent[]): Promise<Committed> {
    const events = this.#startEvents(reported);
    await this.#write((now) => this.#ending(turn, reported, 0, events, noChanges, now));
    return "fresh";
  }

  /**
   * The events of the first transition. Acceptance has stored `turn_started` of a turn that no inbox input has started.
   */
  #startEvents(reported: readonly TurnEvent[]): readonly StoredEvent[] {
    const isByInput = this.#start.inputs.length > 0;
    const started = isByInput ? turnStartedByInput(this.#turn, this.#key.session, this.#start) : [];
    return [...started, ...eventsOfStart(this.#turn, Math.max(1, started.length), reported)];
  }

  /** The change of a commit after which the turn continues. */
  #advancing(turn: Turn, committed: number, events: readonly StoredEvent[], also: Changes, now: number): Commit {
    const advance = { type: "advance", committed, step: turn.step, discarded: this.#discarded } as const;
    const change = { now, turn: advance, events, also } as const;
    const { history } = turn;
    const { session, length } = this.#stored.head;
    // Messages of an open step belong to the turn; the session gets them at the boundary, when the step is over.
    const isBoundary = history.length > length && (committed === 0 || turn.openReply === null);
    if (!isBoundary) return { change };
    const messages = history.entries.slice(length, history.length);
    return { change: { ...change, session: { after: session, messages, history } }, history };
  }

  /** The change of the commit that ends the turn. */
  #ending(
    turn: Turn,
    reported: readonly TurnEvent[],
    committed: number,
    events: readonly StoredEvent[],
    also: Changes,
    now: number,
  ): Promise<Commit> {
    const last = { turn, reported, committed, discarded: this.#discarded, events, also };
    return this.final.ended(this.#stored, last, () => !this.draining, now);
  }

  /**
   * Parks the turn with a failure: no process drives it until `recover`. The session gets the status `error`, and the
   * lease is released.
   */
  async park({ failure }: RuntimeError): Promise<void> {
    const event = ofTurn(this.#turn, this.#progress.committed, -1, { type: "error", error: failure });
    await this.#write(async (now) => this.final.parked(this.#stored, failure, [event], now));
  }

  /** The journal row of an item. The text of the effect and its hash let a replay detect divergence and damage. */
  async #journalRow(item: JournalItem): Promise<JournalRow> {
    const { epoch } = this.holder;
    const id = item.type === "response" ? item.response.id : null;
    const timing = this.#times.take(id, this.holder.lease);
    if (id === null) return { effect: null, hash: null, item, epoch, attempt: 1, timing };
    const effect = this.journal.effectText(id);
    const attempt = this.channel.tail.attemptOf(id);
    return { effect, hash: effect === null ? null : await sha256(effect), item, epoch, attempt, timing };
  }

  /**
   * Counts the attempts that were thrown away before the row, and returns the records with their texts. Failed attempts
   * of this process are in the live tail; those that crashes have ended are read from the storage, in the first commit
   * after a takeover.
   */
  async #discard({ epoch, attempt }: JournalRow, item: JournalItem): Promise<readonly Put[]> {
    const isTakeover = this.#followsTakeover;
    this.#followsTakeover = false;
    this.#discarded += attempt - 1 + this.#crashed;
    this.#crashed = 0;
    if (attempt === 1 && !isTakeover) return [];
    const earlier = isTakeover
      ? await this.orStop(this.holder.whenFree(() => itemsLeftBefore(this.#context.storage, this.at, epoch)))
      : [];
    const settled = item.type === "response" ? { effectId: item.response.id, epoch, n: attempt } : null;
    const kept = item.type === "cancel" ? this.channel.tail.lastAttempt : settled;
    return discardedPuts(this.at, [...earlier, ...this.channel.tail.from(0).items], kept);
  }

  /** The changes that settle the inputs which the item delivered (invariant 6). */
  async #delivered(item: JournalItem): Promise<Changes> {
    if (item.type !== "response" || item.response.type !== "checkpoint_delivered") return noChanges;
    const { inputs } = item.response.delivery;
    if (inputs.length === 0) return noChanges;
    return settleInputs(this.#context.storage, this.#key, inputs, this.#turn);
  }

  /**
   * Settle, commit, publish, as one batch (steps 1 to 5 of the header). `build` is called again if an inbox check
   * refuses the batch, which means that input arrived or was withdrawn between its reads and the write. Any other
   * refused check is a conflict and stops the turn. `assumesEmpty`: returns false instead if input has arrived; nothing
   * is written then.
   */
  #write(build: (now: number) => Promise<Commit>, assumesEmpty = false): Promise<boolean> {
    return this.#inOrder(() => this.#writeCommit(build, assumesEmpty));
  }

  async #writeCommit(build: (now: number) => Promise<Commit>, assumesEmpty: boolean): Promise<boolean> {
    const { pieces, clock, histories } = this.#context;
    const hadPieces = await pieces.settle(this.at);
    const removals: readonly Removal[] = hadPieces || this.#mayHavePieces ? [{ table: "pieces", prefix: this.at }] : [];
    for (;;) {
      const commit = await this.orStop(this.holder.whenFree(() => build(clock.now())));
      const { change, history, next = null, releases = false } = commit;
      const write = writeSession(this.#stored, change);
      const batch = merge({ checks: [], removals, puts: [] }, write.changes);
      const random = clock.random();
      const { ttlMs } = this.#context.lease;
      // Keeps the session for the next turn, under the next epoch.
      const following = (lease: Lease): Lease => nextLease(lease, random, ttlMs);
      const keepPut = (lease: Lease): Put => leasePut(keyOf(this.#key), following(lease));
      const put = next !== null ? keepPut : releases ? this.#releasePut : null;
      const isProgress = hasProgress(change, this.#progress);
      // Other turns may start after this commit.
      if (isProgress) this.holder.endAlone();
      const written = await this.orStop(this.holder.write(batch, { put }));
      if (!written.ok) {
        const { table } = written.check;
        if (table === "slots") this.final.refusedSlots += 1;
        if (assumesEmpty && table === "inboxes") return false;
        if (table === "inboxes" || table === "inbox" || table === "slots") continue;
        throw this.#conflict(table);
      }
      if (isProgress) this.onProgress?.();
      const before = this.#stored;
      this.#stored = write.after;
      this.#mayHavePieces = false;
      this.#discarded = 0;
      pieces.dropped(this.at);
      if (history !== undefined) histories.keep(nameOf(this.#key), history);
      this.channel.publish(write.events);
      this.final.written(commit, before, write, following(this.holder.lease));
      return true;
    }
  }

  /**
   * Writes a journal row of a child turn. It is progress of this turn, too: the first one after a takeover resets the
   * count of takeovers (Q17). Later ones do not write the turn row.
   */
  readonly writeChildRow = (row: Changes): Promise<FencedWrite> => {
    if (this.#progress.takeovers === 0) return this.holder.write(row);
    return this.#inOrder(async () => {
      const { committed, step, takeovers } = this.#progress;
      if (takeovers === 0) return this.holder.write(row);
      const discarded = this.#crashed;
      const advance = { type: "advance", committed, step, discarded, hasChildRow: true } as const;
      const write = writeSession(this.#stored, { now: this.#context.clock.now(), turn: advance, also: row });
      this.holder.endAlone();
      const written = await this.holder.write(write.changes);
      if (!written.ok) return written;
      this.#stored = write.after;
      this.#crashed -= discarded;
      this.onProgress?.();
      return written;
    });
  };

  /**
   * Writes the turn row after the writes of it that were begun before: each one checks the commit count of the one
   * before it.
   */
  #inOrder<T>(write: () => Promise<T>): Promise<T> {
    const written = this.#turnWrite.then(write);
    this.#turnWrite = written.catch(() => undefined);
    return written;
  }

  /**
   * Reports an approved call that did not run, because its tool is gone: the person who approved it expects that it ran
   * (Q8).
   */
  #reportNotRun(response: EffectResponse): void {
    if (response.type !== "tool_returned" || response.outcome.type !== "failure") return;
    const { failure } = response.outcome;
    if (failure.reason !== "not_found") return;
    const effect: unknown = JSON.parse(this.journal.effectText(response.id) ?? "null");
    const decision = isPlainObject(effect) ? effect["decision"] : null;
    if (!isPlainObject(decision) || decision["type"] !== "approve") return;
    const { tenant, session: sessionId } = this.#key;
    this.#context.reportFailure({
      tenant,
      sessionId,
      turnId: this.#turn,
      status: "call_not_run",
      failure,
      error: null,
    });
  }

  /** The lease row of a commit that releases the session. */
  readonly #releasePut = (lease: Lease): Put => releasePut(keyOf(this.#key), lease);

  // Live events.

  /** Publishes live events: to readers here through the channel, to readers in other processes as pieces. */
  #live(events: readonly TurnEvent[], of: LiveOrigin): void {
    // `message_completed` and `warning` are published by the commit that stores the reply (H2).
    const liveEvents = events.filter(({ type }) => type !== "message_completed" && type !== "warning");
    if (liveEvents.length === 0) return;
    this.#times.live(liveEvents, of);
    const items = this.channel.tail.add(liveEvents, of);
    this.#context.pieces.add(this.at, this.channel.sequence, items);
    this.channel.wake();
  }

  /** Checks the lease before an effect is performed; a lost lease stops the loop. */
  #ensure(): void | Promise<void> {
    const renewed = this.holder.ensure();
    if (renewed instanceof Promise) return this.orStop(renewed);
  }

  /**
   * Releases the lease and makes the open turn due now, so that another process can take it at once. Removes the start
   * marks of calls that this process has not started; if that fails, the replay policy answers them, as after a crash.
   */
  async release(): Promise<void> {
    const { turn, key } = this.#stored;
    if (turn === null) return this.holder.release();
    const { id, engine, due, limitKey, limit } = turn;
    const open = { turn: id, engine, due, limitKey, limit };
    const unused = { ...noChanges, removals: this.records.unused() };
    await this.holder.release(merge(moveDue(key, open, this.#context.clock.now()), unused));
  }

  // Stopping.

  /** Stops the loop after the results that this process holds are committed. Nothing more is performed. */
  handOver(): void {
    this.journal.stopAfterSettled(new HandedOver());
  }

  /** Stops the loop without recording anything. The turn stays at its last commit. */
  stop<E extends Error>(reason: E): E {
    this.journal.stop(reason);
    return reason;
  }

  #conflict(table: TableName): RuntimeError {
    const message = `another process has written to session ${this.#key.session} (table ${table}); this process stops driving the turn`;
    return this.stop(new RuntimeError("conflict", { message }));
  }

  /** Awaits work that the turn cannot continue without: a rejection also stops the loop (invariant 5). */
  readonly orStop = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      this.journal.stop(error);
      throw error;
    }
  };

  /**
   * Adds the usage of abandoned child turns to a call whose outcome is unknown: it is booked with the answer to the
   * call (Q10).
   */
  async #withChildUsage(effect: Effect, response: EffectResponse): Promise<EffectResponse> {
    if (effect.type !== "call_tool" || !isOutcomeUnknown(response)) return response;
    const children = this.records.childrenOf(effect.id);
    const usage = await this.holder.whenFree(() => childUsage(this.#context, this.#key, effect, children));
    return { ...response, spent: exactSum(response.spent, usage) ?? response.spent };
  }
}

/** An accepted item whose rows and events are not written yet. */
type HeldItem = {
  readonly ordinal: number;
  readonly rows: Changes;
  readonly events: readonly StoredEvent[];
  readonly turn: Turn;
};

function checking(check: Check | null): Changes {
  return check === null ? noChanges : { ...noChanges, checks: [check] };
}

/** Returns whether the only effect that the turn awaits is the checkpoint after the work of a step. */
function awaitsCheckpoint(turn: Turn): boolean {
  const { phase } = turn;
  return phase.type === "awaiting_checkpoint" && phase.checkpoint === "after_work";
}

/** Returns whether a change adds a journal row, ends the turn or parks it. */
function hasProgress({ turn }: SessionChange, before: TurnProgress): boolean {
  return turn !== undefined && (turn.type !== "advance" || turn.committed > before.committed);
}

/** Returns whether recovery answered the call with `outcome_unknown`, or made it pending for that reason. */
function isOutcomeUnknown(response: EffectResponse): response is ToolReturned | ToolWaits {
  if (response.type === "tool_waits") return response.reason === "outcome_unknown";
  if (response.type !== "tool_returned") return false;
  return response.outcome.type === "failure" && response.outcome.failure.reason === "outcome_unknown";
}
