// Loads a SQLite driver for the path form of the storage. libsql is preferred to node:sqlite: it is the same engine on
// every Node version, and node:sqlite prints a warning that it is experimental (docs/decisions/0018).

import type { SqliteDatabase } from "./database.ts";

import { createRequire } from "node:module";

import { RuntimeError } from "../../../core/model/internal.ts";

/** A handle that the storage opened and has to close. */
export type OwnHandle = SqliteDatabase & { close(): unknown };

/** A loaded driver: opens database files. */
export type LoadedDriver = { readonly name: string; readonly open: (path: string) => OwnHandle };

type HandleClass = new (path: string) => OwnHandle;

const load = createRequire(import.meta.url);

/** Drivers by name, in order of preference. */
const drivers: { readonly [name: string]: () => LoadedDriver } = {
  libsql: () => {
    const Database: HandleClass = load("libsql");
    return { name: "libsql", open: (path) => new Database(path) };
  },
  "node:sqlite": () => {
    const { DatabaseSync }: { readonly DatabaseSync: HandleClass } = load("node:sqlite");
    return { name: "node:sqlite", open: (path) => new DatabaseSync(path) };
  },
};

/**
 * Loads a driver: one of `drivers`, a module that exports `open` by its URL, or with `null` the first of `drivers` that
 * can be loaded. Rejects with `storage_failed` if none can.
 */
export async function loadDriver(driver: string | null): Promise<LoadedDriver> {
  const names = driver === null ? Object.keys(drivers) : [driver];
  const causes: unknown[] = [];
  for (const name of names) {
    try {
      return drivers[name]?.() ?? (await fromModule(name));
    } catch (cause) {
      causes.push(cause);
    }
  }
  const [first] = causes;
  throw new RuntimeError("storage_failed", {
    message: `no SQLite driver could be loaded (tried ${names.join(", ")}; Node ${process.versions.node}). Run "npm install libsql", or use Node 22.13 or later, which has node:sqlite.`,
    cause: causes.length > 1 ? new AggregateError(causes, errorMessage(first), { cause: first }) : first,
  });
}

async function fromModule(url: string): Promise<LoadedDriver> {
  const { open }: { readonly open?: unknown } = await import(/* @vite-ignore */ url);
  if (typeof open !== "function") throw new TypeError(`${url} does not export a function "open"`);
  return { name: url, open: (path) => open(path) };
}

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
