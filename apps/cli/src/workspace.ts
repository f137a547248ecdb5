// What a command works with: the settings, the database they name, and a runtime over it with the engine they describe.

import type { Environment, OpenDatabase, Settings } from "@everturn/server";
import type { Engine } from "everturn";
import type { Runtime } from "everturn/runtime";

import { statSync } from "node:fs";

import { createEngine, missingKey, openDatabase, SettingsError } from "@everturn/server";
import { engine as newEngine, isEverturnError } from "everturn";
import { runtime } from "everturn/runtime";

export type Workspace = {
  readonly settings: Settings;
  readonly sessions: Runtime;
  readonly engine: Engine;
  readonly database: OpenDatabase;
  readonly close: () => Promise<void>;
};

/** Opens everything the settings name. Turns that are still running when it is closed are handed over, not failed. */
export async function openWorkspace(settings: Settings, environment: Environment = process.env): Promise<Workspace> {
  const engine = await createEngine(settings, environment);
  checkKey(settings, environment);
  return { ...(await openOver(settings, engine, true)), settings, engine };
}

/** A model that cannot answer is refused before anything is written down. */
function checkKey({ model: { value, source } }: Settings, environment: Environment): void {
  const missing = missingKey(value, environment);
  if (missing === null) return;
  throw new SettingsError(`${value} (${source.name}) needs a key: set ${missing.join(" or ")}`);
}

/** Opens the sessions alone, for looking at them: no tool is imported, no model has to be there, and no turn is driven. */
export async function openSessions(settings: Settings): Promise<Pick<Workspace, "sessions" | "database" | "close">> {
  return openOver(settings, newEngine(), false);
}

async function openOver(
  settings: Settings,
  engine: Engine,
  drive: boolean,
): Promise<Pick<Workspace, "sessions" | "database" | "close">> {
  const database = await openNamed(settings);
  try {
    const sessions = runtime({ host: database.storage, engines: { default: engine }, drive });
    const close = async () => {
      await sessions.close({ graceMs: 2000 });
      await database.close();
    };
    return { sessions, database, close };
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** The database that the settings name; where it cannot be opened, they have to change. */
async function openNamed({ database: { value, source } }: Settings): Promise<OpenDatabase> {
  if (statSync(value, { throwIfNoEntry: false })?.isDirectory() === true) {
    throw new SettingsError(`the database ${value} (${source.name}) is a folder: name a file in it`);
  }
  try {
    return await openDatabase(value);
  } catch (cause) {
    // The file was opened and cannot be used: that is said as it is.
    if (isEverturnError(cause) && cause.failure.reason !== "storage_failed") throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SettingsError(`cannot open the database ${value} (${source.name}): ${why}`, { cause });
  }
}
