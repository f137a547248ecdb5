// Child turns: turns that a tool runs inside its call (Q10). Each has a journal and records of its own, under a name
// that is derived from the idempotency key of the call. When the tool runs again after a crash, its child turns are
// replayed, so model calls that were paid for are not made again.
//
// Names
//   base            `<idempotency key of the call>/child/<attempt>/<n>`: one conversation inside the call
//   child turn      `<base>/<index>`: its journal rows and records. A conversation has one turn, and one more for each
//                   time it waited
//   `begun/<i>`     record under the base: the effect under which turn i was begun, which pays for it
//   `pinned/<i>`    record under the base: the pinned configuration of turn i
//   `ended`         record under the child turn: it has ended
//   `answer/<i>`    record under the base: the answer to wait i of the conversation
//   `<base>#<i>`    the name of wait i, which an answer has to quote
//
// Invariants
//   1. Writes go through the lease of the parent turn: a process that lost the session cannot extend a child's journal.
//   2. A child turn that has to wait makes the call of the parent pending. The later turn that continues the call
//      replays the child and continues it with the answer.
//   3. A cancel is not recorded in the child's journal: the call around it records what happened, and a later run
//      continues the child.
//   4. Each row of a child's journal follows the one before it: the batch checks that it is stored.
//   5. An error of the storage, or a lost lease, stops the loops of the child and of all turns around it. It is never
//      the result of the call, and is recorded in no journal.
//   6. A row of a child's journal is progress of the parent turn: it resets the count of takeovers (Q17).

import type { ChatOptions, Engine, OpenSpan } from "../../core/engine/internal.ts";
import type { CallTool } from "../../core/kernel/internal.ts";
import type { CallerContext, ChatResult, ForwardedAnswer, Json, Session, Usage } from "../../core/model/internal.ts";
import type {
  Committed,
  Inbox,
  JournalItem,
  Plan,
  PlanChild,
  Ports,
  RunInput,
  Scope,
  InnerWait,
} from "../../core/run/internal.ts";
import type { Changes } from "../rows/batch.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Check, Key } from "../rows/storage.ts";
import type { JournalRow } from "../rows/values.ts";
import type { RuntimeContext } from "./context.ts";
import type { FencedWrite, LeaseHolder } from "./lease-holder.ts";

import { noUsage, newSession, user } from "../../core/model/internal.ts";
import { forwardedShape, readOrNull } from "../../core/model/parse/reading.ts";
import {
  childResult,
  planRun,
  noOrigin,
  readPinned,
  startRun,
  innerHints,
  emptyInbox,
} from "../../core/run/internal.ts";
import {
  applyChatResult,
  recordDecision,
  submitToolResults,
  decisionsOf,
  addUserMessage,
  isOpen,
} from "../../core/session/internal.ts";
import { putting } from "../rows/batch.ts";
import { sha256 } from "../rows/digest.ts";
import { journalPut, recordName, recordPut } from "../rows/journal-rows.ts";
import { usageOfRows } from "../rows/ledger.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { EffectTimes } from "./effect-times.ts";
import { effectiveRows, DurableJournal } from "./journal.ts";

/** What child turns need from the turn they run in. */
export type Parent<Context extends CallerContext> = {
  readonly context: RuntimeContext;
  readonly key: SessionKey;
  readonly plan: Plan<Context>;
  readonly scope: Scope;
  readonly holder: LeaseHolder;
  /** Writes a journal row of a child turn under the lease. */
  readonly writeChildRow: (row: Changes) => Promise<FencedWrite>;
  /** Stops the loop of the turn if the work rejects (invariant 5). */
  readonly orStop: <T>(work: Promise<T>) => Promise<T>;
};

/** Builds the function that runs child turns for the calls of a turn. */
export function childrenOf<Context extends CallerContext>(parent: Parent<Context>): PlanChild {
  const { plan, scope } = parent;
  return (effect, attempt, signal, booked, waits, span) => {
    let count = 0;
    return async (engine, input, options = {}) => {
      const name = `child/${attempt}/${count}`;
      count += 1;
      if (scope.find(effect.id, name) === null) await scope.record(effect.id, name, true);
      const childOptions = {
        sessionId: plan.sessionId ?? plan.requestId,
        ...options,
        signal: options.signal === undefined ? signal : AbortSignal.any([signal, options.signal]),
      };
      // The idempotency key of a call stays the same when a later turn continues the call.
      const base = `${effect.idempotencyKey}/${name}`;
      const child = new ChildTurns(parent, base, engine, childOptions, span());
      return childResult(await child.run(input, effect, booked, waits), options.output);
    };
  };
}

/**
 * Builds the function that lists the turns inside an attempt of a call which were begun and have not ended. A call
 * whose outcome is unknown is not run again, so no process ends them; their spans are closed with the call.
 */
export function openChildrenOf({ context, key, scope }: Pick<Parent<CallerContext>, "context" | "key" | "scope">) {
  return async ({ id, idempotencyKey }: CallTool, attempt: number): Promise<readonly string[]> => {
    const open: string[] = [];
    for (let n = 0; scope.find(id, `child/${attempt}/${n}`) !== null; n += 1) {
      const base = `${idempotencyKey}/child/${attempt}/${n}`;
      const [rows = []] = await context.storage.read([{ table: "records", prefix: [...keyOf(key), base, base] }]);
      for (const row of rows) {
        const [, index] = /^begun\/(\d+)$/.exec(String(row.key[4])) ?? [];
        if (index === undefined || readValue("records", row) !== id) continue;
        const turn = `${base}/${index}`;
        const at = [...keyOf(key), turn, turn, endedName];
        const [ended = []] = await context.storage.read([{ table: "records", prefix: at }]);
        if (ended.length === 0) open.push(turn);
      }
    }
    return open;
  };
}

/** The name of the record, under the id of a child turn, that the turn has ended. Written with its last journal row. */
const endedName = "ended";

/** The turns of one conversation inside a call: one, and one more after each wait for an answer. */
class ChildTurns<Context extends CallerContext, Inner extends CallerContext> {
  readonly #parent: Parent<Context>;
  readonly #base: string;
  readonly #engine: Engine<Inner>;
  readonly #options: ChatOptions<Inner>;
  /** The span of the call. */
  readonly #span: OpenSpan | null;

  constructor(
    parent: Parent<Context>,
    base: string,
    engine: Engine<Inner>,
    options: ChatOptions<Inner>,
    span: OpenSpan | null,
  ) {
    this.#parent = parent;
    this.#base = base;
    this.#engine = engine;
    this.#options = options;
    this.#span = span;
  }

  /**
   * Runs the conversation to its end. `booked` gets the usage of turns that this effect pays for. If the conversation
   * has to wait, `waits` gets the wait, and an `AbortError` ends the handler of the tool.
   */
  async run(
    input: RunInput,
    effect: CallTool,
    booked: (usage: Usage) => void,
    waits: (waits: InnerWait) => void,
  ): Promise<ChatResult> {
    const { key } = this.#parent;
    const { orStop } = this.#parent;
    const scope = await orStop(loadScope(this.#parent, orStop, [...keyOf(key), this.#base], true));
    const forwarded = effect.decision?.type === "forward" ? effect.decision : null;
    let session: Session<Inner> | null = null;
    let answers = 0;
    for (let turn = 0; ; turn += 1) {
      const chat = await this.#turn(scope, turn, session ?? input, effect.id);
      // A turn that was begun under an earlier effect was booked there, when that effect became pending.
      if (begunBy(scope, this.#base, turn) === effect.id) booked(chat.usage);
      session = applyChatResult(session ?? newSession({ thread: chat.thread, context: this.#context }), chat);
      for (;;) {
        const open = openWait(session);
        if (open === null) break;
        const name = `answer/${answers}`;
        const wait = `${this.#base}#${answers}`;
        const recordedAnswer = readAnswer(scope.find(this.#base, name));
        // A forwarded answer is for one wait only; every other wait needs an answer of its own.
        const answer = recordedAnswer ?? (forwarded?.wait === wait ? forwarded.answer : null);
        if (answer === null) {
          waits(named(open, wait));
          throw new DOMException("a turn inside this call waits for an answer", "AbortError");
        }
        if (recordedAnswer === null) await scope.record(this.#base, name, answer);
        answers += 1;
        session = await this.#answered(session, open, answer);
      }
      if (!continues(chat)) return chat;
    }
  }

  /** Runs one turn: replays its journal, then performs the rest. */
  async #turn(scope: Scope, index: number, from: RunInput | Session, effectId: string): Promise<ChatResult> {
    const turnId = `${this.#base}/${index}`;
    const recordedPin = scope.find(this.#base, `pinned/${index}`);
    const pinned = recordedPin === null ? null : readPinned(recordedPin);
    const continued = isSession(from)
      ? {
          answers: decisionsOf(from),
          cell: from.suspendedCell,
          spentBefore: from.usage,
          protocolEvents: from.protocolEvents,
          contextWindow: from.contextWindow,
        }
      : {};
    const details = {
      verb: "chat",
      turnId,
      // A child turn has no start row that pins a kernel revision: it uses that of its parent.
      revision: this.#parent.plan.input.revision,
      ...continued,
      ...(pinned?.ok === true ? { pinned: pinned.value } : {}),
    } as const;
    const options = { requestId: turnId, ...this.#options };
    const plan = planRun(this.#engine, isSession(from) ? from.thread : from, options, details);
    if (recordedPin === null) {
      await scope.record(this.#base, `begun/${index}`, effectId);
      await scope.record(this.#base, `pinned/${index}`, plan.pinned);
    }
    const { ports, orStop } = await childPorts(this.#parent, turnId, emptyInbox);
    const nested = childrenOf({ ...this.#parent, plan, scope: ports.scope, orStop });
    const openChildren = openChildrenOf({ ...this.#parent, scope: ports.scope });
    const origin = { ...noOrigin, parent: this.#span, durable: true, openChildren };
    return (await startRun(plan, () => ports, nested, origin).result).chat;
  }

  get #context(): Inner {
    return this.#options.context ?? this.#engine.context;
  }

  /** The session after an answer to its first open wait. */
  async #answered(session: Session<Inner>, { path }: InnerWait, answer: ForwardedAnswer): Promise<Session<Inner>> {
    const [id = ""] = path;
    switch (answer.type) {
      case "result":
        return submitToolResults(session, [[id, answer.value]]);
      case "answer":
        return addUserMessage(session, user(answer.text));
      case "approve":
      case "deny":
        return recordDecision(session, id, answer);
    }
  }
}

/** The first wait of a conversation inside a call; `null`: it does not wait. */
function openWait({ status, pendingToolCalls, pendingQuestion, pendingToolCallId }: Session): InnerWait | null {
  const askingCall = pendingToolCalls.find(({ id }) => id === pendingToolCallId);
  if (status === "awaiting_user") {
    const path = [pendingToolCallId ?? "", ...(askingCall?.path ?? [])];
    const opts = askingCall?.opts ?? {};
    return { reason: "question", question: pendingQuestion, opts, path, shown: askingCall?.shown ?? null };
  }
  const open = pendingToolCalls.find(isOpen);
  if (open === undefined) return null;
  const { reason, question, opts, id, path, shown } = open;
  // The approver has to see the inner call that needs approval, not only the call of the tool around it.
  const inner = path.length > 0 ? opts : { ...opts, inner: { name: shown.name, arguments: shown.arguments } };
  return { reason, question, opts: inner, path: [id, ...path], shown };
}

/** Returns whether the turn ended to wait for an answer: another turn follows it. */
function continues({ outcome, pendingToolCalls }: ChatResult): boolean {
  return outcome.type === "ask_user" || pendingToolCalls.some(isOpen);
}

function isSession(from: RunInput | Session): from is Session {
  return typeof from === "object" && "status" in from && !("role" in from);
}

/** Parses a recorded answer; `null`: there is none. */
function readAnswer(stored: Json): ForwardedAnswer | null {
  return stored === null ? null : readOrNull(forwardedShape, stored);
}

/** The effect under which a child turn was begun. */
function begunBy(scope: Scope, base: string, turn: number): Json {
  return scope.find(base, `begun/${turn}`);
}

/** The wait with its name in the hints of the pending call, where a forwarded answer finds it. */
function named(wait: InnerWait, name: string): InnerWait {
  return { ...wait, opts: { ...wait.opts, inner: { ...innerHints(wait.opts), wait: name, ran: null } } };
}

/** The records under a key. `findsOwn`: `find` also returns records that this process has written. */
async function loadScope<Context extends CallerContext>(
  { context, scope, holder }: Parent<Context>,
  orStop: Parent<Context>["orStop"],
  at: Key,
  findsOwn = false,
): Promise<Scope> {
  const { storage } = context;
  const [recordRows = []] = await holder.whenFree(() => storage.read([{ table: "records", prefix: at }]));
  const records = new Map<string, Json>(
    recordRows.map((row) => [recordName(String(row.key[3]), String(row.key[4])), readValue("records", row)]),
  );
  return {
    tenant: scope.tenant,
    epoch: scope.epoch,
    ensure: () => {
      const ensured = scope.ensure();
      return ensured instanceof Promise ? orStop(ensured) : undefined;
    },
    find: (effectId, name) => records.get(recordName(effectId, name)) ?? null,
    record: async (effectId, name, value) => {
      await orStop(holder.write(putting(recordPut(at, effectId, name, value))));
      if (findsOwn) records.set(recordName(effectId, name), value);
    },
    begin: () => undefined,
  };
}

/**
 * The ports of a child turn: a durable journal and records under the parent's lease. It has no events, and its input
 * comes from the program.
 */
async function childPorts<Context extends CallerContext>(
  parent: Parent<Context>,
  turn: string,
  inbox: Inbox,
): Promise<{ readonly ports: Ports; readonly orStop: Parent<Context>["orStop"] }> {
  const { context, key, holder } = parent;
  const { storage } = context;
  const at: Key = [...keyOf(key), turn];
  const [rows = []] = await parent.orStop(holder.whenFree(() => storage.read([{ table: "journal", prefix: at }])));
  const stored = rows.map((row) => readValue("journal", row));
  const times = new EffectTimes(context.clock);
  const journal = new DurableJournal(effectiveRows(stored), {
    before: (effect) => times.start(effect),
    finish: async (effect, response) => {
      times.end(effect);
      return response;
    },
  });
  const orStop = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await parent.orStop(work);
    } catch (error) {
      journal.stop(error);
      throw error;
    }
  };
  let ordinal = stored.length;
  const put = async (row: JournalRow, ends: boolean): Promise<void> => {
    ordinal += 1;
    const journalRow = journalPut(at, ordinal, row);
    const absent: Check = { table: "journal", key: journalRow.key, tag: null };
    // A child turn has no commit count as its parent has. The row before is missing if the storage was replaced by an
    // older copy that has the lease.
    const before: readonly Check[] = ordinal === 1 ? [] : [{ table: "journal", key: [...at, ordinal - 1], tag: 0 }];
    const endPuts = ends ? [recordPut(at, turn, endedName, true)] : [];
    const puts = [journalRow, ...endPuts];
    const written = await parent.writeChildRow({ checks: [absent, ...before], removals: [], puts });
    if (!written.ok) throw holder.lost();
  };
  const rowOf = async (item: JournalItem): Promise<JournalRow> => {
    const effect = item.type === "response" ? journal.effectText(item.response.id) : null;
    const hash = effect === null ? null : await sha256(effect);
    const timing = times.take(item.type === "response" ? item.response.id : null, holder.lease);
    return { effect, hash, item, epoch: parent.scope.epoch, attempt: 1, timing };
  };
  const scope = await parent.orStop(loadScope(parent, orStop, at));
  const ports: Ports = {
    journal,
    scope,
    accepted: true,
    inbox,
    sink: {
      live: (events, of) => times.live(events, of),
      commit: async (transition, _, item): Promise<Committed> => {
        if (item === null || journal.replayed !== null) return "replayed";
        // Not recorded (invariant 3): when the call runs again, the child continues from its last row.
        if (item.type === "cancel") return "unrecorded";
        await orStop(put(await rowOf(item), transition.turn.phase.type === "ended"));
        return "fresh";
      },
    },
  };
  return { ports, orStop };
}

/**
 * The recorded usage of the child turns of a call, by the names of their conversations. It was billed, whatever the
 * answer to the call is. Turns that were begun under another effect are not counted: they were booked there.
 */
export async function childUsage(
  context: RuntimeContext,
  key: SessionKey,
  { id, idempotencyKey }: CallTool,
  names: readonly string[],
): Promise<Usage> {
  let sum = noUsage;
  for (const name of names) {
    const base = `${idempotencyKey}/${name}`;
    const [records = []] = await context.storage.read([{ table: "records", prefix: [...keyOf(key), base, base] }]);
    for (const row of records) {
      const [, index] = /^begun\/(\d+)$/.exec(String(row.key[4])) ?? [];
      if (index === undefined || readValue("records", row) !== id) continue;
      const at = [...keyOf(key), `${base}/${index}`];
      const [rows = []] = await context.storage.read([{ table: "journal", prefix: at }]);
      const stored = rows.map((journalRow) => readValue("journal", journalRow));
      sum = usageOfRows(stored, sum);
    }
  }
  return sum;
}
