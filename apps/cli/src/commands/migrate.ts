// `everturn migrate`: creates or migrates the tables of the database, with the search index that `serve` uses, and says
// what it found. Other commands do so by themselves when they open the database; this one is for deployments whose
// programs may not create tables. `--finalize` ends a rolling upgrade.

import type { CommandContext } from "./context.ts";

import { finalizeStorage } from "everturn/runtime";

import { safeJson, safeText } from "../terminal/safe-text.ts";
import { openSessions } from "../workspace.ts";
import { exitCodes } from "./exit-codes.ts";

type MigrateOptions = { readonly json: boolean; readonly finalize: boolean };

export async function migrate(context: CommandContext, { json, finalize }: MigrateOptions): Promise<number> {
  const settings = await context.settings();
  const { database, close } = await openSessions(settings, { search: settings.search.value });
  const { name, driver, schemaVersion, storage } = database;
  const finalized = finalize ? await finalizeStorage(storage).finally(close) : null;
  if (finalized === null) await close();
  if (json)
    context.say(safeJson({ database: name, driver, schemaVersion, ...(finalized === null ? {} : { finalized }) }));
  else if (schemaVersion === null)
    context.say(`${name}: the storage is open; it does not report a version of its tables`);
  else context.say(`${name}: the tables have version ${schemaVersion} (${driver})`);
  if (finalized === null) return exitCodes.ok;
  if (!json) context.say(`${name}: ${describeFinalized(finalized)}`);
  return finalized.status === "in_use" ? exitCodes.failed : exitCodes.ok;
}

function describeFinalized(finalized: Awaited<ReturnType<typeof finalizeStorage>>): string {
  switch (finalized.status) {
    case "finalized":
      return `the format was raised from ${finalized.from} to ${finalized.to}; start the processes again to write it`;
    case "current":
      return `the format is ${finalized.format}, the newest of this release; nothing to finalize`;
    case "in_use":
      return `not finalized: processes of an older release drive turns (${finalized.owners.map(safeText).join(", ")}). Stop them, then run this command again. The format is ${finalized.format}; the newest of this release is ${finalized.newest}`;
  }
}
