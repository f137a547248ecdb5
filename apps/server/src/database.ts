// Opens the session database. A SQLite file: creates its folder and file with permissions for the owner only; the
// storage runs in a worker thread and chooses the driver (libsql is a dependency of this package; docs/decisions/0018).
// A Postgres database: connects, and migrates its tables. A storage of a configuration module is opened by its own
// code.

import type { ConfigStorage } from "everturn/config";
import type { HostStorage } from "everturn/runtime";

import { closeSync, existsSync, mkdirSync, openSync } from "node:fs";
import { dirname, resolve } from "node:path";

import { postgresStorage } from "everturn/postgres";
import { sqliteStorage } from "everturn/sqlite";

import { isStorage } from "./program-config.ts";
import { isPostgresUrl, SettingsError } from "./setting-readers.ts";

/** An open session database. */
export type OpenDatabase = {
  /** The path of the file, or the URL without user and password. */
  readonly name: string;
  /** The path of the file; `null` for Postgres and for `:memory:`. */
  readonly path: string | null;
  /** The SQLite driver in use, `postgres`, or `custom` for a storage that does not say. */
  readonly driver: string;
  /** The version of the table schema, after migration; `null`: the storage does not say. */
  readonly schemaVersion: number | null;
  readonly storage: HostStorage;
  readonly close: () => Promise<void>;
};

/**
 * Opens a Postgres database by its URL, or a SQLite file, and creates missing folders. `:memory:` is a new database
 * that ends with `close`. `readOnly`: nothing is created, migrated or written. `search`: messages can be searched; the
 * index is created if it does not exist.
 */
export async function openDatabase(
  target: string,
  { readOnly = false, search = false }: { readonly readOnly?: boolean; readonly search?: boolean } = {},
): Promise<OpenDatabase> {
  return isPostgresUrl(target) ? openPostgres(target, readOnly, search) : openFile(target, readOnly, search);
}

/**
 * Opens the storage of a configuration module. `close` calls its method of that name, if it has one. Throws
 * `SettingsError` if it is not a storage. `readOnly` is passed on to a function; a storage that the module has built
 * already is refused, because its first operation may create or migrate tables.
 */
export async function openStorage(
  configured: ConfigStorage,
  { readOnly = false }: { readonly readOnly?: boolean } = {},
): Promise<OpenDatabase> {
  if (readOnly && typeof configured !== "function") {
    throw new SettingsError(
      "storage: this command only reads, and a storage may create or migrate tables: write a function in the configuration file, storage: ({ readOnly }) => postgresStorage({ url, readOnly }), or use --database",
    );
  }
  const storage: unknown = typeof configured === "function" ? await configured({ readOnly }) : configured;
  if (!isStorage(storage)) throw new SettingsError("storage: the function has to return a storage");
  const { name } = storage;
  const opened: unknown = await callMethod(storage, "open");
  const driver = fieldOf(opened, "driver");
  const schemaVersion = fieldOf(opened, "schemaVersion");
  return {
    name,
    path: null,
    driver: typeof driver === "string" ? driver : "custom",
    schemaVersion: typeof schemaVersion === "number" ? schemaVersion : null,
    storage,
    close: async () => void (await callMethod(storage, "close")),
  };
}

/** Calls a method that only some storages have. */
async function callMethod(target: object, name: string): Promise<unknown> {
  const method = fieldOf(target, name);
  return typeof method === "function" ? Reflect.apply(method, target, []) : undefined;
}

function fieldOf(target: unknown, name: string): unknown {
  return typeof target === "object" && target !== null ? Reflect.get(target, name) : undefined;
}

async function openPostgres(url: string, readOnly: boolean, search: boolean): Promise<OpenDatabase> {
  const storage = postgresStorage({ url, readOnly, search });
  const { name } = storage;
  try {
    const { schemaVersion } = await storage.open();
    return { name, path: null, driver: "postgres", schemaVersion, storage, close: () => storage.close() };
  } catch (error) {
    await storage.close();
    throw withNpxAdvice(error, import.meta.url);
  }
}

async function openFile(path: string, readOnly: boolean, search: boolean): Promise<OpenDatabase> {
  const isInMemory = path === ":memory:";
  if (!isInMemory && !readOnly) {
    makeFolder(dirname(resolve(path)));
    makePrivateFile(path);
  }
  const storage = sqliteStorage({ path, name: path, readOnly, search });
  try {
    const { driver, schemaVersion } = await storage.open();
    const close = () => storage.close();
    return { name: path, path: isInMemory ? null : path, driver, schemaVersion, storage, close };
  } catch (error) {
    await storage.close();
    throw withNpxAdvice(error, import.meta.url);
  }
}

/**
 * Replaces the advice to install a package if npx runs the command from its cache. `npm install` in the folder of the
 * user has no effect on the cache: packages are found from the folder of the command, never from the current folder,
 * which may not be trusted. Other errors are returned as they are.
 */
export function withNpxAdvice(error: unknown, commandUrl: string): unknown {
  if (!(error instanceof Error) || !commandUrl.includes("/_npx/")) return error;
  const [, what = "", name = "", others = ""] = /^(.*?)Run "npm install (\S+)"(.*)$/s.exec(error.message) ?? [];
  if (name === "") return error;
  const advice = `npx runs everturn from its cache, so name the package too, "npx --package everturn --package ${name} everturn …", or install both in a project, "npm install everturn ${name}"`;
  return new SettingsError(`${what}${advice}${others}`, { cause: error });
}

/**
 * Creates a folder and its parents, one by one. Node's recursive `mkdirSync` does not return for a path where no folder
 * can be created, such as below /proc.
 */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process may have created it at the same time.
    if (!existsSync(folder)) throw new Error(`cannot create the folder ${folder}`, { cause: error });
  }
}

/**
 * Creates the file with mode 0600. SQLite accepts an empty file as an empty database, and gives its WAL and
 * shared-memory files the same mode.
 */
function makePrivateFile(path: string): void {
  if (existsSync(path)) return;
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch {
    // Another process has created it at the same time; any other error recurs when SQLite opens the file, and is
    // reported there.
  }
}
