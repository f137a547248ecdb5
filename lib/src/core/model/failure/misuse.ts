// Misuse: programming errors of the caller. They throw before any effect is performed and are never stored. Failures
// for reasons outside the program are data (failure.ts).

import type { Path } from "./issue.ts";

/** The kind of programming error that a {@link MisuseError} reports. */
export type MisuseReason = (typeof misuseReasons)[number];

export const misuseReasons = [
  "invalid_argument",
  "missing_field",
  "unknown_field",
  "unknown_reason",
  "invalid_status",
  "not_serializable",
] as const;

/**
 * A programming error in the call itself: an unknown option, a missing field, a function where only data can be
 * stored. It is thrown before any effect is performed. Failures for reasons outside the program are never of this
 * class: they are a `Failure`.
 */
export class MisuseError extends Error {
  override readonly name: string = "MisuseError";
  readonly reason: MisuseReason;
  /** The position in the argument; empty if the argument itself is invalid. */
  readonly path: Path;

  constructor(reason: MisuseReason, message: string, options: { readonly path?: Path; readonly cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.reason = reason;
    this.path = options.path ?? [];
  }
}

/** The error for an argument that cannot be used. `path`: its position; empty for the argument itself. */
export function invalidArgument(message: string, path: Path = []): MisuseError {
  return new MisuseError("invalid_argument", message, { path });
}
