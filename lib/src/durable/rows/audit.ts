// The audit log: one row for each decision, cancel, deletion, export and change of a key, with who did it and when. It
// is append-only: no verb changes or removes a row, also not the deletion of the session or the tenant that it names.
//
// A row has no text of a session: ids, the name of the actor, and a digest of what it was done to. The row is part of
// the batch that does it, so there is no row without the act, and no act without the row.

import type { AuditAction, AuditEntry } from "../../core/model/internal.ts";
import type { Changes } from "./batch.ts";
import type { HostStorage } from "./storage.ts";

import { putting } from "./batch.ts";
import { randomText } from "./digest.ts";
import { readValue, writeValue } from "./stored.ts";

/** What was done. Exported as part of `AuditedAnswer`. The fields that may be absent default to `null`. */
export type AuditFact = Omit<AuditEntry, "at" | "id" | "action" | Absent> &
  Partial<Pick<AuditEntry, Absent>> & { readonly action: AuditAction };

type Absent = "sessionId" | "target" | "digest";

/** Orders the rows of this process that have the same time. */
let count = 0;

/** The row of the audit log for what a batch does. `at`: the time of the storage, in milliseconds. */
export function auditRow({ sessionId = null, target = null, digest = null, ...fact }: AuditFact, at: number): Changes {
  const value = writeValue("audit", { ...fact, session: sessionId, target, digest });
  count = (count + 1) % 0x1_0000_0000;
  const id = count.toString(16).padStart(8, "0") + randomText(6);
  return putting({ table: "audit", key: [Math.floor(at), id], tag: 0, value });
}

/** Which rows of the audit log are read. */
export type AuditPageOptions = {
  /** The largest number of rows. Default: 100. */
  readonly limit?: number;
  /** The cursor `next` of the previous page. */
  readonly after?: string;
  /** Only rows of this tenant. Default: of all. */
  readonly tenant?: string;
  /** Only rows of this session. */
  readonly session?: string;
  /** Only rows of this actor. */
  readonly actor?: string;
  /** Only rows of this action. */
  readonly action?: string;
  /** Only rows of this time or later, in milliseconds by the clock of the storage. */
  readonly from?: number;
  /** Only rows before this time. */
  readonly until?: number;
};

/** How many rows a page examines if it is filtered. */
const maxScanned = 2000;
const rowsPerRead = 200;

/** A page of the audit log, newest first. A filtered page may have fewer rows than `limit`, and a `next`. */
export async function auditPage(
  storage: HostStorage,
  { limit = 100, after, from: earliest = 0, until, ...filter }: AuditPageOptions = {},
): Promise<{ readonly items: readonly AuditEntry[]; readonly next: string | null }> {
  const items: AuditEntry[] = [];
  let from = beforeTime(cursorOf(after), until);
  for (let scanned = 0; ;) {
    const entries: readonly AuditEntry[] = await olderThan(storage, from);
    for (const entry of entries) {
      if (entry.at < earliest) return { items, next: null };
      from = entry;
      if (!matches(entry, filter)) continue;
      items.push(entry);
      if (items.length >= limit) return { items, next: cursorText(entry) };
    }
    scanned += entries.length;
    if (entries.length < rowsPerRead || from === null) return { items, next: null };
    if (scanned >= maxScanned) return { items, next: cursorText(from) };
  }
}

type Place = Pick<AuditEntry, "at" | "id">;

async function olderThan(storage: HostStorage, from: Place | null): Promise<readonly AuditEntry[]> {
  const query = { table: "audit", limit: rowsPerRead, reverse: true } as const;
  const pages =
    from === null
      ? await storage.read([{ ...query, prefix: [] }])
      : await storage.read([
          { ...query, prefix: [from.at], before: from.id },
          { ...query, prefix: [], before: from.at },
        ]);
  return pages
    .flat()
    .slice(0, rowsPerRead)
    .map((row) => {
      const { session, ...value } = readValue("audit", row);
      return { at: Number(row.key[0]), id: String(row.key[1]), ...value, sessionId: session };
    });
}

/** The place of a page of rows before a time: that of the cursor, if it is earlier. */
function beforeTime(cursor: Place | null, until: number | undefined): Place | null {
  if (until === undefined || (cursor !== null && cursor.at < until)) return cursor;
  return { at: Math.ceil(until), id: "" };
}

function matches(entry: AuditEntry, { tenant, session, actor, action }: AuditPageOptions): boolean {
  return (
    (tenant === undefined || entry.tenant === tenant) &&
    (session === undefined || entry.sessionId === session) &&
    (actor === undefined || entry.actor === actor) &&
    (action === undefined || entry.action === action)
  );
}

function cursorText({ at, id }: Place): string {
  return `${at}:${id}`;
}

/** The place of a cursor. A text that is none begins at the newest row. */
function cursorOf(after: string | undefined): Place | null {
  const match = /^(\d{1,15}):([0-9a-f]+)$/.exec(after ?? "");
  return match === null ? null : { at: Number(match[1]), id: match[2] ?? "" };
}
