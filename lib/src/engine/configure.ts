// Defaults for a whole program, for what no call and no engine says.

export type Configuration = {
  /** Model calls a run may take. */
  readonly maxTurns: number;
  /** What asks for the structured answer after the loop. */
  readonly structuredFinalizeNudge: string;
  /** In milliseconds. */
  readonly toolTimeout: number;
  /** Longest tool result a model gets to see, in characters; what is in the middle is left out. */
  readonly maxToolResultLength: number;
};

const library: Configuration = {
  maxTurns: 8,
  structuredFinalizeNudge: "Now provide your final structured response.",
  toolTimeout: 30_000,
  maxToolResultLength: 100_000,
};

let current: Configuration = library;

/** Changes defaults of the program; returns those that were in force before, so that a test can put them back. */
export function configure(changes: Partial<Configuration>): Configuration {
  const before = current;
  current = { ...current, ...changes };
  return before;
}

export function configuration(): Configuration {
  return current;
}
