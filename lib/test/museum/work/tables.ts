// The statements that create the tables of a Postgres database, and its rows, as text of the same form as the dump of a
// SQLite database (`database/dump.ts`). Functions and triggers are left out: a release creates its own.

import type { Client } from "pg";

/** Dumps all tables, one JSON value on each line. */
export async function dumpPostgres(client: Client, header: object): Promise<string> {
  const tables: { readonly name: string }[] = (
    await client.query(`SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename`)
  ).rows;
  const lines: object[] = [header];
  for (const { name } of tables) lines.push({ sql: await createStatement(client, name) });
  for (const { name } of tables) {
    const { rows } = await client.query({ text: `SELECT * FROM "${name}"`, rowMode: "array" });
    const texts = rows.map((row: readonly unknown[]) => JSON.stringify({ table: name, row }));
    lines.push(...texts.toSorted().map((text): object => JSON.parse(text)));
  }
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

async function createStatement(client: Client, table: string): Promise<string> {
  const columns: { readonly definition: string }[] = (
    await client.query(
      `SELECT format('%I %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
         CASE WHEN a.attcollation <> t.typcollation THEN format(' COLLATE %I', c.collname) ELSE '' END,
         CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END) AS definition
       FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation c ON c.oid = a.attcollation
       WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`,
      [`public.${table}`],
    )
  ).rows;
  const constraints: { readonly definition: string }[] = (
    await client.query(
      `SELECT pg_get_constraintdef(oid) AS definition FROM pg_constraint
       WHERE conrelid = $1::regclass AND contype IN ('p', 'u', 'c') ORDER BY conname`,
      [`public.${table}`],
    )
  ).rows;
  const options: { readonly options: string | null }[] = (
    await client.query(`SELECT array_to_string(reloptions, ', ') AS options FROM pg_class WHERE oid = $1::regclass`, [
      `public.${table}`,
    ])
  ).rows;
  const settings = options[0]?.options ?? null;
  const parts = [...columns, ...constraints].map(({ definition }) => definition);
  return `CREATE TABLE "${table}" (${parts.join(", ")})${settings === null ? "" : ` WITH (${settings})`}`;
}
