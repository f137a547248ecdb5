// Rows of observed batches.

import type { Put, Row } from "../../durable/internal.ts";

/** The name of the session of a row: its id, after the tenant if it has one. */
export function nameOfKey([tenant, session]: Put["key"]): string {
  return tenant === "" ? String(session) : `${String(tenant)}/${String(session)}`;
}

/** The row that a put writes. */
export function rowOf({ key, tag, value }: Put): Row {
  return { key, tag, value, expires: null, remainingMs: null };
}
