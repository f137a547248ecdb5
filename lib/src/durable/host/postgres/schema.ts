// The tables in Postgres and the function that writes batches. `migration.ts` creates them.
//
// The writing function
//   1. Locks: the sessions and single rows of the batch, as advisory locks of the transaction, in ascending order of
//      their numbers, so that two batches cannot wait for each other. Those that are only checked are shared. A removal
//      that spans sessions locks everything; every other batch shares that lock.
//   2. Checks. Each statement of a function takes a new snapshot (READ COMMITTED), so the checks see what was committed
//      before the locks were granted. A single statement would see the state before it waited.
//   3. Removals, then puts.
//   The time of expiry is read after the locks were granted.

import type { Column, TableName } from "../../rows/internal.ts";
import type { PostgresConnection } from "./client.ts";
import type { Names } from "./statements.ts";

import { createHash } from "node:crypto";

import { RuntimeError } from "../../../core/model/internal.ts";
import { tableNames, tables } from "../../rows/internal.ts";
import { checkSql, nowSql, putSql, qualified, removeSql } from "./statements.ts";

/**
 * The version that is stored with the tables. It does not describe them and is not raised with them: what a database
 * lacks follows from its catalog (`migration.ts`). Releases that compare the number accept 1 to 5 and complete the
 * tables unless it is 5, so this is what they find (docs/decisions/0054).
 */
export const schemaVersion = 5;

/**
 * Rows of these tables are replaced with every commit of a turn. Free space in their pages lets Postgres reuse it
 * without touching the index.
 */
const rewritten: readonly TableName[] = ["sessions", "leases", "open", "turns", "inboxes", "rollups"];

/** Returns the version of the tables; 0: there are none. Throws `newer_schema` if a newer release wrote them. */
export async function versionOf(connection: PostgresConnection, names: Names, storage: string): Promise<number> {
  const existing = await connection.query({
    text: "SELECT 1 FROM information_schema.tables WHERE table_schema = $1 AND table_name = $2",
    values: [names.schema, `${names.tablePrefix}schema`],
  });
  if (existing.rows.length === 0) return 0;
  const { rows } = await connection.query({
    text: `SELECT "version"::text AS version FROM ${qualified(names, "schema")}`,
    values: [],
  });
  const version = Number(textColumn(rows[0], "version"));
  if (!Number.isSafeInteger(version) || version < 1) {
    throw new RuntimeError("corrupt_row", {
      message: `the version of the tables of the storage "${storage}" is unknown: the row of ${qualified(names, "schema")} cannot be read. Restore a backup, or use another schema or tablePrefix.`,
      metadata: { storage },
    });
  }
  if (version > schemaVersion) {
    throw new RuntimeError("newer_schema", {
      message: `the tables ${qualified(names, "…")} of the storage "${storage}" have version ${version}; this release supports versions up to ${schemaVersion}. Nothing was changed. Use the release that wrote them or a newer one, or another schema or tablePrefix.`,
      metadata: { storage, found: version, known: schemaVersion },
    });
  }
  return version;
}

/** A column of a result row as text; `null`: it is absent or `NULL`. */
export function textColumn(row: unknown, column: string): string | null {
  if (typeof row !== "object" || row === null) return null;
  const value: unknown = Reflect.get(row, column);
  return typeof value === "string" ? value : value === null || value === undefined ? null : String(value);
}

/** Text sorts by code point: the order of bytes in UTF-8, which is the collation "C". */
export function createTable(names: Names, table: TableName, portable: boolean): string {
  const columns: readonly Column[] = tables[table];
  const definitions = columns.map(({ name, type }) =>
    type === "text" ? `"${name}" text COLLATE "C" NOT NULL` : `"${name}" bigint NOT NULL`,
  );
  const primary = columns.map(({ name }) => `"${name}"`).join(", ");
  const settings = portable ? "" : ` WITH (${storageParameters(table)})`;
  return `CREATE TABLE IF NOT EXISTS ${qualified(names, table)} (${definitions.join(", ")}, "tag" bigint NOT NULL, "expires" bigint, "value" text NOT NULL, PRIMARY KEY (${primary}))${settings}`;
}

/**
 * Rows of most tables are short-lived. The default of 20 % dead rows before a vacuum is too late for the indexes of due
 * work.
 */
function storageParameters(table: TableName): string {
  const vacuum = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02";
  return rewritten.includes(table) ? `fillfactor = 70, ${vacuum}` : vacuum;
}

/** The digest of the writing function, which follows from the tables; `null`: it is not computed yet. */
let digest: string | null = null;

/**
 * The name of the writing function of this release, without the prefix. It contains a digest of the function, so that a
 * release with other tables creates a function of its own, and processes of an older release, which run meanwhile, call
 * theirs.
 */
export function writeName(): string {
  digest ??= createHash("sha256")
    .update(functionBody({ schema: "", tablePrefix: "" }))
    .digest("hex")
    .slice(0, 12);
  return `write_${digest}`;
}

/** The name of the function that also writes words, without the prefix. */
export function writeSearchName(): string {
  return writeName().replace("write_", "write_search_");
}

/** The qualified name of the writing function. */
export function writeFunction(names: Names): string {
  return qualified(names, writeName());
}

/** The qualified name of the function that writes a batch and the words of its messages. */
export function writeSearchFunction(names: Names): string {
  return qualified(names, writeSearchName());
}

/**
 * The function takes a batch as `batch.ts` encodes it. It returns the index of the first check that failed; -1: the
 * batch was written.
 */
export function createFunction(names: Names): string {
  return `CREATE OR REPLACE FUNCTION ${writeFunction(names)}${functionBody(names)}`;
}

function functionBody(names: Names): string {
  const { schema, tablePrefix } = names;
  const everything = `hashtextextended('${schema}.${tablePrefix} everything', 0)`;
  const checks = tableNames().map(
    (table) => `IF checks ? '${table}' THEN
        ${checkSql(names, table, `checks->'${table}'`, "moment").replace("AS failed", "INTO found")};
        failed := least(failed, found);
      END IF;`,
  );
  const removals = tableNames().flatMap((table) =>
    Array.from({ length: tables[table].length + 1 }, (_, length) => {
      const group = `${table} ${length}`;
      return `IF removals ? '${group}' THEN ${removeSql(names, table, length, `removals->'${group}'`)}; END IF;`;
    }),
  );
  const puts = tableNames().map(
    (table) => `IF puts ? '${table}' THEN ${putSql(names, table, `puts->'${table}'`, "moment")}; END IF;`,
  );
  return `(batch jsonb) RETURNS integer LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $body$
    DECLARE
      lock_number bigint;
      lock_is_shared boolean;
      moment bigint;
      found integer;
      failed integer;
      checks jsonb := batch->'checks';
      removals jsonb := batch->'removals';
      puts jsonb := batch->'puts';
    BEGIN
      IF batch ? 'relaxed' THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
      IF batch ? 'everything' THEN PERFORM pg_advisory_xact_lock(${everything});
      ELSE PERFORM pg_advisory_xact_lock_shared(${everything});
      END IF;
      FOR lock_number, lock_is_shared IN
        SELECT hashtextextended('${schema}.${tablePrefix}' || name, 0) AS number, bool_and(is_shared)
        FROM (
          SELECT jsonb_array_elements_text(batch->'locks') AS name, false AS is_shared
          UNION ALL SELECT jsonb_array_elements_text(batch->'shared'), true
        ) AS names GROUP BY number ORDER BY number
      LOOP
        IF lock_is_shared THEN PERFORM pg_advisory_xact_lock_shared(lock_number);
        ELSE PERFORM pg_advisory_xact_lock(lock_number);
        END IF;
      END LOOP;
      moment := ${nowSql};
      IF checks IS NOT NULL THEN
      ${checks.join("\n      ")}
      END IF;
      IF failed IS NOT NULL THEN RETURN failed; END IF;
      IF removals IS NOT NULL THEN
      ${removals.join("\n      ")}
      END IF;
      IF puts IS NOT NULL THEN
      ${puts.join("\n      ")}
      END IF;
      RETURN -1;
    END
    $body$`;
}
