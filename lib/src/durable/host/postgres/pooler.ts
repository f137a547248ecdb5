// Recognises a transaction pooler between this process and the server: PgBouncer with `pool_mode = transaction`, and
// what behaves like it.
//
// Behind one, the statements of a connection run in sessions of the server that other clients use, too. What belongs to
// a session, such as `LISTEN` and the lock that shows that a process lives (`process-connection.ts`), then belongs to
// no process: a living process looks as if it had ended.
//
// How it is recognised
//   A session has a process of the server, and so a process id. Proof is that the id of one connection changes between
//   two transactions, or that two connections have the same one. A pooler may also give a connection the same session
//   by luck, so each round makes luck improbable for the orders in which poolers use free sessions:
//     the one that was used last    the other connection begins a transaction right after a statement of the first one,
//                                   and gets its session
//     the one that was used first   two statements of the first connection in succession get two sessions
//   Other clients of the pooler take sessions in between; then the ids change by themselves. Later statements over the
//   kept connection are compared with the first one, too, so that a pooler which was not recognised at the beginning is
//   recognised while the process runs.

import type { PostgresConnection } from "./client.ts";

import { RuntimeError } from "../../../core/model/internal.ts";
import { textColumn } from "./schema.ts";

/** The process id of the session, as a column `session` of a statement. */
export const sessionSql = "pg_backend_pid()::text AS session";

/** How often it is tried. */
const rounds = 3;

/**
 * Returns the session of a connection; `null`: a transaction pooler is in between. `other` is another connection of the
 * same pool.
 */
export async function sessionOf(connection: PostgresConnection, other: PostgresConnection): Promise<string | null> {
  const first = await currentSession(connection);
  for (let round = 0; round < rounds; round += 1) {
    if ((await currentSession(connection)) !== first) return null;
    await other.query({ text: "BEGIN", values: [] });
    try {
      // Compared before the next statement of the first connection: if the pooler has one session only, that statement
      // would wait for this transaction.
      if ((await currentSession(other)) === first) return null;
      if ((await currentSession(connection)) !== first) return null;
    } finally {
      await other.query({ text: "ROLLBACK", values: [] });
    }
  }
  return first;
}

async function currentSession(connection: PostgresConnection): Promise<string | null> {
  const { rows } = await connection.query({ text: `SELECT ${sessionSql}`, values: [] });
  return textColumn(rows[0], "session");
}

/** The error of a storage behind a transaction pooler that its options do not declare. */
export function undeclaredPooler(storage: string): RuntimeError {
  const message = `the storage "${storage}" is behind a connection pooler in transaction mode: statements of one connection ran in different sessions of the server. Living processes would look as if they had ended, and their tools would run twice or be answered as unknown. Set transactionPooler: true (an option of postgresStorage), connect to the server directly, or use the pooler in session mode.`;
  return new RuntimeError("storage_failed", { message, metadata: { storage } });
}
