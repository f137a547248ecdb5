// `everturn stats`: what the database holds: open, waiting and parked turns, overdue work, and the sizes of its tables.
// Bounded reads; a number that reached its limit is printed as "at least".

import type { CommandContext } from "./context.ts";
import type { Count, DatabaseStats } from "@everturn/server";

import { databaseStats } from "@everturn/server";

import { safeJson } from "../terminal/safe-text.ts";
import { openSessions } from "../workspace.ts";
import { exitCodes } from "./exit-codes.ts";
import { duration, table } from "./text.ts";

export async function stats(context: CommandContext, { json }: { readonly json: boolean }): Promise<number> {
  const { say, out, io } = context;
  const { sessions, database, close } = await openSessions(await context.settings());
  try {
    const { name, driver, schemaVersion, storage } = database;
    const found = await databaseStats(storage, sessions, Date.now());
    if (json) {
      say(safeJson({ database: name, driver, schemaVersion, ...found }));
      return exitCodes.ok;
    }
    const lines = [
      ["database", `${name} (${driver}${schemaVersion === null ? "" : `, schema ${schemaVersion}`})`],
      ...countLines(found),
    ];
    for (const line of table(lines, io.stdout.columns)) say(line);
    if (found.tables !== null) {
      const [head = "", ...rows] = table([["TABLE", "ROWS", "SIZE"], ...sizeLines(found.tables)], io.stdout.columns);
      say();
      say(out.dim(head));
      for (const row of rows) say(row);
    }
    return exitCodes.ok;
  } finally {
    await close();
  }
}

function countLines(found: DatabaseStats): readonly (readonly string[])[] {
  const { open, due, limited, oldestDueMs, waiting, parked, overdueDeadlines, endedInLastHour } = found;
  const oldest = oldestDueMs === null ? "" : `; the oldest has been due for ${duration(oldestDueMs)}`;
  const ended = Object.entries(endedInLastHour.byStatus).map(([status, count]) => `${status} ${count}`);
  const endedText = ended.length === 0 ? "none" : ended.join(", ");
  return [
    ["open turns", countText(open)],
    ["due turns", `${countText(due)}${oldest}`],
    ["turns at a limit", countText(limited)],
    ["parked turns", countText(parked)],
    ["waiting sessions", countText(waiting)],
    ["overdue deadlines", countText(overdueDeadlines)],
    ["ended in 1 hour", endedInLastHour.isCapped ? `at least: ${endedText}` : endedText],
  ];
}

/** A capped count is a lower bound. */
function countText({ count, isCapped }: Count): string {
  return isCapped ? `at least ${count}` : String(count);
}

/** Tables that are known to be empty are left out. */
function sizeLines(tables: NonNullable<DatabaseStats["tables"]>): readonly (readonly string[])[] {
  return tables
    .filter(({ rows }) => rows !== 0)
    .map(({ table: name, rows, isEstimate, bytes }) => [
      name,
      rows === null ? "?" : `${isEstimate ? "~" : ""}${rows}`,
      bytes === null ? "?" : sizeText(bytes),
    ]);
}

function sizeText(bytes: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  const power = Math.min(bytes < 1 ? 0 : Math.floor(Math.log2(bytes) / 10), units.length - 1);
  const value = bytes / 1024 ** power;
  return `${power === 0 ? value : value.toFixed(1)} ${units[power] ?? ""}`;
}
