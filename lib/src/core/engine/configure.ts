// Process-wide defaults of options that neither a call nor an engine sets. They are module state, the only mutable one
// of the engine layer besides telemetry listeners.

import type { Configuration } from "./run-options.ts";

const libraryDefaults: Configuration = {
  maxTurns: 8,
  structuredFinalizeNudge: "Now provide your final structured response.",
  toolTimeout: 30_000,
  maxToolResultLength: 100_000,
  redact: null,
};

let current: Configuration = libraryDefaults;

/** Changes defaults of the whole process. Returns the previous defaults, so that a test can restore them. */
export function configure(changes: Partial<Configuration>): Configuration {
  const previous = current;
  current = { ...current, ...changes };
  return previous;
}

/** Returns the current defaults. */
export function configuration(): Configuration {
  return current;
}
