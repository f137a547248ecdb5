// `everturn migrate`: creates or migrates the tables of the database, with the search index that `serve` uses, and says what it found. Other commands do so by themselves when they open the
// database; this one is for deployments whose programs may not create tables.

import type { CommandContext } from "./context.ts";

import { safeJson } from "../terminal/safe-text.ts";
import { openSessions } from "../workspace.ts";
import { exitCodes } from "./exit-codes.ts";

export async function migrate(context: CommandContext, { json }: { readonly json: boolean }): Promise<number> {
  const settings = await context.settings();
  const { database, close } = await openSessions(settings, { search: settings.search.value });
  const { name, driver, schemaVersion } = database;
  await close();
  if (json) context.say(safeJson({ database: name, driver, schemaVersion }));
  else if (schemaVersion === null)
    context.say(`${name}: the storage is open; it does not report a version of its tables`);
  else context.say(`${name}: the tables have version ${schemaVersion} (${driver})`);
  return exitCodes.ok;
}
