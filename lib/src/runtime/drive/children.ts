// Turns inside tools, each with a journal of its own under the call that runs it (Q10). When the tool is run again after a crash, its turns are
// replayed: what they had paid for is not paid for again.

import type { ChatOptions, Engine } from "../../engine/internal.ts";
import type { CallTool } from "../../kernel/internal.ts";
import type { CallerContext, ChatResult, ForwardedAnswer, Json, Session, Usage } from "../../model/internal.ts";
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
} from "../../run/internal.ts";
import type { RuntimeContext } from "../context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Check, Key } from "../rows/storage.ts";
import type { JournalRow } from "../rows/values.ts";
import type { LeaseHolder } from "./lease-holder.ts";

import { noUsage, newSession, user } from "../../model/internal.ts";
import { forwardedShape, read } from "../../model/parse/reading.ts";
import { planRun, readPinned, startRun, innerHints, callerInbox } from "../../run/internal.ts";
import {
  applyChatResult,
  decide,
  submitToolResults,
  decisionsOf,
  addUserMessage,
  isOpen,
} from "../../session/internal.ts";
import { putting } from "../rows/batch.ts";
import { sha256 } from "../rows/digest.ts";
import { journalPut, recordName, recordPut } from "../rows/journal-rows.ts";
import { usageOfRows } from "../rows/ledger.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { countingRows, DurableJournal } from "./journal.ts";

/** What child turns need of the turn they are in. */
export type Parent<Context extends CallerContext> = {
  readonly context: RuntimeContext;
  readonly key: SessionKey;
  readonly plan: Plan<Context>;
  readonly scope: Scope;
  readonly holder: LeaseHolder;
};

export function childrenOf<Context extends CallerContext>(parent: Parent<Context>): PlanChild {
  const { plan, scope } = parent;
  return (effect, attempt, signal, booked, waits) => {
    let count = 0;
    return async (engine, input, options = {}) => {
      const name = `child/${attempt}/${count}`;
      count += 1;
      if (scope.find(effect.id, name) === null) await scope.record(effect.id, name, true);
      const said = {
        sessionId: plan.sessionId ?? plan.requestId,
        ...options,
        signal: options.signal === undefined ? signal : AbortSignal.any([signal, options.signal]),
      };
      // By the key of the call, which it keeps when a later turn goes on with it.
      const child = new ChildTurns(parent, `${effect.idempotencyKey}/${name}`, engine, said);
      return child.run(input, effect, booked, waits);
    };
  };
}

/** The turns of one conversation inside a call: one, and one more for each time it had to wait for somebody. */
class ChildTurns<Context extends CallerContext, Inner extends CallerContext> {
  readonly #parent: Parent<Context>;
  readonly #base: string;
  readonly #engine: Engine<Inner>;
  readonly #said: ChatOptions<Inner>;

  constructor(parent: Parent<Context>, base: string, engine: Engine<Inner>, said: ChatOptions<Inner>) {
    this.#parent = parent;
    this.#base = base;
    this.#engine = engine;
    this.#said = said;
  }

  async run(
    input: RunInput,
    effect: CallTool,
    booked: (usage: Usage) => void,
    waits: (waits: InnerWait) => void,
  ): Promise<ChatResult> {
    const { key } = this.#parent;
    const own = await loadScope(this.#parent, [...keyOf(key), this.#base], true);
    const said = effect.decision?.type === "forward" ? effect.decision : null;
    let session: Session<Inner> | null = null;
    let answers = 0;
    for (let turn = 0; ; turn += 1) {
      const chat = await this.#turn(own, turn, session ?? input, effect.id);
      // What was begun under an earlier effect was paid for there, when that waited.
      if (begunBy(own, this.#base, turn) === effect.id) booked(chat.usage);
      session = applyChatResult(session ?? newSession({ thread: chat.thread, context: this.#context }), chat);
      for (;;) {
        const open = openWait(session);
        if (open === null) break;
        const name = `answer/${answers}`;
        const wait = `${this.#base}#${answers}`;
        const known = readAnswer(own.find(this.#base, name));
        // What was said is for one wait, of one turn: any other asks for itself.
        const heard = known ?? (said?.wait === wait ? said.answer : null);
        if (heard === null) {
          waits(named(open, wait));
          throw new DOMException("a turn inside this call waits for somebody", "AbortError");
        }
        if (known === null) await own.record(this.#base, name, heard);
        answers += 1;
        session = await this.#answered(session, open, heard);
      }
      if (!goesOn(chat)) return chat;
    }
  }

  /** One turn: from its record as far as that goes. */
  async #turn(own: Scope, index: number, from: RunInput | Session, effectId: string): Promise<ChatResult> {
    const turnId = `${this.#base}/${index}`;
    const known = own.find(this.#base, `pinned/${index}`);
    const pinned = known === null ? null : readPinned(known);
    const rest = isSession(from)
      ? { answers: decisionsOf(from), cell: from.suspendedCell, spentBefore: from.usage }
      : {};
    const details = {
      verb: "chat",
      turnId,
      // A child turn has no row of its own that pins a revision: it is part of the turn it runs in.
      revision: this.#parent.plan.input.revision,
      ...rest,
      ...(pinned?.ok === true ? { pinned: pinned.value } : {}),
    } as const;
    const options = { requestId: turnId, ...this.#said };
    const plan = planRun(this.#engine, isSession(from) ? from.thread : from, options, details);
    if (known === null) {
      await own.record(this.#base, `begun/${index}`, effectId);
      await own.record(this.#base, `pinned/${index}`, plan.pinned);
    }
    const ports = await childPorts(this.#parent, turnId, callerInbox(plan));
    const nested = childrenOf({ ...this.#parent, plan, scope: ports.scope });
    return (await startRun(plan, () => ports, nested).result).chat;
  }

  get #context(): Inner {
    return this.#said.context ?? this.#engine.context;
  }

  async #answered(session: Session<Inner>, { path }: InnerWait, answer: ForwardedAnswer): Promise<Session<Inner>> {
    const [id = ""] = path;
    switch (answer.type) {
      case "result":
        return submitToolResults(session, [[id, answer.value]]);
      case "answer":
        return addUserMessage(session, user(answer.text));
      case "approve":
      case "deny":
        return decide(this.#engine, session, id, answer);
    }
  }
}

/** What a conversation inside a call waits for first; `null`: nothing. */
function openWait({ status, pendingToolCalls, pendingQuestion, pendingToolCallId }: Session): InnerWait | null {
  const asked = pendingToolCalls.find(({ id }) => id === pendingToolCallId);
  if (status === "awaiting_user") {
    const path = [pendingToolCallId ?? "", ...(asked?.path ?? [])];
    return { reason: "question", question: pendingQuestion, opts: asked?.opts ?? {}, path };
  }
  const open = pendingToolCalls.find(isOpen);
  if (open === undefined) return null;
  const { reason, question, opts, id, path, name, arguments: args } = open;
  // Whoever is to consent has to see what to: the call inside, not the one of the tool around it.
  const inner = path.length > 0 ? opts : { ...opts, inner: { name, arguments: args } };
  return { reason, question, opts: inner, path: [id, ...path] };
}

/** Did this turn end because somebody had to say something? Then another one follows it. */
function goesOn({ outcome, pendingToolCalls }: ChatResult): boolean {
  return outcome.type === "ask_user" || pendingToolCalls.some(isOpen);
}

function isSession(from: RunInput | Session): from is Session {
  return typeof from === "object" && "status" in from;
}

function readAnswer(stored: Json): ForwardedAnswer | null {
  const found = stored === null ? null : read(forwardedShape, stored);
  return found !== null && "value" in found ? found.value : null;
}

/** The effect under which a turn inside a call was begun. */
function begunBy(own: Scope, base: string, turn: number): Json {
  return own.find(base, `begun/${turn}`);
}

/** The wait with a name of its own, in the hints of the call that waits for it. */
function named(wait: InnerWait, name: string): InnerWait {
  return { ...wait, opts: { ...wait.opts, inner: { ...innerHints(wait.opts), wait: name, ran: null } } };
}

/** What was written down under a turn, and how more is. `remembers`: what this process writes is found too. */
async function loadScope<Context extends CallerContext>(
  parent: Parent<Context>,
  at: Key,
  remembers = false,
): Promise<Scope> {
  const { storage } = parent.context;
  const [found = []] = await storage.read([{ table: "records", prefix: at }]);
  const records = new Map<string, Json>(
    found.map((row) => [recordName(String(row.key[3]), String(row.key[4])), readValue("records", row)]),
  );
  return {
    epoch: parent.scope.epoch,
    ensure: parent.scope.ensure,
    find: (effectId, name) => records.get(recordName(effectId, name)) ?? null,
    record: async (effectId, name, value) => {
      await parent.holder.write(putting(recordPut(at, effectId, name, value)));
      if (remembers) records.set(recordName(effectId, name), value);
    },
  };
}

async function childPorts<Context extends CallerContext>(
  parent: Parent<Context>,
  turn: string,
  inbox: Inbox,
): Promise<Ports> {
  const { context, key } = parent;
  const { storage } = context;
  const at: Key = [...keyOf(key), turn];
  const [rows = []] = await storage.read([{ table: "journal", prefix: at }]);
  const stored = rows.map((row) => readValue("journal", row));
  const journal = new DurableJournal(countingRows(stored));
  let ordinal = stored.length;
  const put = async (row: JournalRow): Promise<void> => {
    ordinal += 1;
    const one = journalPut(at, ordinal, row);
    const absent: Check = { table: "journal", key: one.key, tag: null };
    const written = await parent.holder.write({ checks: [absent], removals: [], puts: [one] });
    if (!written.ok) throw parent.holder.lost();
  };
  const rowOf = async (item: JournalItem): Promise<JournalRow> => {
    const effect = item.type === "response" ? journal.effectText(item.response.id) : null;
    const hash = effect === null ? null : await sha256(effect);
    return { effect, hash, item, epoch: parent.scope.epoch, attempt: 1 };
  };
  const scope = await loadScope(parent, at);
  return {
    journal,
    scope,
    accepted: true,
    inbox,
    sink: {
      live: () => undefined,
      commit: async (_, __, item): Promise<Committed> => {
        if (item === null || journal.replayed !== null) return "replayed";
        // That it was stopped is for the call around it to say: when that is run again, this goes on from what it had.
        if (item.type === "cancel") return "fresh";
        await put(await rowOf(item));
        return "fresh";
      },
    },
  };
}

/**
 * What turns inside a call had cost when the process died, by the names they are written down under: paid for, whatever becomes of the call. Those that
 * were begun under another effect were counted there.
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
      const stored = rows.map((one) => readValue("journal", one));
      sum = usageOfRows(stored, sum);
    }
  }
  return sum;
}
