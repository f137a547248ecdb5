// The oracles of the simulator. The observer sees every batch that the storage applies, every effect that begins, every answer to a client and every event
// that a reader receives. It keeps a simple model of each session and reports each contradiction as a violation. It asks the runtime nothing, so an error of
// the runtime cannot hide itself.
//
//   H1   a recorded model reply or tool result: the effect never begins again
//   H2   a reader receives a stored event only after its batch was applied
//   H3   epochs never decrease; a living lease is not claimed; journal rows are written by the holder only, each ordinal once and in order; event
//        numbers have no gap and are not used twice; entries are not replaced
//   H4   a tool with the policy `never` begins at most once, and with `never` or `ask` only after its start mark
//   Q1   an effect begins only in the process that holds a living lease
//   Q9   `cancelled` and `completion_won` agree with the stored outcome
//   Q16  no approval that a turn was started with outlives the turn
//   Q17  the count of takeovers does not exceed the limit
//   K5   a turn that has ended does not change

import type { Json } from "../../model/internal.ts";
import type { Batch, Put, Row } from "../../runtime/internal.ts";
import type { EffectBegin } from "./agent.ts";
import type { SimulatedProcess } from "./process.ts";
import type { World } from "./world.ts";

import { messageText } from "../../model/internal.ts";
import { readValue } from "../../runtime/internal.ts";
import { planNumber, replyName } from "./agent.ts";

type ObservedLease = {
  readonly epoch: number;
  readonly owner: string;
  readonly released: boolean;
  readonly expires: number;
};

type ObservedTurn = {
  readonly status: string;
  /** How the turn ended; `null`: it has not. */
  readonly outcome: string | null;
};

/** What the observer knows about a session. */
export type ObservedSession = {
  lease: ObservedLease | null;
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
  /** The calls whose decisions a turn was started with. */
  readonly decisions: Map<string, readonly string[]>;
  /** Names of effects with a recorded response. */
  readonly recorded: Set<string>;
  /** Ids of calls with a start mark. */
  readonly started: Set<string>;
  /** How often each tool call began. */
  readonly begun: Map<string, number>;
  /** Numbers of the plans among its messages. */
  readonly plans: Set<string>;
};

/** Collects violations. See the head of this file. */
export class Observer {
  readonly violations: string[] = [];
  readonly sessions = new Map<string, ObservedSession>();
  readonly counts = { writes: 0, effects: 0, takeovers: 0, events: 0 };
  readonly #world: World;
  readonly #isKilled: (owner: string) => boolean;
  readonly #maxTakeovers: number;

  constructor(world: World, isKilled: (owner: string) => boolean, maxTakeovers: number) {
    this.#world = world;
    this.#isKilled = isKilled;
    this.#maxTakeovers = maxTakeovers;
  }

  /** Reports a violation. */
  violation(text: string): void {
    this.#world.log(() => `VIOLATION ${text}`);
    this.violations.push(text);
  }

  /** The model of a session. */
  of(id: string): ObservedSession {
    const existing = this.sessions.get(id);
    if (existing !== undefined) return existing;
    const session: ObservedSession = {
      lease: null,
      deleted: false,
      wasDeleted: false,
      lastSequence: 0,
      events: new Map(),
      entries: new Map(),
      journal: new Map(),
      turns: new Map(),
      decisions: new Map(),
      recorded: new Set(),
      started: new Set(),
      begun: new Map(),
      plans: new Set(),
    };
    this.sessions.set(id, session);
    return session;
  }

  /** A batch was applied to the storage. */
  applied(writer: SimulatedProcess, { puts, removals }: Batch): void {
    this.counts.writes += 1;
    for (const { table, prefix } of removals) {
      if (prefix.length !== 2) continue;
      if (table !== "events" && table !== "entries" && table !== "journal" && table !== "turns") continue;
      this.of(String(prefix[1]))[table].clear();
    }
    // Journal rows are judged by the lease before the batch, which may release it.
    for (const put of puts) if (put.table === "journal") this.#journal(writer, put);
    // Deleting a session claims it from its holder, whose writes are fenced by the next epoch.
    const isDeletion = puts.some((put) => put.table === "sessions" && readValue("sessions", rowOf(put)).deleted);
    for (const put of puts) this.#put(writer, put, isDeletion);
    this.#approvals(puts);
  }

  #put(writer: SimulatedProcess, put: Put, isDeletion: boolean): void {
    const { table, key } = put;
    const session = this.of(String(key[1]));
    switch (table) {
      case "leases":
        return this.#lease(writer, session, put, isDeletion);
      case "sessions": {
        session.deleted = readValue("sessions", rowOf(put)).deleted;
        if (session.deleted) this.#forget(session);
        return;
      }
      case "events": {
        const sequence = Number(key[2]);
        if (sequence !== session.lastSequence + 1) {
          this.violation(`H3: event ${sequence} of ${String(key[1])} follows event ${session.lastSequence}`);
        }
        session.lastSequence = Math.max(sequence, session.lastSequence);
        session.events.set(sequence, readValue("events", rowOf(put)).event.type);
        return;
      }
      case "entries": {
        const message = readValue("entries", rowOf(put));
        const text = JSON.stringify(message);
        const existing = session.entries.get(Number(key[2]));
        if (existing !== undefined && existing !== text) {
          this.violation(`H3: message ${String(key[2])} of ${String(key[1])} was replaced`);
        }
        session.entries.set(Number(key[2]), text);
        const plan = message.role === "user" ? planNumber(messageText(message)) : null;
        if (plan !== null) session.plans.add(plan);
        return;
      }
      case "turns":
        return this.#turn(session, put);
      case "starts": {
        const { answers } = readValue("starts", rowOf(put));
        const ids = answers.flatMap((answer) => (answer.type === "decision" ? [answer.call.id] : []));
        session.decisions.set(String(key[2]), ids);
        return;
      }
      case "records": {
        if (key[4] !== "started") return;
        const id = argumentId(readValue("records", rowOf(put)));
        if (id !== null) session.started.add(id);
        return;
      }
      default:
    }
  }

  /** A deleted session may be started again under the same id, with the same messages. */
  #forget(session: ObservedSession): void {
    session.wasDeleted = true;
    for (const names of [session.recorded, session.started, session.begun, session.plans, session.decisions])
      names.clear();
  }

  #lease(writer: SimulatedProcess, session: ObservedSession, put: Put, isDeletion: boolean): void {
    const { owner, released } = readValue("leases", rowOf(put));
    const before = session.lease;
    const { now } = this.#world;
    const [name, epoch] = [String(put.key[1]), put.tag];
    if (before !== null) {
      const isAlive = !isDeletion && !before.released && before.expires > now;
      if (epoch < before.epoch) this.violation(`H3: the epoch of ${name} went from ${before.epoch} to ${epoch}`);
      if (epoch === before.epoch && before.owner !== writer.name) {
        this.violation(`H3: ${writer.name} wrote the lease of ${name}, which ${before.owner} holds`);
      }
      if (epoch > before.epoch && isAlive && before.owner !== writer.name && !this.#isKilled(before.owner)) {
        this.violation(`H3: ${writer.name} claimed ${name} while ${before.owner} held it`);
      }
      if (epoch > before.epoch && !before.released && before.owner !== writer.name) this.counts.takeovers += 1;
    }
    session.lease = { epoch, owner, released, expires: now + (put.ttlMs ?? 0) };
  }

  #journal(writer: SimulatedProcess, put: Put): void {
    const [, name, turn, ordinal] = put.key;
    const session = this.of(String(name));
    const { lease } = session;
    const { item, epoch, effect } = readValue("journal", rowOf(put));
    const where = `journal row ${String(ordinal)} of ${String(turn)} in ${String(name)}`;
    const isHolder =
      lease !== null && lease.owner === writer.name && !lease.released && lease.expires > this.#world.now;
    if (!isHolder || epoch > lease.epoch) {
      this.violation(`H3: ${writer.name} wrote ${where} with epoch ${epoch} without the lease (${describe(lease)})`);
    }
    const last = session.journal.get(String(turn)) ?? 0;
    if (ordinal !== last + 1) this.violation(`H3: ${where} follows row ${last}`);
    session.journal.set(String(turn), Math.max(last, Number(ordinal)));
    if (item.type !== "response") return;
    const { response } = item;
    if (response.type === "model_replied") {
      const { reply } = response;
      const callIds = reply.toolCalls.map(({ id }) => id);
      const replied = replyName(reply.outputText ?? "", callIds);
      if (replied !== null) session.recorded.add(replied);
    }
    if (response.type === "tool_returned" && effect !== null) {
      const id = callIdOf(JSON.parse(effect));
      if (id !== null) session.recorded.add(id);
    }
  }

  #turn(session: ObservedSession, put: Put): void {
    const id = String(put.key[2]);
    const { status, end, takeovers } = readValue("turns", rowOf(put));
    const before = session.turns.get(id);
    if (before?.status === "ended") this.violation(`K5: the turn ${id}, which has ended, was written again`);
    if (takeovers > this.#maxTakeovers) this.violation(`Q17: the turn ${id} was taken over ${takeovers} times`);
    session.turns.set(id, { status, outcome: end?.outcome.type ?? null });
  }

  /** Q16: the batch that ends a turn leaves no decision with which the turn was started. */
  #approvals(puts: readonly Put[]): void {
    const ended = puts.find((put) => put.table === "turns" && readValue("turns", rowOf(put)).status === "ended");
    const head = puts.find(({ table }) => table === "sessions");
    if (ended === undefined || head === undefined) return;
    const used = this.of(String(ended.key[1])).decisions.get(String(ended.key[2])) ?? [];
    for (const { id, decision } of readValue("sessions", rowOf(head)).session.pendingToolCalls) {
      if (decision !== null && used.includes(id)) {
        this.violation(`Q16: the decision of call ${id} outlives the turn ${String(ended.key[2])}`);
      }
    }
  }

  /** An effect begins in a process. */
  readonly began = (process: SimulatedProcess, effect: EffectBegin): void => {
    this.counts.effects += 1;
    this.#world.log(() => `${process.name} begins ${effect.type} ${effect.name}`);
    if (effect.type === "model") return this.#modelBegan(process, effect.name);
    const { name, session: id, policy, tool } = effect;
    const session = this.of(id);
    // The holder of a deleted session learns of the deletion at its next write, so its effects cannot be judged.
    if (session.wasDeleted) return;
    const count = (session.begun.get(name) ?? 0) + 1;
    session.begun.set(name, count);
    const what = `${tool} ${name} of ${id}`;
    if (!this.#holds(process, session)) {
      this.violation(`Q1: ${what} began in ${process.name} without the lease (${describe(session.lease)})`);
    }
    if (session.recorded.has(name)) this.violation(`H1: ${what} began again although it is recorded`);
    if (policy === "never" && count > 1) this.violation(`H4: ${what} began ${count} times`);
    if (effect.needsApproval && !this.#isApproved(session, name)) {
      this.violation(`Q16: ${what} began without an approval for an open turn`);
    }
    if (policy !== "safe" && !session.started.has(name)) this.violation(`H4: ${what} began without a start mark`);
  };

  /** A model request does not name its session; a fork shares the plans of its origin. */
  #modelBegan(process: SimulatedProcess, name: string): void {
    const [plan = ""] = name.split(".");
    const all = [...this.sessions].filter(([, { plans }]) => plans.has(plan));
    // A steered message is no entry before its delivery is committed; the call then follows that commit.
    if (all.length === 0) return;
    if ([...this.sessions.values()].some(({ wasDeleted }) => wasDeleted)) return;
    const held = all.filter(([, session]) => this.#holds(process, session));
    if (held.length === 0) {
      const leases = all.map(([id, { lease }]) => `${id}: ${describe(lease)}`).join("; ");
      this.violation(`Q1: model call ${name} began in ${process.name} without the lease (${leases})`);
    } else if (held.every(([, { recorded }]) => recorded.has(name))) {
      this.violation(`H1: model call ${name} began again in ${process.name} although it is recorded`);
    }
  }

  #isApproved({ turns, decisions }: ObservedSession, call: string): boolean {
    return [...decisions].some(([turn, calls]) => calls.includes(call) && turns.get(turn)?.status !== "ended");
  }

  #holds(process: SimulatedProcess, { lease }: ObservedSession): boolean {
    return lease !== null && lease.owner === process.name && !lease.released && lease.expires > this.#world.now;
  }

  /** A cancel was answered. */
  cancelled(id: string, turn: string, answer: string): void {
    const session = this.of(id);
    if (session.wasDeleted) return;
    const stored = session.turns.get(turn);
    const actual =
      stored?.status !== "ended" ? "open" : stored.outcome === "cancelled" ? "cancelled" : "completion_won";
    if ((answer === "cancelled" || answer === "completion_won") && answer !== actual) {
      this.violation(`Q9: cancel of ${turn} returned ${answer}, and the turn is ${actual}`);
    }
  }

  /** A reader received a stored event. */
  received(id: string, sequence: number, type: string): void {
    this.counts.events += 1;
    const session = this.of(id);
    if (session.wasDeleted) return;
    const stored = session.events.get(sequence);
    if (stored === undefined) this.violation(`H2: a reader of ${id} received event ${sequence} before it was stored`);
    else if (stored !== type)
      this.violation(`H2: event ${sequence} of ${id} is ${stored}, and a reader received ${type}`);
  }
}

function rowOf({ key, tag, value }: Put): Row {
  return { key, tag, value, expires: null, remainingMs: null };
}

function describe(lease: ObservedLease | null): string {
  if (lease === null) return "no lease";
  return `epoch ${lease.epoch} of ${lease.owner}${lease.released ? ", released" : ""}`;
}

/** The argument `id` in a start mark. */
function argumentId(value: Json): string | null {
  if (typeof value !== "object" || value === null || !("arguments" in value)) return null;
  const { arguments: args } = value;
  return typeof args === "object" && args !== null && "id" in args ? String(args["id"]) : null;
}

/** The id of the call of a `call_tool` effect. */
function callIdOf(effect: unknown): string | null {
  if (typeof effect !== "object" || effect === null || !("call" in effect)) return null;
  const { call } = effect;
  return typeof call === "object" && call !== null && "id" in call ? String(call.id) : null;
}
