// Defaults of the program, for options that neither a call nor an engine sets.

import type { Configuration } from "./run-options.ts";

const library: Configuration = {
  maxTurns: 8,
  structuredFinalizeNudge: "Now provide your final structured response.",
  toolTimeout: 30_000,
  maxToolResultLength: 100_000,
};

let current: Configuration = library;

/** Changes defaults of the whole process. Returns the previous defaults, so that a test can restore them. */
export function configure(changes: Partial<Configuration>): Configuration {
  const before = current;
  current = { ...current, ...changes };
  return before;
}

export function configuration(): Configuration {
  return current;
}
