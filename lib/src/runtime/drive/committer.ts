// What an accepted item comes to, written down in the order settle, commit, publish (Q1): the row of the journal, what follows from it for the
// session, what readers are told. On one storage that is one write. On several it is three, each repeatable: what was settled and not
// committed, or committed and not told, is made up for when the turn is replayed.

import type {
  CheckpointDelivery,
  Effect,
  EffectResponse,
  SlottedCall,
  ToolReturned,
  ToolWaits,
  Transition,
  Turn,
  TurnHistory,
} from "../../kernel/internal.ts";
import type { ChatResult, Json, JsonObject, Message, Session, TurnEvent } from "../../model/internal.ts";
import type { Committed, JournalItem, LiveOrigin, Ports, Scope } from "../../run/internal.ts";
import type { RuntimeContext, SessionKey } from "../context.ts";
import type { Told } from "../read/hub.ts";
import type { Changes } from "../rows/changes.ts";
import type { Lease } from "../rows/lease.ts";
import type { Batch, Check, Key, Put, Removal } from "../rows/storage.ts";
import type { InboxEntry, JournalRow, SessionHead, TurnProgress, TurnStart } from "../rows/stored.ts";
import type { Loaded } from "./loaded-turn.ts";

import { appendHistory, pendingEffects } from "../../kernel/internal.ts";
import { addUsage, RuntimeError } from "../../model/internal.ts";
import { startMark } from "../../run/perform/start-mark.ts";
import { applyChatResult, applyStepResult } from "../../session/internal.ts";
import { engineOf, keyOf, nameOf } from "../context.ts";
import { Channel } from "../read/hub.ts";
import { merge, nothing } from "../rows/changes.ts";
import { sha256 } from "../rows/digest.ts";
import { acceptedInputs, claimable, claimedInputs, deliveryOf, inboxPut, takenInputs } from "../rows/inbox.ts";
import { fence as fenceOf, leasePut, releasePut, renewed } from "../rows/lease.ts";
import { ledgerPuts } from "../rows/ledger.ts";
import { journalPut, recordPut, retainedPuts } from "../rows/rows.ts";
import { readValue, writeValue } from "../rows/stored.ts";
import { summaryOf } from "../rows/summary.ts";
import { eventPuts, eventsOf } from "../rows/told.ts";
import { entryPuts } from "../verbs/desk.ts";
import { openCallDeadlines } from "../verbs/waits.ts";
import { childUsage } from "./children.ts";
import { countingRows, DurableJournal } from "./journal.ts";
import { nextTurn } from "./next-turn.ts";

/** Why a turn was let go before it had ended. */
export class HandedOver extends Error {}

/** The durable ports of one turn, and everything this process knows to be stored of it. */
export class Committer {
  readonly channel: Channel;
  readonly journal: DurableJournal;
  readonly scope: Scope;
  /** The turn is to be let go at its next commit. */
  draining = false;
  /** The turn that follows this one at once, once it has ended. */
  next: string | null = null;
  readonly #context: RuntimeContext;
  readonly #key: SessionKey;
  readonly #turn: string;
  readonly #start: TurnStart;
  #lease: Lease;
  // What is stored.
  #head: SessionHead;
  #version: number;
  #progress: TurnProgress;
  #commits: number;
  #rows: number;
  /** How many messages of the history are entries of the session. */
  #stored: number;
  /** What was written down inside effects: by whoever had the turn before, and by this process. */
  readonly #before: ReadonlyMap<string, Json>;
  readonly #mine = new Set<string>();
  /** The calls whose start has been marked. */
  #marked: readonly SlottedCall[] | null = null;
  /** What becomes known once the write under way has succeeded. */
  #pending: {
    readonly head: SessionHead;
    readonly version: number;
    readonly stored: number;
    readonly history: TurnHistory;
  } | null = null;
  #pendingProgress: TurnProgress | null = null;
  /** Whoever had the turn before may have left what it heard. It is dropped with the first commit. */
  #mayHaveOthers = true;

  constructor(context: RuntimeContext, key: SessionKey, turn: string, lease: Lease, loaded: Loaded) {
    this.#context = context;
    this.#key = key;
    this.#turn = turn;
    this.#lease = lease;
    this.#start = loaded.start;
    this.#head = loaded.head;
    this.#version = loaded.version;
    this.#progress = loaded.progress;
    this.#commits = loaded.commits;
    this.#rows = loaded.rows.length;
    this.#stored = loaded.head.length;
    this.#before = loaded.records;
    this.channel = new Channel(turn, loaded.progress.sequence);
    this.journal = new DurableJournal(countingRows(loaded.rows), {
      finish: (effect, response) => this.#orStop(this.#finish(effect, response)),
    });
    this.scope = {
      epoch: lease.epoch,
      find: (effectId, name) => this.#before.get(JSON.stringify([effectId, name])) ?? null,
      record: (effectId, name, value) => this.#record(effectId, name, value),
    };
  }

  get at(): Key {
    return [...keyOf(this.#key), this.#turn];
  }

  get session(): Session<JsonObject> {
    return this.#head.session;
  }

  get ports(): Ports {
    return {
      journal: this.journal,
      scope: this.scope,
      accepted: true,
      inbox: { claim: () => this.#orStop(this.#claimInputs()) },
      sink: { live: (events, of) => this.#live(events, of), commit: (...given) => this.#commit(...given) },
    };
  }

  /** What turns inside a call had cost when the process died is booked with what answers the call (Q10). */
  async #finish(effect: Effect, response: EffectResponse): Promise<EffectResponse> {
    if (effect.type !== "call_tool" || !isUnknown(response)) return response;
    const usage = await childUsage(this.#context, this.#key, effect, this.#childrenOf(effect.id));
    const spent = addUsage(response.spent, usage);
    return spent.ok ? { ...response, spent: spent.value } : response;
  }

  /** The names of turns that a call ran before this process had it. */
  #childrenOf(effectId: string): readonly string[] {
    return [...this.#before.keys()].flatMap((id) => {
      const [effect, name = ""]: readonly string[] = JSON.parse(id);
      return effect === effectId && name.startsWith("child/") ? [name] : [];
    });
  }

  /** Keeps the session for longer. Rejects with `lease_lost` when it cannot be kept. */
  async renew(): Promise<void> {
    const next = renewed(this.#lease, this.#context.clock.now(), this.#context.lease);
    const puts = [leasePut(keyOf(this.#key), next)];
    // One that is lost with the machine is lost with its holder: the disk need not be waited for, by a thousand turns every few seconds.
    await this.#write({ checks: [this.fence()], removals: [], puts, lasting: false });
    this.#lease = next;
  }

  get expires(): number {
    return this.#lease.expires;
  }

  #live(events: readonly TurnEvent[], of: LiveOrigin): void {
    // The end of a reply is an entry, told when it has been stored (H2).
    const heard = events.filter(({ type }) => type !== "message_completed");
    if (heard.length === 0) return;
    const items = this.channel.tail.add(heard, of);
    this.#context.pieces.add(this.at, this.channel.sequence, items);
    this.channel.wake();
  }

  async #record(effectId: string, name: string, value: Json): Promise<void> {
    const id = JSON.stringify([effectId, name]);
    if (this.#mine.has(id)) return;
    const puts = [recordPut(this.at, effectId, name, value)];
    await this.#orStop(this.#write({ checks: [this.fence()], removals: [], puts }));
    this.#mine.add(id);
  }

  async #commit(step: Transition, entries: readonly TurnEvent[], item: JournalItem | null): Promise<Committed> {
    if (item === null) return this.#begin(step);
    const replayed = this.journal.replayed;
    if (replayed !== null && replayed.ordinal <= this.#progress.committed) {
      return "replayed";
    }
    const ordinal = replayed?.ordinal ?? this.#rows + 1;
    const row = replayed?.row ?? (await this.#rowOf(item));
    const events = eventsOf(this.#turn, ordinal, item, row, entries, this.channel.tail.heard);
    const settle = replayed === null ? [journalPut(this.at, ordinal, row)] : [];
    const told = events.map((stored, index): Told => ({ sequence: this.#progress.sequence + index + 1, stored }));
    const letsGo = this.draining;
    await this.#write3(settle, (now) => this.#consequences(step, entries, item, ordinal, told, now, letsGo), told);
    this.#rows = Math.max(this.#rows, ordinal);
    this.channel.publish(told);
    if (letsGo && step.turn.phase.type !== "ended") {
      this.stop(new HandedOver("the process is stopping; the turn goes on elsewhere"));
    }
    return "fresh";
  }

  /** The start of a turn is stored with its acceptance, unless it has something to say or to mark. */
  async #begin(step: Transition): Promise<Committed> {
    const start = this.#start;
    if (this.#progress.status !== "queued") return "replayed";
    const marks = this.draining ? [] : this.#marks(step.turn);
    const grown = step.turn.history.length > this.#stored;
    if (marks.length === 0 && !grown && start.inputs.length === 0) return "fresh";
    const told: readonly Told[] = start.inputs.length === 0 ? [] : this.#beginning(start);
    await this.#write3(
      [],
      (now) => {
        const sequence = told.at(-1)?.sequence ?? this.#progress.sequence;
        const progress: TurnProgress = { ...this.#progress, status: "running", sequence };
        const boundary = grown ? this.#boundary(step.turn, this.#head.session, [], now, sequence, this.#turn) : nothing;
        return merge(boundary, { ...nothing, puts: marks }, this.#progressed(progress));
      },
      told,
    );
    this.channel.publish(told);
    return "fresh";
  }

  /** What is told of a turn that was made of what was in the inbox. */
  #beginning({ messages, inputs }: TurnStart): readonly Told[] {
    const turnId = this.#turn;
    const taken = acceptedInputs(messages, inputs);
    const events: readonly TurnEvent[] = [
      { type: "turn_started", turnId, sessionId: this.#key.session },
      { type: "input_accepted", turnId, checkpoint: null, inputs: taken },
    ];
    return events.map((event, index) => ({
      sequence: this.#progress.sequence + index + 1,
      stored: { turn: turnId, ordinal: 0, index, settles: null, event },
    }));
  }

  /** What follows from an item for the session and the turn. */
  async #consequences(
    step: Transition,
    entries: readonly TurnEvent[],
    item: JournalItem,
    ordinal: number,
    told: readonly Told[],
    now: number,
    letsGo: boolean,
  ): Promise<Changes> {
    const { turn } = step;
    const sequence = told.at(-1)?.sequence ?? this.#progress.sequence;
    const ended = turn.phase.type === "ended";
    const ledger = ledgerPuts(this.at, item, ordinal);
    const inputs =
      item.type === "response" && item.response.type === "checkpoint_delivered" ? item.response.delivery.inputs : [];
    const taken =
      inputs.length === 0 ? nothing : await takenInputs(this.#context.storage, this.#key, inputs, this.#turn);
    const progress: TurnProgress = {
      ...this.#progress,
      status: ended ? "ended" : "running",
      committed: ordinal,
      sequence,
      step: turn.step,
    };
    // A turn that is let go here begins nothing: whoever has it next does.
    const marks = letsGo ? [] : this.#marks(turn);
    const parts: Changes[] = [taken, { ...nothing, puts: [...ledger, ...marks] }];
    if (!ended) {
      if (turn.openReply === null && turn.history.length > this.#stored) {
        parts.push(this.#boundary(turn, this.#head.session, [], now, sequence, this.#turn));
      }
      return merge(...parts, this.#progressed(progress));
    }
    const result = entries.findLast((event) => event.type === "chat_completed")?.result;
    if (result === undefined) throw new Error("a turn ended and said nothing of it");
    const after = this.#sessionAfter(result);
    const extra = after.thread.messages;
    const history = appendHistory(turn.history, extra);
    const follows = await nextTurn(this.#context, this.#key, this.#start, after, history, sequence, now);
    const { inboxTag, turn: next, changes } = follows;
    this.next = next;
    parts.push(this.#boundary(turn, after, extra, now, sequence, next), changes);
    parts.push({
      checks: [{ table: "inboxes", key: keyOf(this.#key), tag: inboxTag }],
      removals: [{ table: "cancels", prefix: this.at }],
      puts: [
        releasePut(keyOf(this.#key), this.#lease),
        ...retainedPuts(this.#context, this.at, now),
        ...openCallDeadlines(this.#key, this.#turn, after.pendingToolCalls, this.#start.options, now, after),
      ],
    });
    return merge(...parts, this.#progressed({ ...progress, end: summaryOf(result) }));
  }

  #sessionAfter(result: ChatResult): Session<JsonObject> {
    const { session } = this.#head;
    // Layer D works out the session; the messages the turn added are entries already, and those it adds itself are what is left in the thread.
    const bare = { ...session.thread, messages: [] };
    const step = result.steps.at(-1);
    const after =
      this.#start.verb === "step" && step !== undefined && result.outcome.type !== "cancelled"
        ? applyStepResult(session, { ...step, thread: bare })
        : applyChatResult(session, { ...result, thread: bare });
    return after.lastRun === null ? after : { ...after, lastRun: { ...after.lastRun, turnId: this.#turn } };
  }

  /** The session as it is at a boundary: its head, and what was said since the last one. */
  #boundary(
    turn: Turn,
    session: Session<JsonObject>,
    extra: readonly Message[],
    now: number,
    sequence: number,
    open: string | null,
  ): Changes {
    const history = appendHistory(turn.history, extra);
    const fresh = history.entries.slice(this.#stored, history.length);
    const key = keyOf(this.#key);
    const head: SessionHead = {
      ...this.#head,
      session: { ...session, thread: { ...session.thread, messages: [] } },
      length: history.length,
      digest: history.digest,
      turn: open,
      lastTurn: open === this.#turn ? this.#head.lastTurn : this.#turn,
      sequence,
      changedAt: now,
    };
    const before = this.#head.changedAt;
    this.#pending = { head, version: this.#version + 1, stored: history.length, history };
    return {
      checks: [{ table: "sessions", key, tag: this.#version }],
      removals: [{ table: "recent", prefix: [this.#key.tenant, before, this.#key.session] }],
      puts: [
        { table: "sessions", key, tag: this.#version + 1, value: writeValue("sessions", head) },
        { table: "recent", key: [this.#key.tenant, now, this.#key.session], tag: 0, value: "" },
        ...entryPuts(this.#key, this.#stored, fresh),
      ],
    };
  }

  #progressed(progress: TurnProgress): Changes {
    this.#pendingProgress = progress;
    const put: Put = { table: "turns", key: this.at, tag: this.#commits + 1, value: writeValue("turns", progress) };
    return { checks: [{ table: "turns", key: this.at, tag: this.#commits }], removals: [], puts: [put] };
  }

  /** Start marks of tools that begin at once: with the write of what caused them (Q3). */
  #marks(turn: Turn): readonly Put[] {
    const { phase } = turn;
    // Once for all calls that begin together: working them all out again at each answer would grow with the square of them.
    if (phase.type !== "awaiting_tools" || phase.calls === this.#marked) return [];
    this.#marked = phase.calls;
    if (this.#start.options["maxConcurrency"] !== undefined) return [];
    return pendingEffects(turn).flatMap((effect) => {
      const mark = this.#markOf(effect, turn);
      const id = JSON.stringify([effect.id, "started"]);
      if (mark === null || this.#mine.has(id) || this.#before.has(id)) return [];
      this.#mine.add(id);
      return [recordPut(this.at, effect.id, "started", mark)];
    });
  }

  #markOf(effect: Effect, { environment }: Turn): Json {
    if (effect.type !== "call_tool") return null;
    const engine = engineOf(this.#context, this.#start.engine);
    const spec = environment.tools.find(({ name }) => name === effect.call.name);
    if (spec === undefined || engine.options.hooks?.beforeTool !== undefined) return null;
    if (engine.options.maxConcurrency !== undefined) return null;
    return startMark(effect, spec, this.#lease.epoch);
  }

  async #rowOf(item: JournalItem): Promise<JournalRow> {
    const { epoch } = this.#lease;
    if (item.type !== "response") return { effect: null, hash: null, item, epoch, attempt: 1 };
    const effect = this.journal.effectText(item.response.id);
    const attempt = this.channel.tail.attemptOf(item.response.id);
    return { effect, hash: effect === null ? null : await sha256(effect), item, epoch, attempt };
  }

  /** Settle, commit, publish: one conditional batch. */
  async #write3(
    settle: readonly Put[],
    commit: (now: number) => Changes | Promise<Changes>,
    told: readonly Told[],
  ): Promise<void> {
    const { storage } = this.#context;
    const hadPieces = await this.#context.pieces.settle(this.at);
    const dropped: readonly Removal[] = hadPieces || this.#mayHaveOthers ? [{ table: "pieces", prefix: this.at }] : [];
    const publish = eventPuts(this.#key, told);
    for (;;) {
      const changes = await commit(this.#context.clock.now());
      const batch: Batch = {
        checks: [this.fence(), ...changes.checks],
        removals: [...changes.removals, ...dropped],
        puts: [...settle, ...changes.puts, ...publish],
      };
      const written = await storage.write(batch);
      if (written.ok) break;
      const failed = batch.checks[written.check];
      // Input arrived between the read and the write: the consequences are computed again.
      if (failed?.table === "inboxes" || failed?.table === "inbox") continue;
      throw failed?.table === "leases" ? this.lost() : this.#conflict(failed);
    }
    if (this.#pendingProgress !== null) {
      this.#progress = this.#pendingProgress;
      this.#commits += 1;
    }
    if (this.#pending !== null) {
      const { head, version, stored, history } = this.#pending;
      this.#head = head;
      this.#version = version;
      this.#stored = stored;
      this.#context.histories.keep(nameOf(this.#key), history);
    }
    this.#pending = null;
    this.#pendingProgress = null;
    this.#mayHaveOthers = false;
    this.#context.pieces.dropped(this.at);
  }

  /** A storage that refuses is nobody's answer: the turn is left as it is, and goes on when the storage does. */
  async #orStop<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      this.journal.break(error);
      throw error;
    }
  }

  async #write(batch: Batch): Promise<void> {
    const written = await this.#context.storage.write(batch);
    if (!written.ok) throw this.lost();
  }

  fence(): Check {
    return fenceOf(keyOf(this.#key), this.#lease, this.#context.clock.now());
  }

  #conflict(check: Check | undefined): RuntimeError {
    const where = check === undefined ? "" : ` (${check.table})`;
    return this.stop(
      new RuntimeError("conflict", {
        message: `somebody else has written to session ${this.#key.session}${where}; this turn stops here`,
      }),
    );
  }

  lost(): RuntimeError {
    return this.stop(
      new RuntimeError("lease_lost", {
        message: `session ${this.#key.session} is no longer held by this process; whoever has it now goes on with the turn`,
        metadata: { epoch: this.#lease.epoch },
      }),
    );
  }

  stop<E extends Error>(reason: E): E {
    this.journal.break(reason);
    return reason;
  }

  async #claimInputs(): Promise<CheckpointDelivery> {
    const { storage } = this.#context;
    const [rows = []] = await storage.read([{ table: "inbox", prefix: keyOf(this.#key), limit: claimedInputs }]);
    const found = rows.map((row) => ({ row, entry: readValue("inbox", row) }));
    const free = found.filter(({ entry }) => claimable(entry, this.#lease.epoch));
    if (free.length === 0) return deliveryOf(this.#turn, []);
    const claimed = free.map(({ row, entry }) => ({
      row,
      entry: { ...entry, state: "claimed", turn: this.#turn, epoch: this.#lease.epoch } satisfies InboxEntry,
    }));
    const written = await storage.write({
      checks: [this.fence(), ...free.map(({ row }): Check => ({ table: "inbox", key: row.key, tag: row.tag }))],
      removals: [],
      puts: claimed.map(({ row, entry }) => inboxPut(row.key, row.tag + 1, entry)),
    });
    if (written.ok)
      return deliveryOf(
        this.#turn,
        claimed.map(({ entry }) => entry),
      );
    if (written.check === 0) throw this.lost();
    // One of them was taken back meanwhile.
    return this.#claimInputs();
  }

  /** The session is given back, so that nobody has to wait until the lease has run out. */
  async giveBack(): Promise<void> {
    const { storage } = this.#context;
    const batch = { checks: [this.fence()], removals: [], puts: [releasePut(keyOf(this.#key), this.#lease)] };
    await storage.write(batch).catch(() => undefined);
  }

  /** The turn stays as it is, for somebody to look at. */
  async park(error: RuntimeError): Promise<void> {
    const { failure } = error;
    const event: TurnEvent = { type: "error", error: failure };
    const sequence = this.#progress.sequence + 1;
    const ordinal = this.#progress.committed;
    const told: Told = { sequence, stored: { turn: this.#turn, ordinal, index: -1, settles: null, event } };
    const session: Session<JsonObject> = {
      ...this.#head.session,
      status: "error",
      metadata: { ...this.#head.session.metadata, error: { ...failure } },
    };
    const now = this.#context.clock.now();
    const key = keyOf(this.#key);
    const head: SessionHead = { ...this.#head, session, sequence, changedAt: now };
    const progress: TurnProgress = { ...this.#progress, status: "parked", sequence, failure };
    await this.#write3(
      [],
      () =>
        merge(this.#progressed(progress), {
          checks: [{ table: "sessions", key, tag: this.#version }],
          removals: [
            { table: "open", prefix: key },
            { table: "recent", prefix: [this.#key.tenant, this.#head.changedAt, this.#key.session] },
          ],
          puts: [
            { table: "sessions", key, tag: this.#version + 1, value: writeValue("sessions", head) },
            { table: "recent", key: [this.#key.tenant, now, this.#key.session], tag: 0, value: "" },
            releasePut(key, this.#lease),
          ],
        }),
      [told],
    );
    this.channel.publish([told]);
  }
}

/** Does nobody know what became of the call? */
function isUnknown(response: EffectResponse): response is ToolReturned | ToolWaits {
  if (response.type === "tool_waits") return response.reason === "outcome_unknown";
  if (response.type !== "tool_returned") return false;
  return response.outcome.type === "failure" && response.outcome.failure.reason === "outcome_unknown";
}
