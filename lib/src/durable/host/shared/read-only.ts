// Errors of storages that were opened with `readOnly`: the same in every host.

import type { TableName } from "../../rows/internal.ts";

import { RuntimeError } from "../../../core/model/internal.ts";

/** Throws `storage_failed` unless the tables have the version of this release: a read-only storage cannot migrate them. */
export function checkVersion(found: number, known: number, storage: string): void {
  if (found === known) return;
  const what =
    found === 0
      ? `the storage "${storage}" has no tables`
      : `the tables of the storage "${storage}" have version ${found}, and this release uses version ${known}`;
  throw new RuntimeError("storage_failed", {
    message: `${what}. It was opened with readOnly, so nothing was created or migrated; open it without readOnly, or run "everturn migrate", first.`,
    metadata: { storage, found, known },
  });
}

/** Throws `storage_failed` if tables of this release are missing. */
export function checkTables(missing: readonly TableName[], storage: string): void {
  if (missing.length === 0) return;
  throw new RuntimeError("storage_failed", {
    message: `the storage "${storage}" lacks tables of this release: ${missing.join(", ")}. It was opened with readOnly, so nothing was created; open it without readOnly, or run "everturn migrate", first.`,
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
