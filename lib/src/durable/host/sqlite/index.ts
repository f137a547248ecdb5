// Entry point `everturn/sqlite`: the storage in SQLite.

export type { SqliteDatabase } from "./database.ts";
export type { SqliteOptions } from "./options.ts";
export type { SqliteInfo, SqlitePathOptions, SqlitePathStorage } from "./path-storage.ts";

export { sqliteStorage } from "./sqlite.ts";
