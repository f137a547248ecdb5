// Oracles about rows that batches write besides those of the turn: idempotency keys, inputs, records, forks, the index
// of due turns. As the observer, they see the applied batches only.
//
//   keys     a key is accepted once: what was accepted under it does not change, except that its input is taken or
//            withdrawn
//   inputs   an input leaves the inbox in the batch that delivers it or withdraws it; it is delivered once; inputs of
//            one kind are delivered in the order of their arrival; a checkpoint delivers all input that arrived before
//            its process claimed the session
//   Q10      records are written by the holder of the session; a child turn after a wait is begun after the answer was
//            recorded; records that a conversation inside a call is replayed from are not replaced
//   forks    a fork has the first messages of its origin, no event and no decision; its batch writes nothing of the
//            origin
//   frames   a frame is written once, in the batch that records its summary, and stands for more messages than the one
//            before it; each of their calls has its result among them. Only the newest frame is undone, once, by a call
//            with a new key, while no turn is open. A session whose turn has ended, and every request, have the newest
//            frame that was not undone; a request without one has the first message
//   due      an open turn has its row in `work`, and is due at once when its lease is released. The batch that ends or
//            parks it removes the row, unless a worker has moved it meanwhile. A worker removes older rows

import type { Batch, Put } from "../../durable/internal.ts";
import type { EffectBegin } from "./agent.ts";
import type { ObservedSession, Observer } from "./observer.ts";
import type { SimulatedProcess } from "./process.ts";
import type { World } from "./world.ts";

import { messageText } from "../../core/model/internal.ts";
import { readValue, workItem } from "../../durable/internal.ts";
import { nameOfKey, rowOf } from "./rows.ts";

type Input = {
  readonly id: string;
  readonly kind: "steered" | "queued" | "interrupting";
  /** When it arrived, in true time. */
  readonly at: number;
};

type Accepted = { readonly digest: string; readonly state: string; readonly turn: string | null };

type Stored = {
  readonly keys: Map<string, Accepted>;
  /** By position. */
  readonly inbox: Map<number, Input>;
  readonly delivered: Set<string>;
  readonly records: Map<string, string>;
  /** The time of the open turn in `work`; `null`: no turn is open. */
  open: number | null;
  /** A worker has moved the open turn in `work` since its holder has written it. */
  isMoved: boolean;
  readonly due: Set<number>;
  isFork: boolean;
  /** The frames that were not undone, oldest first. */
  frames: readonly ObservedFrame[];
  /** The ids of frames that were undone. */
  readonly undone: Set<string>;
};

/** A frame, and the position before which it stands for all messages. */
type ObservedFrame = { readonly id: string; readonly to: number };

type StoredFrame = ReturnType<typeof readValue<"frames">>;
type ModelBegin = Extract<EffectBegin, { readonly type: "model" }>;

/** How much later than now a released turn may be due, in milliseconds. */
const dueMs = 100;
/** How long a request is on its way at most, if nothing disturbs its process, in milliseconds. */
const requestMs = 1000;

/** See the head of this file. */
export class StoredChecks {
  readonly #world: World;
  readonly #observer: Observer;
  readonly #sessions = new Map<string, Stored>();

  constructor(world: World, observer: Observer) {
    this.#world = world;
    this.#observer = observer;
  }

  /** A batch was applied. Called before the observer changes its model. */
  applied(writer: SimulatedProcess, batch: Batch): void {
    const { puts, removals } = batch;
    const head = puts.find(({ table }) => table === "sessions");
    const stored = head === undefined ? null : readValue("sessions", rowOf(head));
    if (head !== undefined && stored?.deleted === true) {
      this.#sessions.delete(nameOfKey(head.key));
      return;
    }
    for (const { table, prefix } of removals) {
      if (prefix.length === 2 && (table === "inbox" || table === "accepted")) this.#sessions.delete(nameOfKey(prefix));
    }
    if (head !== undefined && stored !== null) this.#fork(head, stored, batch);
    this.#inputs(writer, batch);
    // Before the keys of the batch are known.
    this.#frame(batch);
    for (const put of puts) {
      if (put.table === "accepted") this.#key(put);
      if (put.table === "records") this.#record(writer, put);
    }
    this.#due(writer, batch);
  }

  /** Returns whether something was accepted under a key. */
  isAccepted(name: string, key: string): boolean {
    return this.#sessions.get(name)?.keys.has(key) === true;
  }

  #of(name: string): Stored {
    const existing = this.#sessions.get(name);
    if (existing !== undefined) return existing;
    const stored: Stored = {
      keys: new Map(),
      inbox: new Map(),
      delivered: new Set(),
      records: new Map(),
      open: null,
      isMoved: false,
      due: new Set(),
      isFork: false,
      frames: [],
      undone: new Set(),
    };
    this.#sessions.set(name, stored);
    return stored;
  }

  #key(put: Put): void {
    const name = nameOfKey(put.key);
    const { keys } = this.#of(name);
    const key = String(put.key[2]);
    const after = readValue("accepted", rowOf(put));
    const before = keys.get(key);
    keys.set(key, after);
    if (before === undefined) return;
    const isSame = before.digest === after.digest && before.state === after.state && before.turn === after.turn;
    const settles = before.state === "pending" && before.digest === after.digest;
    if (isSame || settles) return;
    this.#observer.violation(`keys: ${key} of ${name} was ${describe(before)}, and is ${describe(after)}`);
  }

  // Inputs.

  #inputs(writer: SimulatedProcess, { puts, removals }: Batch): void {
    const taken = new Set<string>();
    const isAtLimit = puts.some(
      (put) => put.table === "turns" && readValue("turns", rowOf(put)).end?.haltedReason === "max_turns",
    );
    for (const { table, prefix } of removals) {
      if (table !== "inbox" || prefix.length !== 3) continue;
      const name = nameOfKey(prefix);
      const input = this.#of(name).inbox.get(Number(prefix[2]));
      if (input === undefined) continue;
      taken.add(`${name} ${input.id}`);
      const settled = puts.some(({ table: of, key }) => of === "accepted" && key[2] === input.id);
      if (!settled)
        this.#observer.violation(`inputs: ${input.id} of ${name} was removed, and nothing says where it is`);
    }
    for (const put of puts) {
      if (put.table === "starts" && !String(put.key[2]).startsWith("fork")) {
        this.#delivery(put, readValue("starts", rowOf(put)).inputs, taken, null);
      }
      if (put.table !== "journal") continue;
      const { item } = readValue("journal", rowOf(put));
      if (item.type !== "response" || item.response.type !== "checkpoint_delivered") continue;
      // The input of a child turn comes from its tool.
      if (String(put.key[2]).includes("/child/")) continue;
      // At the limit of model calls no input is claimed: no call follows that could read it (Q11).
      this.#delivery(put, item.response.delivery.inputs, taken, isAtLimit ? null : writer);
    }
    for (const { table, prefix } of removals) {
      if (table === "inbox" && prefix.length === 3) this.#of(nameOfKey(prefix)).inbox.delete(Number(prefix[2]));
    }
    for (const put of puts) {
      if (put.table !== "inbox") continue;
      const { inbox } = this.#of(nameOfKey(put.key));
      const position = Number(put.key[2]);
      const { id, ownTurn } = readValue("inbox", rowOf(put));
      const kind = ownTurn === null ? "steered" : ownTurn.interrupts ? "interrupting" : "queued";
      inbox.set(position, { id, kind, at: inbox.get(position)?.at ?? this.#world.now });
    }
  }

  /** Inputs are delivered: by the start of a turn, or by a checkpoint (`checkpointOf`: in this process). */
  #delivery(put: Put, ids: readonly string[], taken: ReadonlySet<string>, checkpointOf: SimulatedProcess | null): void {
    const name = nameOfKey(put.key);
    const { inbox, delivered, keys } = this.#of(name);
    const turn = String(put.key[2]);
    const positions = ids.map((id) => [...inbox].find(([, input]) => input.id === id));
    for (const id of ids) {
      if (delivered.has(id)) this.#observer.violation(`inputs: ${id} of ${name} was delivered again, to ${turn}`);
      if (keys.get(id)?.state === "cancelled") {
        this.#observer.violation(`inputs: ${id} of ${name} was withdrawn and delivered to ${turn}`);
      }
      delivered.add(id);
    }
    for (const [index, found] of positions.entries()) {
      if (found === undefined) continue;
      const [position, { id, kind }] = found;
      if (!taken.has(`${name} ${id}`)) {
        this.#observer.violation(`inputs: ${id} of ${name} was delivered to ${turn}, and stays in the inbox`);
      }
      const later = new Set(positions.slice(index).map((other) => other?.[0]));
      const overtaken = [...inbox].find(
        ([other, input]) => input.kind === kind && other < position && (later.has(other) || !ids.includes(input.id)),
      );
      if (overtaken !== undefined) {
        this.#observer.violation(`inputs: ${id} of ${name} was delivered to ${turn} before ${overtaken[1].id}`);
      }
    }
    if (checkpointOf === null) return;
    const { tenureAt } = this.#observer.of(name);
    const left = [...inbox.values()].find(
      ({ id, kind, at }) => kind === "steered" && at < tenureAt && !ids.includes(id),
    );
    if (left !== undefined) {
      this.#observer.violation(`inputs: a checkpoint of ${turn} in ${name} left ${left.id}, which arrived before`);
    }
  }

  // Records.

  #record(writer: SimulatedProcess, put: Put): void {
    const name = nameOfKey(put.key);
    const { records } = this.#of(name);
    const { lease } = this.#observer.of(name);
    const [, , at = "", effect = "", record = ""] = put.key.map(String);
    if (lease !== null && lease.owner !== writer.name) {
      this.#observer.violation(
        `Q10: ${writer.name} wrote the record ${record} of ${at} in ${name}, which ${lease.owner} holds`,
      );
    }
    const key = `${at} ${effect} ${record}`;
    const before = records.get(key);
    records.set(key, put.value);
    const [, kind, index] = /^(begun|pinned|answer)\/(\d+)$/.exec(record) ?? [];
    if (kind === undefined) return;
    if (before !== undefined && before !== put.value) {
      this.#observer.violation(`Q10: the record ${record} of ${at} in ${name} was replaced`);
    }
    if (kind === "begun" && Number(index) > 0 && !records.has(`${at} ${effect} answer/${Number(index) - 1}`)) {
      this.#observer.violation(
        `Q10: the child turn ${at}/${index ?? ""} in ${name} was begun without a recorded answer`,
      );
    }
  }

  // Frames.

  /** Called before the observer has the messages of the batch, which a frame cannot stand for. */
  #frame(batch: Batch): void {
    const { puts } = batch;
    const frames = puts.filter(({ table }) => table === "frames");
    const responses = responsesOf(batch);
    if (frames.length === 0 && responses.some(({ type }) => type === "compacted")) {
      this.#observer.violation("frames: a summary was recorded, and its frame was not written");
    }
    for (const put of frames) {
      const name = nameOfKey(put.key);
      const frame = readValue("frames", rowOf(put));
      const fail = (what: string) =>
        this.#observer.violation(`frames: the frame before ${frame.to} of ${name} ${what}`);
      if (Number(put.key[2]) !== frame.to) fail(`has the key ${String(put.key[2])}`);
      if (frame.undoneAt === null) this.#newFrame(name, frame, batch, fail);
      else this.#undone(name, frame, batch, fail);
    }
    for (const put of puts) {
      if (put.table !== "sessions") continue;
      const { session, deleted } = readValue("sessions", rowOf(put));
      const ends = puts.some((other) => other.table === "turns" && readValue("turns", rowOf(other)).end !== null);
      const undoes = puts.some((other) => actionOf(other) === "undo_compaction");
      if (deleted || !(ends || undoes)) continue;
      const name = nameOfKey(put.key);
      const [has, newest] = [session.contextWindow?.frame?.id ?? null, this.#of(name).frames.at(-1)?.id ?? null];
      if (has !== newest) {
        this.#observer.violation(
          `frames: ${name} has the frame ${has ?? "none"}, and the newest is ${newest ?? "none"}`,
        );
      }
    }
  }

  #newFrame(name: string, frame: StoredFrame, batch: Batch, fail: (what: string) => void): void {
    const stored = this.#of(name);
    const { id, to, summary } = frame;
    const responses = responsesOf(batch);
    this.#observer.counts.frames += 1;
    // A fork has the newest frame of its origin.
    const hasJournal = batch.puts.some(({ table }) => table === "journal");
    const isFork = stored.isFork && stored.frames.length === 0 && !hasJournal;
    const before = stored.frames.at(-1)?.to ?? 0;
    if (!isFork && to <= before) fail(`follows the frame before ${before}`);
    if (stored.undone.has(id)) fail("was undone, and is written again");
    stored.frames = [...stored.frames.filter((other) => other.to < to), { id, to }];
    const makes = responses.some((response) =>
      response.type === "compaction_failed"
        ? summary === null || /that are in no summary: \d+\.\]$/.test(summary)
        : response.type === "compacted" && response.summary === summary,
    );
    if (!isFork && !makes) fail("was written without its summary");
    const { entries } = this.#observer.of(name);
    const open = new Set<string>();
    // The messages of a fork are those of its batch.
    const judged = isFork ? 0 : to;
    for (let position = 0; position < judged; position += 1) {
      const value = entries.get(position);
      if (value === undefined) {
        fail(`stands for message ${position}, which is not stored`);
        break;
      }
      const message = readValue("entries", rowOf({ table: "entries", key: [], tag: 0, value }));
      if (message.role === "assistant") for (const { id: call } of message.toolCalls) open.add(call);
      if (message.role === "tool") open.delete(message.toolCallId);
    }
    if (open.size > 0) fail(`separates the call ${[...open].join(", ")} from its result`);
  }

  #undone(name: string, { id, to }: StoredFrame, { puts }: Batch, fail: (what: string) => void): void {
    const stored = this.#of(name);
    const newest = stored.frames.at(-1);
    this.#observer.counts.undone += 1;
    if (newest?.id !== id || newest.to !== to) fail(`is undone, and the newest is ${newest?.id ?? "none"}`);
    stored.frames = stored.frames.filter((frame) => frame.id !== id);
    stored.undone.add(id);
    if (!puts.some((put) => actionOf(put) === "undo_compaction")) fail("is undone, and the audit log does not say so");
    const keys = puts.flatMap(({ table, key }) => (table === "accepted" ? [String(key[2])] : []));
    if (keys.length !== 1 || keys.some((key) => stored.keys.has(key)))
      fail(`is undone by a key that was used: ${keys.join()}`);
    const { turns, recorded } = this.#observer.of(name);
    // A later turn may ask for the same summary again. Summaries have the names of what they summarize.
    for (const effect of recorded) if (effect.startsWith("summary ")) recorded.delete(effect);
    const open = [...turns].find(([, { status }]) => status !== "ended");
    if (open !== undefined) fail(`is undone while the turn ${open[0]} is open`);
  }

  /** A request of the holder of a session begins. */
  requested({ name, entries }: ObservedSession, { name: call, frame, seen }: ModelBegin): void {
    const newest = this.#of(name).frames.at(-1)?.id ?? null;
    if (frame !== newest) {
      const text = `the request of ${call} of ${name} has the frame ${frame ?? "none"}, and the newest is ${newest ?? "none"}`;
      this.#observer.violation(`frames: ${text}`);
    }
    if (frame !== null) return;
    const first = entries.get(0);
    const message =
      first === undefined ? null : readValue("entries", rowOf({ table: "entries", key: [], tag: 0, value: first }));
    if (message?.role === "user" && !seen.includes(messageText(message))) {
      this.#observer.violation(`frames: the request of ${call} of ${name} has no frame, and not the first message`);
    }
  }

  // Forks.

  #fork(head: Put, { session, length, turn }: ReturnType<typeof headOf>, { puts, removals }: Batch): void {
    const { forkedFrom } = session.metadata;
    const name = nameOfKey(head.key);
    if (typeof forkedFrom !== "object" || forkedFrom === null || !("sessionId" in forkedFrom)) return;
    const stored = this.#of(name);
    if (stored.isFork) return;
    stored.isFork = true;
    const originKey = [head.key[0] ?? "", String(forkedFrom["sessionId"])];
    const origin = this.#observer.of(nameOfKey(originKey));
    const fail = (what: string) => this.#observer.violation(`forks: ${name} ${what}`);
    if (turn !== null) fail("has an open turn");
    if (forkedFrom["at"] !== length) fail(`has ${length} messages, not ${String(forkedFrom["at"])}`);
    const entries = puts.filter(({ table }) => table === "entries");
    if (entries.length !== length) fail(`has ${entries.length} stored messages, not ${length}`);
    // The origin may have been deleted since it was read.
    const isStrange = ({ key, value }: Put) => origin.entries.get(Number(key[2])) !== value;
    if (!origin.wasDeleted && entries.some(isStrange)) fail(`has a message that ${origin.name} does not have there`);
    if (puts.some(({ table }) => table === "events")) fail("has events of its origin");
    const isOfOrigin = (key: Put["key"]) => key[0] === originKey[0] && key[1] === originKey[1];
    if (puts.some(({ key }) => isOfOrigin(key)) || removals.some(({ prefix }) => isOfOrigin(prefix))) {
      fail("was written together with rows of its origin");
    }
    const kept = session.pendingToolCalls.find(
      ({ decision, idempotencyKey }) => decision !== null || idempotencyKey !== null,
    );
    if (kept !== undefined) fail(`has the decision or the idempotency key of call ${kept.id}`);
  }

  // The due turns in the index of work.

  #due(writer: SimulatedProcess, { puts, removals }: Batch): void {
    const changed = new Set<string>();
    const closed = new Map<string, number>();
    for (const { table, prefix } of removals) {
      const item = table === "work" && prefix[0] === "turn" ? workItem("turn", { key: prefix }) : null;
      const name = item === null ? nameOfKey(prefix) : nameOfKey([item.key.tenant, item.key.session]);
      if (item !== null) this.#of(name).due.delete(item.at);
      else if (table === "open") {
        const { open, isMoved } = this.#of(name);
        if (open !== null && !isMoved && prefix.length === 2) closed.set(name, open);
        this.#of(name).open = null;
      } else continue;
      changed.add(name);
    }
    for (const [name, at] of closed) {
      if (!this.#of(name).due.has(at)) continue;
      this.#observer.violation(`due: the turn of ${name} has ended or was parked, and its row at ${at} is left`);
    }
    const isOfHolder = puts.some(({ table }) => table === "turns");
    for (const put of puts) {
      const item = put.table === "work" && put.key[0] === "turn" ? workItem("turn", put) : null;
      const name = item === null ? nameOfKey(put.key) : nameOfKey([item.key.tenant, item.key.session]);
      if (item !== null) this.#of(name).due.add(item.at);
      else if (put.table === "open") {
        this.#of(name).open = readValue("open", rowOf(put)).due;
        this.#of(name).isMoved = !isOfHolder;
      } else continue;
      changed.add(name);
    }
    for (const name of changed) {
      const { open, due } = this.#of(name);
      if (open !== null && !due.has(open)) {
        this.#observer.violation(
          `due: the open turn of ${name} is due at ${open ?? "no time"}, and its rows are ${[...due].join(", ")}`,
        );
      }
    }
    const lease = puts.find(({ table }) => table === "leases");
    if (lease === undefined || !readValue("leases", rowOf(lease)).released) return;
    const { open } = this.#of(nameOfKey(lease.key));
    const { storageSkewMs, jumpedAt } = this.#observer;
    // The clock of the storage, or what the process knows of it: it may have jumped back since the process has read it
    // last.
    const now = this.#world.now + Math.max(writer.sampledSkewMs ?? storageSkewMs, storageSkewMs);
    const sentAt = this.#world.now - requestMs;
    // Either may have changed while the request was on its way.
    if (open !== null && open > now + dueMs && jumpedAt < sentAt && writer.isHealthySince(sentAt)) {
      this.#observer.violation(
        `due: ${writer.name} released ${nameOfKey(lease.key)}, whose turn is due in ${open - now} ms`,
      );
    }
  }
}

function describe({ state, turn }: Accepted): string {
  return `${state} by ${turn ?? "no turn"}`;
}

function headOf(put: Put) {
  return readValue("sessions", rowOf(put));
}

/** The responses that a batch records. */
function responsesOf({ puts }: Batch) {
  return puts.flatMap((put) => {
    const item = put.table === "journal" ? readValue("journal", rowOf(put)).item : null;
    return item?.type === "response" ? [item.response] : [];
  });
}

/** The action of a row of the audit log; `null`: it is another row. */
function actionOf(put: Put): string | null {
  return put.table === "audit" ? readValue("audit", rowOf(put)).action : null;
}
