// Entry point `everturn/postgres`: the storage in Postgres.

export type { PostgresPool, PostgresResult } from "./client.ts";
export type { PostgresOptions } from "./options.ts";
export type { PostgresInfo, PostgresStorage } from "./storage.ts";

export { postgresStorage } from "./storage.ts";
