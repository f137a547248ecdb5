// The quota of a tenant for what its forks copy. Pure: from the stored row to the part of the batch that counts the
// fork.
//
// A fork copies messages, so a small request can store many megabytes. The batch of a fork also counts its characters
// on a row of `slots` (`copied` of the tenant), by compare-and-swap. So the quota holds over all processes that share
// the storage, and over restarts.
//
// The tag of the row is the number of characters in the current window. The window begins with the first fork and lasts
// one hour: the row expires with it, by the clock of the storage.

import type { Changes } from "./batch.ts";
import type { Query, Row } from "./storage.ts";

import { RuntimeError } from "../../core/model/internal.ts";
import { writeValue } from "./stored.ts";

const windowMs = 3_600_000;

/** The error of a fork that would exceed the quota of its tenant. `retryAfterMs`: the time until the window ends. */
function quotaExceeded(perHour: number, retryAfterMs: number): RuntimeError {
  const message = `limit reached: ${perHour} characters copied by forks in one hour; try again later`;
  return new RuntimeError("quota_exceeded", { message, metadata: { retryAfterMs } });
}

const quotaKey = (tenant: string) => [`tenant:${tenant}`, "copied", 0] as const;

/** Reads the row of a tenant. */
export function quotaQuery(tenant: string): Query {
  return { table: "slots", prefix: quotaKey(tenant) };
}

/**
 * Throws `quota_exceeded` if a copy of at least `length` characters exceeds the quota. Checked before the work of the
 * copy begins.
 */
export function checkCopy(row: Row | null, length: number, perHour: number): void {
  const { used, leftMs } = windowOf(row);
  if (used + length > perHour) throw quotaExceeded(perHour, leftMs);
}

/** The characters that were copied in the current window, and the time until it ends. */
function windowOf(row: Row | null): { readonly used: number; readonly leftMs: number } {
  const leftMs = row?.remainingMs ?? 0;
  return row === null || leftMs <= 0 ? { used: 0, leftMs: windowMs } : { used: row.tag, leftMs };
}

/**
 * Counts a copy of `length` characters. `row`: what `quotaQuery` has read; `null`: nothing. Throws `quota_exceeded`.
 */
export function countCopy(tenant: string, row: Row | null, length: number, perHour: number): Changes {
  checkCopy(row, length, perHour);
  const { used, leftMs } = windowOf(row);
  const key = quotaKey(tenant);
  const check = row === null ? { tag: null } : { tag: row.tag, expires: row.expires };
  const value = writeValue("slots", { tenant, session: "", turn: "" });
  return {
    checks: [{ table: "slots", key, ...check }],
    removals: [],
    puts: [{ table: "slots", key, tag: used + length, ttlMs: leftMs, value }],
  };
}
