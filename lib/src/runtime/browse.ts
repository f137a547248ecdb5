// Looking at sessions, and what is done to them as a whole.

import type { Message, Usage } from "../model/index.ts";
import type { Desk } from "./desk.ts";
import type { SessionHead } from "./stored.ts";
import type { Page, SessionSummary, SessionView } from "./types.ts";

import { startHistory } from "../kernel/index.ts";
import {
  addUsage,
  MisuseError,
  noUsage,
  parse,
  RuntimeError,
  session as newSession,
  validateSession,
} from "../model/index.ts";
import { nothing } from "./changes.ts";
import { keyOf, loadHistory, nameOf, readMessages, readOne } from "./context.ts";
import { entryPuts, find, headOf, keyFor, openTurn } from "./desk.ts";
import { randomText } from "./digest.ts";
import { summary } from "./handles.ts";
import { readValue, writeValue } from "./stored.ts";

/** The session at its last boundary, and the turn that is open; `null` when there is none of that name. */
export async function getSession(
  desk: Desk,
  id: string,
  { messages = "all" }: { readonly messages?: number | "all" } = {},
): Promise<SessionView | null> {
  const key = keyFor(desk, id);
  const row = await readOne(desk.context.host.store, { table: "sessions", prefix: keyOf(key) });
  const head = row === null ? null : readValue("sessions", row);
  if (row === null || head === null || head.deleted) return null;
  const wanted = messages === "all" ? head.length : Math.min(messages, head.length);
  const said =
    wanted === head.length
      ? (await loadHistory(desk.context, key, head.length, head.digest)).entries.slice(0, head.length)
      : await readMessages(desk.context.host.store, key, { after: head.length - wanted - 1, before: head.length });
  const session = { ...head.session, thread: { ...head.session.thread, messages: said } };
  return { session, version: row.tag, length: head.length, openTurn: await openTurn(desk, key, head.turn) };
}

/** Messages of a session, from a place on. */
export async function listMessages(
  desk: Desk,
  id: string,
  { after = -1, limit = 100 }: { readonly after?: number; readonly limit?: number } = {},
): Promise<Page<Message>> {
  const { key, head } = await find(desk, id);
  const items = await readMessages(desk.context.host.store, key, { after, before: head.length, limit });
  const last = after + items.length;
  return { items, next: last + 1 < head.length && items.length > 0 ? `${last}` : null };
}

/** Sessions, those that changed last first. */
export async function listSessions(
  desk: Desk,
  { limit = 50, after }: { readonly limit?: number; readonly after?: string } = {},
): Promise<Page<SessionSummary>> {
  const { store } = desk.context.host;
  const tenant = desk.tenant;
  const from = after === undefined ? null : pageCursor(after);
  const query = { table: "recent", limit: limit + 1, reverse: true } as const;
  const [same = [], older = []] = await store.read([
    {
      ...query,
      prefix: from === null ? [tenant, -1] : [tenant, from.changed],
      ...(from === null ? {} : { before: from.session }),
    },
    { ...query, prefix: [tenant], ...(from === null ? {} : { before: from.changed }) },
  ]);
  const rows = [...same, ...older].slice(0, limit + 1);
  const shown = rows.slice(0, limit);
  const heads = await store.read(
    shown.map((row) => ({ table: "sessions", prefix: [tenant, String(row.key[2])] }) as const),
  );
  const items = heads.flat().map((row) => summary(readValue("sessions", row), row.tag));
  const last = shown.at(-1);
  return { items, next: rows.length > limit && last !== undefined ? `${last.key[1]}:${last.key[2]}` : null };
}

/** Ends a session and forgets it: only that it was there is kept, so that nobody who still holds it can bring it back. */
export async function deleteSession(desk: Desk, id: string): Promise<void> {
  const key = keyFor(desk, id);
  const { store, journal, events } = desk.context.host;
  for (;;) {
    const [heads = [], leases = []] = await store.read([
      { table: "sessions", prefix: keyOf(key) },
      { table: "leases", prefix: keyOf(key) },
    ]);
    const { head, version } = headOf(id, heads[0]);
    const epoch = leases[0]?.tag ?? 0;
    const tombstone: SessionHead = {
      ...head,
      session: newSession({ id }),
      length: 0,
      digest: startHistory([]).digest,
      turn: null,
      lastTurn: null,
      deleted: true,
    };
    const tables = [
      "entries",
      "starts",
      "turns",
      "records",
      "inbox",
      "inboxes",
      "accepted",
      "cancels",
      "ledger",
      "open",
    ] as const;
    const journals = store === journal ? (["journal"] as const) : [];
    const logs = store === events ? (["events", "pieces"] as const) : [];
    const written = await store.write({
      checks: [
        { table: "sessions", key: keyOf(key), tag: version },
        { table: "leases", key: keyOf(key), tag: leases[0]?.tag ?? null },
      ],
      removals: [
        ...[...tables, ...journals, ...logs].map((table) => ({ table, prefix: keyOf(key) })),
        { table: "recent", prefix: [desk.tenant, head.changedAt, id] },
      ],
      puts: [
        { table: "sessions", key: keyOf(key), tag: version + 1, value: writeValue("sessions", tombstone) },
        // Whoever drives it is fenced off.
        {
          table: "leases",
          key: keyOf(key),
          tag: epoch + 1,
          expires: 0,
          value: writeValue("leases", { owner: desk.context.owner }),
        },
      ],
    });
    if (!written.ok) continue;
    desk.context.histories.forget(nameOf(key));
    if (store !== journal) await journal.write({ ...nothing, removals: [{ table: "journal", prefix: keyOf(key) }] });
    if (store !== events) {
      const removals = [
        { table: "events", prefix: keyOf(key) } as const,
        { table: "pieces", prefix: keyOf(key) } as const,
      ];
      await events.write({ ...nothing, removals });
    }
    return;
  }
}

/** A session of its own that begins like this one: with all its messages, or with the first so many. Returns its id. */
export async function fork(
  desk: Desk,
  id: string,
  options: { readonly id?: string; readonly at?: number } = {},
): Promise<string> {
  const { key, head } = await find(desk, id);
  const { length } = head;
  const at = options.at ?? length;
  if (!Number.isSafeInteger(at) || at < 0 || at > length) {
    throw new MisuseError("invalid_argument", `fork: the session has ${length} messages, not ${String(at)}`, {
      path: ["at"],
    });
  }
  const history = await loadHistory(desk.context, key, length, head.digest);
  const kept = history.entries.slice(0, at);
  const whole = at === length;
  const forked = newSession({
    ...(whole ? head.session : {}),
    id: options.id ?? `session-${randomText(10)}`,
    thread: { ...head.session.thread, messages: [] },
    context: head.session.context,
    metadata: { ...head.session.metadata, forkedFrom: { sessionId: id, at } },
  });
  const valid = parse("session", { ...forked, thread: { ...forked.thread, messages: kept } });
  if (!valid.ok) throw new MisuseError("invalid_argument", `fork: ${valid.failure.message}`);
  const checked = validateSession(valid.value);
  if (!checked.ok) {
    throw new MisuseError(
      "invalid_argument",
      `fork: a session cannot end at message ${at}: ${checked.failure.message}`,
      { path: ["at"] },
    );
  }
  const target = keyFor(desk, forked.id ?? "");
  const now = desk.context.clock.now();
  const begun = startHistory(kept);
  const newHead: SessionHead = {
    session: forked,
    length: at,
    digest: begun.digest,
    turn: null,
    lastTurn: whole ? head.lastTurn : null,
    sequence: 0,
    createdAt: now,
    changedAt: now,
    deleted: false,
  };
  const written = await desk.context.host.store.write({
    checks: [{ table: "sessions", key: keyOf(target), tag: null }],
    removals: [],
    puts: [
      { table: "sessions", key: keyOf(target), tag: 1, value: writeValue("sessions", newHead) },
      { table: "recent", key: [desk.tenant, now, target.session], tag: 0, value: "" },
      ...entryPuts(target, 0, kept),
    ],
  });
  if (!written.ok)
    throw new RuntimeError("conflict", {
      message: `fork: a session ${JSON.stringify(target.session)} is there already`,
    });
  desk.context.histories.keep(nameOf(target), begun);
  return target.session;
}

/** What was paid for. */
export type LedgerSum = {
  readonly total: Usage;
  readonly lines: readonly { readonly source: string; readonly model: string | null; readonly usage: Usage }[];
};

/** What a session has cost, by what it was paid for and by model. */
export async function usageOf(desk: Desk, id: string): Promise<LedgerSum> {
  const { key } = await find(desk, id);
  const [rows = []] = await desk.context.host.store.read([{ table: "ledger", prefix: keyOf(key) }]);
  const sums = new Map<string, { source: string; model: string | null; usage: Usage }>();
  let total: Usage = noUsage;
  for (const row of rows) {
    const { source, model, usage } = readValue("ledger", row);
    const name = JSON.stringify([source, model]);
    const known = sums.get(name) ?? { source, model, usage: noUsage };
    sums.set(name, { ...known, usage: plus(known.usage, usage) });
    total = plus(total, usage);
  }
  return { total, lines: [...sums.values()] };
}

function pageCursor(text: string): { readonly changed: number; readonly session: string } {
  const found = /^(\d{1,15}):(.*)$/s.exec(text);
  if (found === null)
    throw new MisuseError("invalid_argument", "list: that is no page of this list", { path: ["after"] });
  return { changed: Number(found[1]), session: found[2] ?? "" };
}

function plus(sum: Usage, more: Usage): Usage {
  const total = addUsage(sum, more);
  return total.ok ? total.value : sum;
}
