// Opens the file that sessions are kept in. `libsql` comes with the package and is the same engine on every Node; where its binary cannot be loaded,
// `node:sqlite` of Node itself is as good (22.13 and later), but warns on standard error that it is experimental.

import type { SqliteDatabase } from "everturn/host/sqlite";

import { chmodSync, existsSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, resolve } from "node:path";

export type OpenDatabase = {
  readonly path: string;
  readonly driver: "libsql" | "node:sqlite";
  readonly database: SqliteDatabase;
  readonly close: () => void;
};

type Handle = SqliteDatabase & { readonly close: () => unknown };

/** Opens a SQLite file, and makes the folders it is in. `:memory:` is one that nobody else sees. */
export function openDatabase(path: string): OpenDatabase {
  if (path !== ":memory:") makeFolder(dirname(resolve(path)));
  const { driver, open } = sqlite();
  const isNew = path !== ":memory:" && !existsSync(path);
  const database = open(path);
  // What was said is for whoever said it. SQLite makes its other files like this one.
  if (isNew && existsSync(path)) chmodSync(path, 0o600);
  return { path, driver, database, close: () => void database.close() };
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

type Driver = { readonly driver: OpenDatabase["driver"]; readonly open: (path: string) => Handle };

function sqlite(): Driver {
  const load = createRequire(import.meta.url);
  let cause: unknown;
  try {
    const Libsql: new (path: string) => Handle = load("libsql");
    return { driver: "libsql", open: (path) => new Libsql(path) };
  } catch (error) {
    cause = error;
  }
  try {
    const { DatabaseSync }: { readonly DatabaseSync: new (path: string) => Handle } = load("node:sqlite");
    return { driver: "node:sqlite", open: (path) => new DatabaseSync(path) };
  } catch {
    throw new Error(
      "no SQLite here: the libsql package has no binary for this platform, and this Node has no node:sqlite; Node 22.13 or later has",
      { cause },
    );
  }
}
