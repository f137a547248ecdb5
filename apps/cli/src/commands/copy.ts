// `everturn copy`: copies all sessions of one database into another, for example from a SQLite file into Postgres, and
// compares both.

import type { CommandContext } from "./context.ts";

import { existsSync } from "node:fs";

import {
  copyDatabase,
  CopyError,
  databaseName,
  isPostgresUrl,
  openDatabase,
  readDatabaseSetting,
  SettingsError,
} from "@everturn/server";

import { safeJson } from "../terminal/safe-text.ts";
import { UsageError } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { plural } from "./text.ts";

export type CopyRequest = { readonly from: string; readonly to: string; readonly json: boolean };

export async function copy(context: CommandContext, { from, to, json }: CopyRequest): Promise<number> {
  const { say, note, err, io } = context;
  const source = readDatabaseSetting(from, { name: "the source", folder: io.folder });
  const target = readDatabaseSetting(to, { name: "the target", folder: io.folder });
  if (source === target) throw new UsageError("the source and the target are the same database");
  if (!isPostgresUrl(source) && !existsSync(source)) throw new UsageError(`there is no file ${source}`);
  const opened = await open(source);
  try {
    const other = await open(target);
    try {
      note(err.dim(`copying ${opened.name} to ${other.name}; nothing may write to either of them meanwhile`));
      const tables = await copyDatabase(opened.storage, other.storage, ({ table, rows, written }) => {
        if (rows > 0 && !json) note(err.dim(`${table}: ${plural(rows, "row")}, ${written} written`));
      });
      const rows = tables.reduce((sum, table) => sum + table.rows, 0);
      if (json) say(safeJson({ from: opened.name, to: other.name, rows, tables }));
      else say(`copied and compared ${plural(rows, "row")} in ${plural(tables.length, "table")}`);
      return exitCodes.ok;
    } finally {
      await other.close();
    }
  } catch (error) {
    if (!(error instanceof CopyError)) throw error;
    note(err.red(`everturn copy: ${error.message}`));
    return exitCodes.failed;
  } finally {
    await opened.close();
  }
}

async function open(target: string) {
  try {
    return await openDatabase(target);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SettingsError(`cannot open the database ${databaseName(target)}: ${why}`, { cause });
  }
}
