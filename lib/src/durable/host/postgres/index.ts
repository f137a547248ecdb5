// Entry point `everturn/postgres`: the storage in Postgres.

export type { PostgresConnection, PostgresPool, PostgresResult, PostgresStatement } from "./client.ts";
export type { PostgresOptions } from "./options.ts";
export type { PostgresInfo, PostgresStatistics, PostgresStorage } from "./storage.ts";

export { postgresStorage } from "./storage.ts";
