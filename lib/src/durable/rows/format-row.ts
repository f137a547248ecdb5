// The row of the format of a database (`format.ts`). In a file of its own for the storages, which write it when they
// complete the tables of an older release.

import type { Put, Query } from "./storage.ts";

/** The format of databases without a row: that of the first release with this rule. */
export const firstFormat = 4;

/** The row of the format. */
export const formatPlace = { table: "shared", key: ["everturn", 0, "format"] } as const;

/** Selects the row of the format. */
export const formatQuery: Query = { table: formatPlace.table, prefix: formatPlace.key, limit: 1 };

/** The row of a database with this format. */
export function formatPut(format: number): Put {
  return { ...formatPlace, tag: format, value: "" };
}
