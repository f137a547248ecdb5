// Opens the file that sessions are kept in: makes its folder, and keeps other users of the machine from reading it. The storage runs in a worker thread and
// chooses the SQLite driver (libsql comes with this package; docs/decisions/0018).

import type { SqlitePathStorage } from "everturn/host/sqlite";

import { closeSync, existsSync, mkdirSync, openSync } from "node:fs";
import { dirname, resolve } from "node:path";

import { sqliteStorage } from "everturn/host/sqlite";

export type OpenDatabase = {
  /** As it was given. */
  readonly path: string;
  /** The SQLite driver in use. */
  readonly driver: string;
  /** The version of the tables. */
  readonly schemaVersion: number;
  readonly storage: SqlitePathStorage;
  readonly close: () => Promise<void>;
};

/** Opens a SQLite file, and makes the folders it is in. `:memory:` is a database of its own, which ends with `close`. */
export async function openDatabase(path: string): Promise<OpenDatabase> {
  if (path !== ":memory:") {
    makeFolder(dirname(resolve(path)));
    makePrivateFile(path);
  }
  const storage = sqliteStorage({ path, name: path });
  try {
    const { driver, schemaVersion } = await storage.open();
    return { path, driver, schemaVersion, storage, close: () => storage.close() };
  } catch (error) {
    await storage.close();
    throw error;
  }
}

/** One folder after another: Node's own way of making several at once never comes back from where none can be made, below /proc for one. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process may have made it in this very moment.
    if (!existsSync(folder)) throw new Error(`the folder ${folder} cannot be made`, { cause: error });
  }
}

/** Creates the file so that only its owner can read it. An empty file is an empty database; SQLite gives its other files the same permissions. */
function makePrivateFile(path: string): void {
  if (existsSync(path)) return;
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch {
    // Another process has made it in this moment, or SQLite will say why it cannot be made.
  }
}
