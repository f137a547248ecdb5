// The workspace of a command: the settings, the session database, and a runtime with the engines that the settings and
// the configuration file describe.

import type { Engines, Environment, OpenDatabase, Settings } from "@everturn/server";
import type { Engine } from "everturn";
import type { RestateRuntimeOptions } from "everturn/restate";
import type { Runtime, RuntimeOptions } from "everturn/runtime";

import { statSync } from "node:fs";

import {
  connectServers,
  createEngines,
  databaseName,
  isPostgresUrl,
  missingKey,
  openDatabase,
  openStorage,
  SettingsError,
} from "@everturn/server";
import { engine as newEngine, isEverturnError } from "everturn";
import { restateRuntime } from "everturn/restate";
import { runtime } from "everturn/runtime";

/**
 * How long the lease of a turn lasts without a renewal, in milliseconds: the time after which another process continues
 * the turn of a killed one.
 */
export const leaseMs = 30_000;

export type Workspace = {
  readonly settings: Settings;
  readonly sessions: Runtime;
  /** The engines by name. */
  readonly engines: { readonly [name: string]: Engine };
  /** The engine that `chat` and `run` use, and its name. */
  readonly engine: Engine;
  readonly engineName: string;
  /** The model of that engine, for people. */
  readonly model: string;
  readonly database: OpenDatabase;
  /**
   * The SQLite file or the URL at which another process can open the database; `null`: it is in memory, or a storage of
   * the configuration file.
   */
  readonly databaseTarget: string | null;
  readonly close: () => Promise<void>;
};

/** Options that depend on the command. */
export type WorkspaceOptions = Pick<RuntimeOptions, "onTurnFailure"> & {
  /** Restate drives the turns. Default: this process does. */
  readonly restate?: Pick<RestateRuntimeOptions, "restate" | "onSendFailure">;
  /** Further engines of the runtime, by name. Engines of the configuration file have precedence. Default: none. */
  readonly moreEngines?: { readonly [name: string]: Engine };
  /** Messages can be searched. Default: false. */
  readonly search?: boolean;
  /** Receives warnings about the tool modules, for example exports that are not used. Default: they are discarded. */
  readonly onWarning?: (message: string) => void;
};

/**
 * Opens database and engine. `close` releases turns that are still running, so that another process can continue them;
 * it waits at most two seconds for their effects. Throws `SettingsError` for settings that cannot be used.
 */
export async function openWorkspace(
  settings: Settings,
  environment: Environment = process.env,
  { onWarning, restate, search = false, moreEngines = {}, ...options }: WorkspaceOptions = {},
): Promise<Workspace> {
  const created = await createEngines(settings, environment, onWarning);
  checkKey(created, settings, environment);
  const { selected: engineName, model } = created;
  const servers = await connectServers(settings, created.engines, environment);
  const { engines } = servers;
  const engine = engines[engineName] ?? newEngine();
  const limits = settings.limits.value;
  // In this order, in which pages list them. An engine of the configuration file replaces one of the same name.
  const allEngines = { ...engines, ...moreEngines, ...engines };
  const runtimeOptions = {
    ...settings.program.runtime,
    ...(limits === null ? {} : { limits }),
    ...options,
    drive: true,
  };
  try {
    const opened = await openOver(settings, allEngines, runtimeOptions, restate ?? null, search);
    const close = async () => {
      await opened.close();
      await servers.close();
    };
    const databaseTarget =
      hasOwnStorage(settings) || settings.database.value === ":memory:" ? null : settings.database.value;
    return { ...opened, databaseTarget, close, settings, engines, engine, engineName, model };
  } catch (error) {
    await servers.close();
    throw error;
  }
}

/** Rejects a model without an API key before a session is created. */
function checkKey({ model, isCommandModel }: Engines, settings: Settings, environment: Environment): void {
  const missing = isCommandModel ? missingKey(model, environment) : null;
  if (missing === null) return;
  const { value, source } = settings.model;
  const from = value === model ? source.name : settings.configFile;
  throw new SettingsError(`${model} (${from}) needs an API key: set ${missing.join(" or ")}`);
}

/**
 * Opens the sessions without running turns: imports no tools and needs no model. `search`: creates the search index if
 * it does not exist. `drive`: verbs may end turns that no process drives, which needs no engine.
 */
export async function openSessions(
  settings: Settings,
  { search = false, drive = false }: Pick<WorkspaceOptions, "search"> & { readonly drive?: boolean } = {},
): Promise<Pick<Workspace, "sessions" | "database" | "close">> {
  return openOver(settings, { default: newEngine() }, { drive }, null, search);
}

/**
 * Opens the configured database without creating, migrating or writing anything. A function of the configuration file
 * receives `readOnly`.
 */
export async function openReadOnly(settings: Settings): Promise<OpenDatabase> {
  const database = await openNamed(settings, { readOnly: true });
  return { ...database, storage: { ...database.storage, write: refuseWrite } };
}

function refuseWrite(): Promise<never> {
  return Promise.reject(new Error("this command only reads the database"));
}

async function openOver(
  settings: Settings,
  engines: RuntimeOptions["engines"],
  options: Omit<RuntimeOptions, "host" | "engines">,
  restate: WorkspaceOptions["restate"] | null = null,
  search = false,
): Promise<Pick<Workspace, "sessions" | "database" | "close">> {
  const database = await openNamed(settings, { search });
  try {
    const lease = { ttlMs: leaseMs, renewMs: leaseMs / 3 };
    const base = { host: database.storage, engines, lease, ...options };
    const sessions = restate === null ? runtime(base) : restateRuntime({ ...base, ...restate });
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

/** Whether the database is the storage of the configuration file. A flag or a variable overrides it. */
function hasOwnStorage({ database: { source }, program: { storage } }: Settings): boolean {
  return storage !== null && source.from !== "flag" && source.from !== "environment";
}

/**
 * Opens the configured database: the one of a flag or a variable, else the storage of the configuration file, else the
 * database that it names. Throws `SettingsError`.
 */
async function openNamed(
  settings: Settings,
  { readOnly = false, search = false }: { readonly readOnly?: boolean; readonly search?: boolean } = {},
): Promise<OpenDatabase> {
  const {
    database: { value, source },
    program: { storage },
  } = settings;
  if (storage !== null && hasOwnStorage(settings)) return openStorage(storage, { readOnly });
  if (!isPostgresUrl(value) && statSync(value, { throwIfNoEntry: false })?.isDirectory() === true) {
    throw new SettingsError(`the database ${value} (${source.name}) is a folder; a file is needed`);
  }
  try {
    return await openDatabase(value, { readOnly, search });
  } catch (cause) {
    // The file is open but unusable (a newer schema, for example): that error is exact already.
    if (isEverturnError(cause) && cause.failure.reason !== "storage_failed") throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SettingsError(`cannot open the database ${databaseName(value)} (${source.name}): ${why}`, { cause });
  }
}
