// Messages between the pool and a worker. A worker runs one cell at a time, so that messages need no ids.

import type { CellLimits, CellResult } from "../../core/engine/internal.ts";
import type { CellCall } from "../../core/model/internal.ts";

/** A run of a cell, as sent to a worker. It holds only what the sandbox reads. */
export type CellRequest = {
  readonly code: string;
  readonly calls: readonly CellCall[];
  /** The names of the tools. */
  readonly tools: readonly string[];
  readonly limits: CellLimits;
};

/** A message from a worker. */
export type CellReply =
  /** The interpreter is loaded. Sent once, before any other message. */
  | { readonly type: "ready" }
  /** The interpreter cannot be loaded, for example because its packages are not installed. */
  | { readonly type: "not_loaded"; readonly message: string }
  /** The end of the run that was sent last. */
  | { readonly type: "result"; readonly result: CellResult }
  /** The worker has had nothing to do for a while. */
  | { readonly type: "idle" };
