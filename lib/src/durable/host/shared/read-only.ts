// Errors of storages that were opened with `readOnly`: the same in every storage.

import type { TableName } from "../../rows/internal.ts";

import { RuntimeError } from "../../../core/model/internal.ts";
import { tableNames } from "../../rows/internal.ts";

/** Throws `storage_failed` if tables of this release are missing: a read-only storage cannot create them. */
export function checkTables(missing: readonly TableName[], storage: string): void {
  if (missing.length === 0) return;
  const lacks =
    missing.length === tableNames().length ? "has no tables" : `lacks tables of this release: ${missing.join(", ")}`;
  throw new RuntimeError("storage_failed", {
    message: `the storage "${storage}" ${lacks}. It was opened with readOnly, so nothing was created; open it without readOnly, or run "everturn migrate", first.`,
    metadata: { storage, missing: [...missing] },
  });
}

/** The error of a write. */
export function readOnlyError(storage: string): RuntimeError {
  return new RuntimeError("storage_failed", {
    message: `the storage "${storage}" was opened with readOnly: nothing can be written`,
    metadata: { storage },
  });
}
