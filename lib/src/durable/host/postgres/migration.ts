// Creates the tables and functions in Postgres, and completes what an older release created.
//
// Theory of operation
//   What is missing follows from the catalog of the database and the declaration of the tables (`rows/tables.ts`): the
//   tables of this release that do not exist, and the writing function, whose name contains a digest of its text
//   (`schema.ts`). A table with another primary key than the declared one is refused. The stored version decides
//   nothing of this, so no number has to be raised with the declaration. `migrate` creates what is missing in one
//   transaction, under an advisory lock, so of several processes that start at once the first one creates it and the
//   others wait. Without advisory locks (`mode: "transaction"`) a process that finds an object created by another one
//   begins again. A new index table gets the rows of what is stored already, in the same transaction
//   (`durable/host/shared/backfill.ts`). Nothing is changed that a running process of an older release uses.

import type { TableName } from "../../rows/internal.ts";
import type { PostgresConnection } from "./client.ts";
import type { Names } from "./statements.ts";

import { RuntimeError } from "../../../core/model/internal.ts";
import { tableNames, tables } from "../../rows/internal.ts";
import { backfill } from "../shared/backfill.ts";
import { groupsOf } from "./batch.ts";
import { Statements } from "./rows.ts";
import {
  createFunction,
  createTable,
  schemaVersion,
  textColumn,
  versionOf,
  writeFunction,
  writeName,
  writeSearchFunction,
  writeSearchName,
} from "./schema.ts";
import { addName, searchFunction, searchSchema } from "./search-schema.ts";
import { nowSql, putSql, qualified } from "./statements.ts";

/** `portable`: no function that writes batches, and no advisory lock. `search`: also the search index (`search.ts`). */
type SchemaOptions = { readonly portable: boolean; readonly search: boolean };

/** Creates the tables and the functions, or migrates them. */
export async function migrate(
  connection: PostgresConnection,
  names: Names,
  storage: string,
  options: SchemaOptions,
): Promise<void> {
  for (let conflicts = 0; !(await isCurrent(connection, names, storage, options)); conflicts += 1) {
    try {
      await createAll(connection, names, storage, options);
      return;
    } catch (error) {
      if (!isCreatedByOther(error) || conflicts === maxConflicts) throw error;
    }
  }
}

/** How often the creation is tried again after another process has created the same object. */
const maxConflicts = 20;

/**
 * Another transaction created the schema or a table between the question whether it exists and its creation;
 * `IF NOT EXISTS` does not prevent that. The statement waited for that transaction, which has committed. Happens
 * without an advisory lock, and for the schema of two prefixes.
 */
function isCreatedByOther(error: unknown): boolean {
  const code: unknown = typeof error === "object" && error !== null ? Reflect.get(error, "code") : null;
  return code === "23505" || code === "42P06" || code === "42P07" || code === "42710";
}

/** Returns whether all tables and the functions exist. A process with `mode: "transaction"` creates no function. */
async function isCurrent(
  connection: PostgresConnection,
  names: Names,
  storage: string,
  options: SchemaOptions,
): Promise<boolean> {
  if ((await versionOf(connection, names, storage)) === 0) return false;
  if ((await missingTables(connection, names, storage)).length > 0) return false;
  const { portable, search } = options;
  const functions = [...(portable ? [] : [writeName()]), ...(search ? [portable ? addName : writeSearchName()] : [])];
  for (const name of functions) {
    const { rows } = await connection.query({
      text: "SELECT 1 FROM information_schema.routines WHERE routine_schema = $1 AND routine_name = $2",
      values: [names.schema, `${names.tablePrefix}${name}`],
    });
    if (rows.length === 0) return false;
  }
  return true;
}

/** Creates what is missing, in one transaction. */
async function createAll(
  connection: PostgresConnection,
  names: Names,
  storage: string,
  options: SchemaOptions,
): Promise<void> {
  const { portable, search } = options;
  const run = (text: string) => connection.query({ text, values: [] });
  await run("BEGIN");
  try {
    if (!portable) {
      const lock = `hashtextextended('${names.schema}.${names.tablePrefix}schema', 0)`;
      await run(`SELECT pg_advisory_xact_lock(${lock})`);
    }
    if (!(await isCurrent(connection, names, storage, options))) {
      // Creating a schema needs a permission that a role without one may not have, also if the schema exists.
      const schemas = await run(`SELECT 1 FROM information_schema.schemata WHERE schema_name = '${names.schema}'`);
      if (schemas.rows.length === 0) await run(`CREATE SCHEMA IF NOT EXISTS "${names.schema}"`);
      const missing = await missingTables(connection, names, storage);
      for (const table of missing) await run(createTable(names, table, portable));
      // A new database has no rows to index.
      if (missing.length < tableNames().length) await fill(connection, names, storage, missing);
      if (search) for (const text of searchSchema(names)) await run(text);
      if (!portable) await run(createFunction(names));
      if (!portable && search) await run(searchFunction(names, writeSearchFunction(names), writeFunction(names)));
      const schemaTable = qualified(names, "schema");
      await run(
        `CREATE TABLE IF NOT EXISTS ${schemaTable} ("id" integer PRIMARY KEY CHECK ("id" = 1), "version" integer NOT NULL)`,
      );
      await run(
        `INSERT INTO ${schemaTable} ("id", "version") VALUES (1, ${schemaVersion}) ON CONFLICT ("id") DO UPDATE SET "version" = excluded."version"`,
      );
    }
    await run("COMMIT");
  } catch (error) {
    await run("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

/**
 * The tables of this release that the database lacks. Throws `newer_schema` if a table has another primary key than the
 * declared one.
 */
export async function missingTables(
  connection: PostgresConnection,
  names: Names,
  storage: string,
): Promise<readonly TableName[]> {
  const { rows } = await connection.query({ text: primaryKeys, values: [names.schema] });
  const existing = new Map(rows.map((row) => [textColumn(row, "name"), textColumn(row, "key")]));
  return tableNames().filter((table) => {
    const found = existing.get(`${names.tablePrefix}${table}`);
    if (found === undefined) return true;
    const declared = tables[table].map(({ name }) => name).join(", ");
    if (found === declared) return false;
    throw new RuntimeError("newer_schema", {
      message: `the table ${qualified(names, table)} of the storage "${storage}" has the primary key (${found ?? ""}); this release uses (${declared}). Nothing was changed. Use the release that wrote it or a newer one, or another schema or tablePrefix.`,
      metadata: { storage, table, found, known: declared },
    });
  });
}

/** The tables of a schema, each with the columns of its primary key in order; `NULL`: it has none. */
const primaryKeys = `SELECT c.relname::text AS name, string_agg(a.attname::text, ', ' ORDER BY k.place) AS key
  FROM pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
  LEFT JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary
  LEFT JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place) ON true
  LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.number
  WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') GROUP BY c.relname`;

/** Fills new index tables from the rows of other tables, within the open transaction. */
async function fill(
  connection: PostgresConnection,
  names: Names,
  storage: string,
  created: readonly TableName[],
): Promise<void> {
  const statements = new Statements(names, storage, false);
  const steps = backfill(created);
  for (let step = steps.next(); step.done !== true;) {
    const request = step.value;
    if (request.type === "read") step = steps.next(await statements.read(connection, request.queries));
    else {
      for (const [table, records] of groupsOf({ checks: [], removals: [], puts: request.puts }).puts) {
        const values = [JSON.stringify(records)];
        await connection.query({ text: putSql(names, table, "$1::text::jsonb", nowSql), values });
      }
      step = steps.next([]);
    }
  }
}
