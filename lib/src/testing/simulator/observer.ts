// The oracles of the simulator. The observer sees every batch that the storage applies, every effect that begins, every
// answer to a client and every event that a reader receives. It keeps a simple model of each session and reports each
// contradiction as a violation. It asks the runtime nothing, so an error of the runtime cannot hide itself.
//
//   H1   a recorded model reply or tool result: the effect never begins again
//   H2   a reader receives a stored event only after its batch was applied; a result is returned only after the end of
//        its turn was stored
//   H3   fencing tokens never decrease; rows of a lease under one token are equal; a living lease is not claimed;
//        journal rows are written by the holder only, each ordinal once and in order; event numbers have no gap and are
//        not used twice; entries are not replaced; a healthy holder keeps its lease
//   H4   a tool with the policy `never` begins at most once, and with `never` or `ask` only after its start mark
//   H6   a cancel that was answered is stored; no effect begins in a process that claimed the turn after its cancel was
//        stored, nor in a healthy process later than `cancelMs` after it; a turn ends as cancelled only if a cancel was
//        stored
//   Q1   an effect begins only in the process that holds a living lease; an error of the storage is not recorded as a
//        response
//   Q9   `cancelled` and `completion_won` agree with the stored outcome
//   Q16  no approval that a turn was started with outlives the turn
//   Q17  the stored count of takeovers is the number of takeovers since the last journal row; a claim of a released
//        lease does not count; takeovers wait for their backoff; a turn at the limit performs no effect, and is parked
//        with an effect or a step; a process that drives a turn alone begins no effect of another one
//   Q18  the recorded response is that of an execution in the process that writes it, and no other process has claimed
//        the session since the execution began; a process to which the storage has answered performs no tool again
//        while no other process claims the session, unless it hands the session over
//   K5   a turn that has ended does not change
//   mixed  all journal rows of an epoch are of one process, and the epochs of a turn do not decrease
//   history  a model sees the messages of its session only, and every call with its result
//   replay  a turn is parked for its takeovers only: every process can replay every journal
//
// `stored-checks.ts` has the oracles of keys, inputs, records of child turns, forks, frames and the index of work.
//
// Lost writes: after a power loss the leases are those of the last lasting write; all else that was stored must still
// be there. After a failover to an older copy the model is read again from the storage (`failedOver`), and only
// `lossyRules` are judged: what was announced may be lost, and nothing may be mixed.
//
// Clocks: the expiry of a lease is judged by the clock of the storage. If that clock jumps forward, it takes the lease
// from a holder that cannot know; until the lease would have ended, effects of that holder are not judged.

import type { Batch, Put, Row } from "../../durable/internal.ts";
import type { EffectBegin } from "./agent.ts";
import type { SimulatedProcess } from "./process.ts";
import type { World } from "./world.ts";

import { epochOf, readValue } from "../../durable/internal.ts";
import { executionIn, replyName, summaryName } from "./agent.ts";
import { networkError } from "./process.ts";
import { nameOfKey, rowOf } from "./rows.ts";
import { StoredChecks } from "./stored-checks.ts";

/** The rules that hold after the storage has lost lasting writes. */
const lossyRules: ReadonlySet<string> = new Set([
  "mixed",
  "replay",
  "S2",
  "liveness",
  "history",
  "a verb rejected with corrupt_row",
]);

/** How long a healthy process may take to notice a cancel, in milliseconds. */
const cancelMs = 1000;

/** How long a hand-over may take, in milliseconds. */
const handOverMs = 5000;

type ObservedLease = {
  readonly token: number;
  /** The value of the row. */
  readonly value: string;
  readonly owner: string;
  readonly released: boolean;
  /** The row says that the process drives no other turn. */
  readonly alone: boolean;
  /** When it expires, by the clock of the storage. */
  readonly expires: number;
  /** When the row was written and when the lease ends if no clock jumps, in true time. */
  readonly writtenAt: number;
  readonly endsAt: number;
};

type ObservedTurn = {
  readonly status: string;
  /** How the turn ended; `null`: it has not. */
  readonly outcome: string | null;
  readonly takeovers: number;
};

/** One execution of an effect. */
type Execution = {
  readonly process: SimulatedProcess;
  readonly tenure: number;
  readonly at: number;
  readonly number: number;
};

/** What the observer knows about a session. */
export type ObservedSession = {
  readonly name: string;
  lease: ObservedLease | null;
  /** Counts the changes of the holder: a claim by another process, or of a released lease. */
  tenure: number;
  /** When the current holder claimed the session, in true time. */
  tenureAt: number;
  /** Holders that a jump of the storage's clock has robbed of their lease, and until when they cannot know. */
  readonly robbed: Map<string, number>;
  deleted: boolean;
  /** The session was deleted at least once. */
  wasDeleted: boolean;
  lastSequence: number;
  /** Types of stored events by sequence number. */
  readonly events: Map<number, string>;
  readonly entries: Map<number, string>;
  /** The newest ordinal of the journal of each turn. */
  readonly journal: Map<string, number>;
  readonly turns: Map<string, ObservedTurn>;
  /** When the cancel of a turn was stored, in true time. */
  readonly cancels: Map<string, number>;
  /** A client has called a verb that resets the count of takeovers. */
  mayReset: boolean;
  /** The number of takeovers at which the open turn has to be parked. */
  takeoverLimit: number;
  /** A client has answered a call without continuing the turn: input may wait although no turn is open. */
  mayRest: boolean;
  /** Until when a call of `drive` may hand the session over, in true time. */
  handsOverUntil: number;
  /** The calls whose decisions a turn was started with. */
  readonly decisions: Map<string, readonly string[]>;
  /** Names of effects with a recorded response. */
  readonly recorded: Set<string>;
  /** Ids of calls with a start mark. */
  readonly started: Set<string>;
  /** The executions of each effect, oldest first. */
  readonly begun: Map<string, Execution[]>;
};

/** Collects violations. See the head of this file. */
export class Observer {
  readonly violations: string[] = [];
  /** By name (`nameOfKey`). */
  readonly sessions = new Map<string, ObservedSession>();
  readonly counts = { writes: 0, effects: 0, takeovers: 0, parked: 0, events: 0, frames: 0, undone: 0 };
  /** The clock of the storage minus the true time, in milliseconds. */
  storageSkewMs = 0;
  /** When the clock of the storage jumped last, or it lost renewals of leases, in true time. */
  jumpedAt = 0;
  /** The storage has lost lasting writes. */
  isLossy = false;
  readonly #stored: StoredChecks;
  /** The leases as of the last lasting write, of the sessions whose lease was renewed since. */
  readonly #unsynced = new Map<string, ObservedLease | null>();
  readonly #mistakesEnded: boolean;
  /** The call that each idempotency key of a tool was used for. */
  readonly #toolKeys = new Map<string, string>();
  readonly #world: World;
  readonly #processes: readonly SimulatedProcess[];
  readonly #maxTakeovers: number;
  /** The session of each turn. */
  readonly #sessionOfTurn = new Map<string, ObservedSession>();
  /** How often each effect has begun, by name. */
  readonly #executions = new Map<string, number>();

  constructor(
    world: World,
    processes: readonly SimulatedProcess[],
    { maxTakeovers, mistakesEnded }: { readonly maxTakeovers: number; readonly mistakesEnded: boolean },
  ) {
    this.#world = world;
    this.#processes = processes;
    this.#maxTakeovers = maxTakeovers;
    this.#mistakesEnded = mistakesEnded;
    this.#stored = new StoredChecks(world, this);
  }

  /** Reports a violation. */
  violation(text: string): void {
    if (this.isLossy && !lossyRules.has(text.split(":")[0] ?? "")) return;
    this.#world.log(() => `VIOLATION ${text}`);
    this.violations.push(text);
  }

  /** The model of a session, by name (`nameOfKey`). */
  of(name: string): ObservedSession {
    const existing = this.sessions.get(name);
    if (existing !== undefined) return existing;
    const session: ObservedSession = {
      name,
      lease: null,
      tenure: 0,
      tenureAt: 0,
      robbed: new Map(),
      deleted: false,
      wasDeleted: false,
      lastSequence: 0,
      events: new Map(),
      entries: new Map(),
      journal: new Map(),
      turns: new Map(),
      cancels: new Map(),
      mayReset: false,
      takeoverLimit: this.#maxTakeovers,
      mayRest: false,
      handsOverUntil: 0,
      decisions: new Map(),
      recorded: new Set(),
      started: new Set(),
      begun: new Map(),
    };
    this.sessions.set(name, session);
    return session;
  }

  get #storageNow(): number {
    return this.#world.now + this.storageSkewMs;
  }

  /** A batch was applied to the storage. */
  applied(writer: SimulatedProcess, batch: Batch): void {
    const { puts, removals } = batch;
    this.counts.writes += 1;
    this.#stored.applied(writer, batch);
    if (batch.lasting !== false) this.#unsynced.clear();
    else {
      for (const { table, key } of puts) {
        const name = table === "leases" ? nameOfKey(key) : null;
        if (name !== null && !this.#unsynced.has(name)) this.#unsynced.set(name, this.of(name).lease);
      }
    }
    for (const { table, prefix } of removals) {
      if (prefix.length !== 2) continue;
      if (table !== "events" && table !== "entries" && table !== "journal" && table !== "turns") continue;
      this.of(nameOfKey(prefix))[table].clear();
    }
    // Deleting a session claims it from its holder, whose writes are fenced by the next epoch.
    const head = puts.find(({ table }) => table === "sessions");
    const stored = head === undefined ? null : readValue("sessions", rowOf(head));
    const isDeletion = stored?.deleted === true;
    // Journal rows are judged by the lease before the batch, which may release it.
    const journal = puts.filter(({ table }) => table === "journal");
    for (const put of journal) this.#journal(writer, put);
    const turn = puts.find(({ table }) => table === "turns");
    const lease = puts.find(({ table }) => table === "leases");
    const takesOver = lease !== undefined && !isDeletion && this.#isTakeover(writer, lease);
    if (takesOver) this.#takeover(lease, turn ?? null);
    const claimsReleased = lease !== undefined && this.of(nameOfKey(lease.key)).lease?.released === true;
    const facts = { isDeletion, claimsReleased, hasJournal: journal.length > 0 };
    for (const put of puts) this.#put(writer, put, facts);
    if (head !== undefined && stored !== null) {
      const session = this.of(nameOfKey(head.key));
      session.deleted = stored.deleted;
      if (stored.deleted) this.#forget(session);
      else if (turn !== undefined) this.#approvals(session, String(turn.key[2]), stored.session.pendingToolCalls);
    }
  }

  /** The storage has lost the writes since the last lasting one. A holder whose renewal was lost cannot know. */
  lostPower(): void {
    this.jumpedAt = this.#world.now;
    for (const [name, lease] of this.#unsynced) {
      const session = this.of(name);
      const lost = session.lease;
      if (lost !== null && !lost.released) session.robbed.set(lost.owner, lost.endsAt);
      session.lease = lease;
    }
    this.#unsynced.clear();
  }

  /** The storage was replaced by an older copy, which has these rows. */
  failedOver(heads: readonly Row[], turns: readonly Row[], entries: readonly Row[]): void {
    this.isLossy = true;
    for (const session of this.sessions.values()) {
      session.turns.clear();
      session.entries.clear();
      session.deleted = true;
      session.lease = null;
    }
    this.#unsynced.clear();
    for (const row of heads) {
      const session = this.of(nameOfKey(row.key));
      const { deleted, sequence } = readValue("sessions", row);
      session.deleted = deleted;
      session.lastSequence = sequence;
    }
    for (const { key, value } of entries) this.of(nameOfKey(key)).entries.set(Number(key[2]), value);
    for (const row of turns) {
      const session = this.of(nameOfKey(row.key));
      const { status, end, takeovers, sequence } = readValue("turns", row);
      session.turns.set(String(row.key[2]), { status, outcome: end?.outcome.type ?? null, takeovers });
      session.lastSequence = Math.max(session.lastSequence, sequence);
      this.#sessionOfTurn.set(String(row.key[2]), session);
    }
  }

  /** Checks the journal of a turn, or of a child turn, as it is stored at the end. */
  journalAtEnd(name: string, turn: string, rows: readonly Row[]): void {
    const owners = new Map<number, string>();
    let last = 0;
    for (const [index, row] of rows.entries()) {
      const { epoch, timing } = readValue("journal", row);
      const where = `journal row ${String(row.key[3])} of ${turn} in ${name}`;
      if (row.key[3] !== index + 1) this.violation(`mixed: ${where} is at place ${index + 1}`);
      if (epoch < last) this.violation(`mixed: ${where} has epoch ${epoch} after epoch ${last}`);
      const owner = owners.get(epoch) ?? timing?.owner ?? "";
      if (timing !== null && timing.owner !== owner) {
        this.violation(`mixed: ${where} is of ${timing.owner}, and epoch ${epoch} is of ${owner}`);
      }
      owners.set(epoch, owner);
      last = Math.max(last, epoch);
    }
  }

  #put(writer: SimulatedProcess, put: Put, batch: BatchFacts): void {
    const { table, key } = put;
    if (key.length < 2) return;
    switch (table) {
      case "leases":
        return this.#lease(writer, this.of(nameOfKey(key)), put, batch);
      case "events": {
        const session = this.of(nameOfKey(key));
        const sequence = Number(key[2]);
        if (sequence !== session.lastSequence + 1) {
          this.violation(`H3: event ${sequence} of ${session.name} follows event ${session.lastSequence}`);
        }
        session.lastSequence = Math.max(sequence, session.lastSequence);
        session.events.set(sequence, readValue("events", rowOf(put)).event.type);
        return;
      }
      case "entries": {
        const session = this.of(nameOfKey(key));
        const existing = session.entries.get(Number(key[2]));
        if (existing !== undefined && existing !== put.value) {
          this.violation(`H3: message ${String(key[2])} of ${session.name} was replaced`);
        }
        session.entries.set(Number(key[2]), put.value);
        return;
      }
      case "turns":
        return this.#turn(this.of(nameOfKey(key)), put, batch);
      case "cancels":
        this.of(nameOfKey(key)).cancels.set(String(key[2]), this.#world.now);
        return;
      case "starts": {
        const { answers } = readValue("starts", rowOf(put));
        const ids = answers.flatMap((answer) => (answer.type === "decision" ? [answer.call.id] : []));
        this.of(nameOfKey(key)).decisions.set(String(key[2]), ids);
        return;
      }
      case "records": {
        if (key[4] !== "started") return;
        const id = argumentId(readValue("records", rowOf(put)));
        if (id !== null) this.of(nameOfKey(key)).started.add(id);
        return;
      }
      default:
    }
  }

  /** A deleted session may be started again under the same id, with the same messages. */
  #forget(session: ObservedSession): void {
    session.wasDeleted = true;
    const { recorded, started, begun, decisions, cancels } = session;
    for (const names of [recorded, started, begun, decisions, cancels]) names.clear();
  }

  // Leases and takeovers.

  #isAlive({ released, expires }: ObservedLease): boolean {
    return !released && expires > this.#storageNow;
  }

  #lease(writer: SimulatedProcess, session: ObservedSession, put: Put, { isDeletion }: BatchFacts): void {
    const { owner, released, alone } = readValue("leases", rowOf(put));
    const before = session.lease;
    const { now } = this.#world;
    const { name } = session;
    const token = put.tag;
    if (before !== null && token < before.token) {
      this.violation(`H3: the token of ${name} went from ${before.token} to ${token}`);
    }
    if (before !== null && token === before.token && before.owner !== writer.name) {
      this.violation(`H3: ${writer.name} wrote the lease of ${name}, which ${before.owner} holds`);
    }
    // Otherwise a write that the storage performs late or twice could shorten the lease, or take a change back.
    if (before !== null && token === before.token && !before.released && !released && put.value !== before.value) {
      this.violation(`H3: the lease of ${name} was changed under its token`);
    }
    if (before !== null && token > before.token && before.owner !== writer.name && !isDeletion) {
      const holder = this.#processes.find((process) => process.name === before.owner);
      const isRunning = holder !== undefined && holder.state !== "killed";
      // A lease that a clock jump has made too long may be claimed when it would have ended.
      if (this.#mistakesEnded && !before.released) session.robbed.set(before.owner, before.endsAt);
      else if (this.#isAlive(before) && before.endsAt > now && isRunning) {
        this.violation(`H3: ${writer.name} claimed ${name} while ${before.owner} held it`);
      } else if (!before.released && before.endsAt > now && isRunning) {
        session.robbed.set(before.owner, before.endsAt);
      }
      const hasJumped = this.jumpedAt >= before.writtenAt;
      if (
        !before.released &&
        !hasJumped &&
        !this.#mistakesEnded &&
        !session.wasDeleted &&
        holder?.isHealthySince(before.writtenAt - 2) === true
      ) {
        this.violation(
          `H3: ${writer.name} took ${name} from ${before.owner}, which is healthy and did not extend its lease`,
        );
      }
    }
    const isReclaim = before !== null && token > before.token && before.owner === writer.name && !before.released;
    // A turn of this process that waits for the answer to its first claim cannot know that a clock jump has ended that
    // claim.
    if (isReclaim && before.endsAt > now && this.jumpedAt >= before.writtenAt) {
      session.robbed.set(before.owner, before.endsAt);
    }
    if (before === null || before.released || before.owner !== owner) {
      session.tenure += 1;
      session.tenureAt = now;
    }
    const ttlMs = put.ttlMs ?? 0;
    session.lease = {
      token,
      value: put.value,
      owner,
      released,
      alone,
      expires: this.#storageNow + ttlMs,
      writtenAt: now,
      endsAt: now + ttlMs,
    };
  }

  /** Returns whether a lease put claims the open turn of a process that has not released it (Q17). */
  #isTakeover(writer: SimulatedProcess, put: Put): boolean {
    const session = this.of(nameOfKey(put.key));
    const { lease } = session;
    if (lease === null || lease.released || put.tag <= lease.token || lease.owner === writer.name) return false;
    return [...session.turns.values()].some(({ status }) => status !== "ended" && status !== "parked");
  }

  /** Checks that a takeover is counted, and that it waited for its backoff. */
  #takeover(lease: Put, turn: Put | null): void {
    const session = this.of(nameOfKey(lease.key));
    this.counts.takeovers += 1;
    const [id] = [...session.turns].find(([, { status }]) => status !== "ended" && status !== "parked") ?? [""];
    const before = session.turns.get(id)?.takeovers ?? 0;
    const after = turn === null || turn.key[2] !== id ? null : readValue("turns", rowOf(turn)).takeovers;
    if (after === null || (after !== before + 1 && !(after === 0 && session.mayReset))) {
      this.violation(`Q17: a takeover of ${id} in ${session.name} is counted as ${after ?? "none"} after ${before}`);
    }
    const { expires = 0, writtenAt = 0, owner = "", alone = false } = session.lease ?? {};
    // Only a turn that was driven alone is known to have ended its process; others are parked much later.
    session.takeoverLimit = this.#maxTakeovers * (alone || this.#maxTakeovers === 1 ? 1 : 4);
    const hasJumped = this.jumpedAt >= writtenAt;
    // The backoff after a process that is known to have ended counts from its last write.
    const holder = this.#processes.find((process) => process.name === owner);
    const isEnded = holder?.state === "killed" || (this.#mistakesEnded && expires > this.#storageNow);
    const waitedMs = isEnded ? this.#world.now - writtenAt : this.#storageNow - expires;
    const backoffMs = Math.min(60_000, 500 * 2 ** (before - 1));
    if (after !== null && after > 1 && !hasJumped && waitedMs < backoffMs) {
      this.violation(`Q17: takeover ${after} of ${id} in ${session.name} waited ${waitedMs} ms, not ${backoffMs} ms`);
    }
  }

  #turn(session: ObservedSession, put: Put, { claimsReleased, hasJournal }: BatchFacts): void {
    const id = String(put.key[2]);
    const { status, end, takeovers, failure } = readValue("turns", rowOf(put));
    this.#sessionOfTurn.set(id, session);
    const before = session.turns.get(id);
    if (before?.status === "ended") this.violation(`K5: the turn ${id}, which has ended, was written again`);
    if (before !== undefined && takeovers > before.takeovers && claimsReleased) {
      this.violation(`Q17: the claim of a released lease of ${session.name} counts as takeover ${takeovers} of ${id}`);
    }
    if (
      before !== undefined &&
      takeovers < before.takeovers &&
      !hasJournal &&
      status === "running" &&
      !session.mayReset
    ) {
      this.violation(
        `Q17: the count of takeovers of ${id} went from ${before.takeovers} to ${takeovers} without progress`,
      );
    }
    if (status === "parked" && before?.status !== "parked") {
      this.counts.parked += 1;
      const details = JSON.stringify(failure?.metadata ?? {});
      if (failure?.type !== "runtime_error" || failure.reason !== "takeover_limit") {
        this.violation(`replay: the turn ${id} was parked: ${failure?.message ?? "no failure"}`);
      } else if (before !== undefined && before.takeovers < this.#maxTakeovers) {
        this.violation(`Q17: the turn ${id} was parked after ${before.takeovers} takeovers`);
      } else if (!/"(?:effects|step)":/.test(details)) {
        this.violation(`Q17: the parked turn ${id} does not name the effect it was in: ${details}`);
      }
    }
    const outcome = end?.outcome.type ?? null;
    if (status === "ended" && outcome === "cancelled" && !session.cancels.has(id) && !session.wasDeleted) {
      this.violation(`H6: the turn ${id} of ${session.name} ended as cancelled, and no cancel was stored`);
    }
    if (hasJournal && takeovers > 0 && status === "running") {
      this.violation(`Q17: the count of takeovers of ${id} is ${takeovers} after a journal row`);
    }
    session.turns.set(id, { status, outcome, takeovers });
  }

  // The journal.

  #journal(writer: SimulatedProcess, put: Put): void {
    const session = this.of(nameOfKey(put.key));
    const [, , turn, ordinal] = put.key;
    const { lease } = session;
    const { item, epoch, effect } = readValue("journal", rowOf(put));
    const where = `journal row ${String(ordinal)} of ${String(turn)} in ${session.name}`;
    const isHolder = lease !== null && lease.owner === writer.name && this.#isAlive(lease);
    if (!isHolder || epoch > epochOf(lease.token)) {
      this.violation(`H3: ${writer.name} wrote ${where} with epoch ${epoch} without the lease (${describe(lease)})`);
    }
    const last = session.journal.get(String(turn)) ?? 0;
    if (ordinal !== last + 1) this.violation(`H3: ${where} follows row ${last}`);
    session.journal.set(String(turn), Math.max(last, Number(ordinal)));
    if (put.value.includes(networkError)) {
      this.violation(`Q1: ${where} records an error of the storage as a response`);
    }
    if (item.type !== "response") return;
    const { response } = item;
    if (response.type === "model_replied") {
      const text = response.reply.outputText ?? "";
      const name = replyName(text);
      if (name !== null) this.#recorded(writer, session, name, text);
    }
    if (response.type === "compacted") {
      const name = summaryName(response.summary);
      if (name === null) this.violation(`frames: ${where} has the summary ${JSON.stringify(response.summary)}`);
      else this.#recorded(writer, session, name, response.summary);
    }
    if (response.type === "tool_returned" && effect !== null) {
      const id = callIdOf(JSON.parse(effect));
      if (id !== null) this.#recorded(writer, session, id, JSON.stringify(response));
    }
  }

  /** An effect is recorded with a response. */
  #recorded(writer: SimulatedProcess, session: ObservedSession, name: string, text: string): void {
    session.recorded.add(name);
    const number = executionIn(text);
    const execution = number === null ? undefined : session.begun.get(name)?.find((begun) => begun.number === number);
    if (execution === undefined || session.wasDeleted) return;
    if (execution.process !== writer || execution.tenure !== session.tenure) {
      const by = `${execution.process.name}, before another process claimed the session`;
      this.violation(`Q18: ${writer.name} recorded a result of ${name} in ${session.name} that was performed by ${by}`);
    }
  }

  /** Q16: the batch that ends a turn leaves no decision with which the turn was started. */
  #approvals(
    session: ObservedSession,
    turn: string,
    pending: readonly { readonly id: string; readonly decision: unknown }[],
  ): void {
    if (session.turns.get(turn)?.status !== "ended") return;
    const used = session.decisions.get(turn) ?? [];
    for (const { id, decision } of pending) {
      if (decision !== null && used.includes(id)) {
        this.violation(`Q16: the decision of call ${id} outlives the turn ${turn}`);
      }
    }
  }

  // Effects.

  /** An effect begins in a process. Returns the number of its execution, by name. */
  readonly began = (process: SimulatedProcess, effect: EffectBegin): number => {
    this.counts.effects += 1;
    const { name } = effect;
    const number = (this.#executions.get(name) ?? 0) + 1;
    this.#executions.set(name, number);
    this.#world.log(() => `${process.name} begins ${effect.type} ${name}`);
    // A child turn is named after the call that it belongs to, and the call after its turn.
    const [turn = ""] = effect.turn.split("/");
    const session = this.#sessionOfTurn.get(turn);
    if (session === undefined) {
      this.violation(`Q1: ${effect.type} ${name} began for the turn ${turn}, which is not stored`);
      return number;
    }
    const begun = session.begun.get(name) ?? [];
    const execution = { process, tenure: session.tenure, at: this.#world.now, number };
    session.begun.set(name, [...begun, execution]);
    if (effect.type === "tool" && effect.policy === "never" && begun.length > 0 && !session.wasDeleted) {
      this.violation(`H4: ${effect.tool} ${name} of ${session.name} began ${begun.length + 1} times`);
    }
    this.#context(process, session, effect, turn);
    // The holder of a deleted session learns of the deletion at its next write, so its effects cannot be judged.
    if (session.wasDeleted || (session.robbed.get(process.name) ?? 0) > this.#world.now) return number;
    this.#judge(process, session, effect, begun);
    return number;
  };

  #judge(
    process: SimulatedProcess,
    session: ObservedSession,
    effect: EffectBegin,
    earlier: readonly Execution[],
  ): void {
    const { now } = this.#world;
    const { lease, tenure } = session;
    const what = `${effect.type === "tool" ? effect.tool : "model call"} ${effect.name} of ${session.name}`;
    const holds = lease !== null && lease.owner === process.name && !lease.released && lease.endsAt > now;
    if (!holds) this.violation(`Q1: ${what} began in ${process.name} without the lease (${describe(lease)})`);
    if (session.recorded.has(effect.name)) {
      this.violation(`H1: ${what} began again in ${process.name} although it is recorded`);
    }
    if (effect.type === "tool") this.#judgeTool(session, effect, what);
    // A model call is repeated by retries. A process that hands a session over aborts its effects; if the lease has
    // expired, it cannot release it.
    const previous = earlier.at(-1);
    const mayRepeat = effect.type === "model" || session.handsOverUntil > (previous?.at ?? 0);
    // A robbed holder may have begun it after the claim of this process.
    const isOwn = previous?.process === process && previous.tenure === tenure;
    if (!mayRepeat && isOwn && process.failedAt < previous.at) {
      this.violation(`Q18: ${what} began again in ${process.name}, and no other process has held the session`);
    }
    const [id, turn] = [...session.turns].find(([, { status }]) => status !== "ended") ?? [null, null];
    if (turn === null || id === null) return;
    // A turn at its limit is not driven: its process parks it.
    const others = [...this.sessions.values()].filter(
      (other) =>
        other !== session &&
        other.lease?.owner === process.name &&
        ![...other.turns.values()].some(
          ({ status, takeovers }) => status !== "ended" && takeovers >= other.takeoverLimit,
        ),
    );
    // A process that got no answer to its claim, or to its release, does not drive that session.
    const alone = others.find(
      ({ lease: held }) =>
        held !== null && held.alone && !held.released && held.endsAt > now && process.failedAt < held.writtenAt,
    );
    if (alone !== undefined) {
      this.violation(`Q17: ${what} began in ${process.name}, which drives ${alone.name} alone`);
    }
    if (turn.takeovers >= session.takeoverLimit) {
      this.violation(`Q17: ${what} began after ${turn.takeovers} takeovers without progress`);
    }
    const cancelledAt = session.cancels.get(id);
    if (cancelledAt === undefined) return;
    if (cancelledAt < session.tenureAt) {
      this.violation(`H6: ${what} began in ${process.name}, which claimed the session after the turn was cancelled`);
    } else if (now > cancelledAt + cancelMs && process.isHealthySince(cancelledAt - 12)) {
      this.violation(`H6: ${what} began ${now - cancelledAt} ms after the cancel of its turn was stored`);
    }
  }

  /** A model sees messages of its session only, also if the id was used before; two calls have two idempotency keys. */
  #context(process: SimulatedProcess, session: ObservedSession, effect: EffectBegin, turn: string): void {
    const { lease, name } = session;
    const holds = lease !== null && lease.owner === process.name && this.#isAlive(lease);
    if (effect.type === "tool") {
      const call = `${name} ${effect.name}`;
      const other = this.#toolKeys.get(effect.key) ?? call;
      this.#toolKeys.set(effect.key, call);
      if (other !== call) this.violation(`forks: the calls ${other} and ${call} have one idempotency key`);
    } else if (holds && effect.turn === turn && session.turns.get(turn)?.status === "running") {
      if (effect.name.startsWith("0.")) {
        this.violation(`history: model call ${effect.name} of ${name} has no message of a client`);
      }
      if (effect.unpaired !== null) {
        this.violation(`history: model call ${effect.name} of ${name} has ${effect.unpaired} alone`);
      }
      this.#stored.requested(session, effect);
      const entries = [...session.entries.values()];
      const strange = effect.seen.find((text) => !entries.some((entry) => entry.includes(JSON.stringify(text))));
      if (strange !== undefined) {
        this.violation(
          `history: model call ${effect.name} of ${name} has ${JSON.stringify(strange)}, which is not stored`,
        );
      }
    }
  }

  #judgeTool(
    session: ObservedSession,
    { name, policy, needsApproval }: Extract<EffectBegin, { readonly type: "tool" }>,
    what: string,
  ): void {
    if (needsApproval && !isApproved(session, name)) {
      this.violation(`Q16: ${what} began without an approval for an open turn`);
    }
    if (policy !== "safe" && !session.started.has(name)) this.violation(`H4: ${what} began without a start mark`);
  }

  // Answers to clients and readers.

  /**
   * A client calls a verb that resets the count of takeovers: `recover` with an id, `cancel`, or an interrupting
   * message.
   */
  resets(name: string): void {
    this.of(name).mayReset = true;
  }

  /** A client answers a call and does not continue the turn. */
  rests(name: string): void {
    this.of(name).mayRest = true;
  }

  /** Returns whether something was accepted under a key, and is still known. */
  isAccepted(name: string, key: string): boolean {
    return !this.isLossy && this.#stored.isAccepted(name, key);
  }

  /** A process begins a call of `drive`, which hands the session over when its time is over. */
  drives(name: string, deadlineMs: number): void {
    this.of(name).handsOverUntil = this.#world.now + deadlineMs + handOverMs;
  }

  /** A cancel was answered. */
  cancelled(name: string, turn: string, answer: string): void {
    const session = this.of(name);
    if (session.wasDeleted) return;
    const stored = session.turns.get(turn);
    const actual =
      stored?.status !== "ended" ? "open" : stored.outcome === "cancelled" ? "cancelled" : "completion_won";
    if ((answer === "cancelled" || answer === "completion_won") && answer !== actual) {
      this.violation(`Q9: cancel of ${turn} returned ${answer}, and the turn is ${actual}`);
    }
    if (answer === "stored" && actual === "open" && stored?.status !== "parked" && !session.cancels.has(turn)) {
      this.violation(`H6: cancel of ${turn} in ${name} returned stored, and no cancel is stored`);
    }
  }

  /** The result of a turn was returned to a client. */
  resulted(name: string, turn: string, outcome: string): void {
    const session = this.of(name);
    if (session.wasDeleted) return;
    const stored = session.turns.get(turn);
    if (stored?.status === "parked") return;
    if (stored?.status !== "ended" || stored.outcome !== outcome) {
      this.violation(`H2: the result of ${turn} in ${name} is ${outcome}, and stored is ${stored?.outcome ?? "none"}`);
    }
  }

  /** A reader received a stored event. */
  received(name: string, sequence: number, type: string): void {
    this.counts.events += 1;
    const session = this.of(name);
    if (session.wasDeleted) return;
    const stored = session.events.get(sequence);
    if (stored === undefined) this.violation(`H2: a reader of ${name} received event ${sequence} before it was stored`);
    else if (stored !== type)
      this.violation(`H2: event ${sequence} of ${name} is ${stored}, and a reader received ${type}`);
  }
}

/** What is known about a batch. */
type BatchFacts = {
  readonly isDeletion: boolean;
  readonly claimsReleased: boolean;
  readonly hasJournal: boolean;
};

/** Returns whether the call was approved, or an answer was forwarded to the child turn that it belongs to. */
function isApproved({ turns, decisions }: ObservedSession, call: string): boolean {
  const isOf = (id: string) => id === call || call.startsWith(`${id}.`);
  return [...decisions].some(([turn, calls]) => calls.some(isOf) && turns.get(turn)?.status !== "ended");
}

function describe(lease: ObservedLease | null): string {
  if (lease === null) return "no lease";
  return `epoch ${epochOf(lease.token)} of ${lease.owner}${lease.released ? ", released" : ""}`;
}

/** The argument `id` in a start mark. */
function argumentId(value: unknown): string | null {
  if (typeof value !== "object" || value === null || !("arguments" in value)) return null;
  const { arguments: args } = value;
  return typeof args === "object" && args !== null && "id" in args ? String(args.id) : null;
}

/** The id of the call of a `call_tool` effect. */
function callIdOf(effect: unknown): string | null {
  if (typeof effect !== "object" || effect === null || !("call" in effect)) return null;
  const { call } = effect;
  return typeof call === "object" && call !== null && "id" in call ? String(call.id) : null;
}
