// Turns inside tools, each with a journal of its own under the call that runs it (Q10). When the tool is run again after a crash, its turns are
// replayed: what they had paid for is not paid for again.

import type { CallerContext, Json, Usage } from "../model/index.ts";
import type { Committed, JournalItem, Plan, PlanChild, Ports, Scope } from "../run/index.ts";
import type { RuntimeContext, SessionKey } from "./context.ts";
import type { Check, Key } from "./storage.ts";
import type { JournalRow } from "./stored.ts";

import { addUsage, noUsage } from "../model/index.ts";
import { planRun, readPinned, startRun } from "../run/index.ts";
import { keyOf } from "./context.ts";
import { sha256 } from "./digest.ts";
import { countingRows, DurableJournal } from "./journal.ts";
import { journalPut, recordPut } from "./rows.ts";
import { readValue } from "./stored.ts";

/** What child turns need of the turn they are in. */
export type Parent<Context extends CallerContext> = {
  readonly context: RuntimeContext;
  readonly key: SessionKey;
  readonly plan: Plan<Context>;
  readonly scope: Scope;
  readonly fence: () => Check;
  /** The session is no longer ours. */
  readonly lost: () => Error;
};

export function childrenOf<Context extends CallerContext>(parent: Parent<Context>): PlanChild {
  const { plan, scope } = parent;
  return (effect, attempt, signal, booked) => {
    let count = 0;
    return async (engine, input, options = {}) => {
      const name = `child/${attempt}/${count}`;
      count += 1;
      // By the key of the call, which it keeps when a later turn goes on with it.
      const turn = `${effect.idempotencyKey}/${name}`;
      const known = scope.find(effect.id, name);
      const pinned = known === null ? null : readPinned(known);
      const said = {
        sessionId: plan.sessionId ?? plan.requestId,
        requestId: turn,
        ...options,
        signal: options.signal === undefined ? signal : AbortSignal.any([signal, options.signal]),
      };
      const child = planRun(engine, input, said, {
        verb: "chat",
        turnId: turn,
        ...(pinned?.ok === true ? { pinned: pinned.value } : {}),
      });
      if (known === null) await scope.record(effect.id, name, child.pinned);
      const ports = await childPorts(parent, turn);
      const nested = childrenOf({ ...parent, plan: child, scope: ports.scope });
      const { chat } = await startRun(child, () => ports, nested).result;
      booked(chat);
      return chat;
    };
  };
}

async function childPorts<Context extends CallerContext>(parent: Parent<Context>, turn: string): Promise<Ports> {
  const { context, key } = parent;
  const { journal: journalStorage, store } = context.host;
  const at: Key = [...keyOf(key), turn];
  const [rows = []] = await journalStorage.read([{ table: "journal", prefix: at }]);
  const [found = []] = await store.read([{ table: "records", prefix: at }]);
  const stored = rows.map((row) => readValue("journal", row));
  const records = new Map<string, Json>(
    found.map((row) => [JSON.stringify([row.key[3], row.key[4]]), readValue("records", row)]),
  );
  const journal = new DurableJournal(countingRows(stored));
  let ordinal = stored.length;
  const fenced = journalStorage === store;
  const put = async (row: JournalRow): Promise<void> => {
    ordinal += 1;
    const one = journalPut(at, ordinal, row);
    const absent: Check = { table: "journal", key: one.key, tag: null };
    const checks = fenced ? [parent.fence(), absent] : [absent];
    const written = await journalStorage.write({ checks, removals: [], puts: [one] });
    if (!written.ok) throw parent.lost();
  };
  const rowOf = async (item: JournalItem): Promise<JournalRow> => {
    const effect = item.type === "response" ? journal.effectText(item.response.id) : null;
    const hash = effect === null ? null : await sha256(effect);
    return { effect, hash, item, epoch: parent.scope.epoch, attempt: 1 };
  };
  const scope: Scope = {
    epoch: parent.scope.epoch,
    find: (effectId, name) => records.get(JSON.stringify([effectId, name])) ?? null,
    record: async (effectId, name, value) => {
      const batch = { checks: [parent.fence()], removals: [], puts: [recordPut(at, effectId, name, value)] };
      const written = await store.write(batch);
      if (!written.ok) throw parent.lost();
    },
  };
  return {
    journal,
    scope,
    accepted: true,
    inbox: {
      claim: () => Promise.resolve({ messages: [], transientMessages: [], turnCauses: [], inputs: [] }),
    },
    sink: {
      live: () => undefined,
      commit: async (_, __, item): Promise<Committed> => {
        if (item === null || journal.replayed !== null) return "replayed";
        await put(await rowOf(item));
        return "fresh";
      },
    },
  };
}

/** What turns inside a call had cost when the process died, by the names they are written down under: paid for, whatever becomes of the call. */
export async function childUsage(
  context: RuntimeContext,
  key: SessionKey,
  idempotencyKey: string,
  names: readonly string[],
): Promise<Usage> {
  let sum = noUsage;
  for (const name of names) {
    const turn = `${idempotencyKey}/${name}`;
    const [rows = []] = await context.host.journal.read([{ table: "journal", prefix: [...keyOf(key), turn] }]);
    for (const usage of rows.flatMap((row) => usagesOf(readValue("journal", row)))) {
      const total = addUsage(sum, usage);
      if (total.ok) sum = total.value;
    }
  }
  return sum;
}

function usagesOf({ item }: JournalRow): readonly Usage[] {
  if (item.type === "cancel") return [item.cancellation.usage];
  if (item.type !== "response") return [];
  const { response } = item;
  if (response.type === "model_replied") return [response.reply.usage, response.spent];
  if (response.type === "model_failed") return [response.spent, response.error.partial?.usage ?? noUsage];
  return response.type === "tool_returned" ? [response.spent] : [];
}
