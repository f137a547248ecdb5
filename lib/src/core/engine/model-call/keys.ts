// API keys: lookup for each call. What a call reports is redacted (redaction.ts).
//
// Precedence: the call, the adapter, environment variables, a `.env` file (only if the adapter has `dotenv`).
//
// Invariants
//   1. A key is looked up when a call is made and is not stored in an engine, a session or a module variable. Rotated
//      keys take effect at once.
//   2. The error for a missing key lists the places that were searched, and no value.
//   3. A function that throws is no missing key: the error names the option and keeps the cause, and the next source is
//      not searched.

import { EngineError, EverturnError } from "../../model/internal.ts";
import { environmentVariable } from "./environment-variable.ts";

/**
 * A key, or a function that returns the key of each call, for example from a secret store. `null`: the next source is
 * searched.
 */
export type KeySource = string | (() => string | null | Promise<string | null>);

export type KeyRequest = {
  readonly provider: string;
  /** The `apiKey` option of the call. */
  readonly call: string | null;
  /** The `apiKey` option of the adapter. */
  readonly source: KeySource | null;
  /** The option of the adapter that `source` is, for the error. Default: `apiKey`. */
  readonly sourceName?: string;
  /** Names of environment variables, searched in order. */
  readonly variables: readonly string[];
  /** Reads a `.env` file; `null`: the adapter has no `dotenv` option. */
  readonly dotenv: (() => Promise<{ readonly [name: string]: string }>) | null;
};

/**
 * Returns the key for a call. Throws `EngineError` (`missing_key`) with the list of searched places if there is none.
 */
export async function findKey({
  provider,
  call,
  source,
  sourceName = "apiKey",
  variables,
  dotenv,
}: KeyRequest): Promise<string> {
  // Trimmed, because `fetch` trims header values: a server that echoes the key echoes the trimmed one, and redaction
  // must match it.
  if (isKey(call)) return call.trim();
  const adapterKey = await readKey(source, provider, sourceName);
  if (isKey(adapterKey)) return adapterKey.trim();
  const environmentKey = variables.map(environmentVariable).find(isKey);
  if (environmentKey !== undefined && environmentKey !== null) return environmentKey.trim();
  const file = dotenv === null ? {} : await dotenv();
  const fileKey = variables.map((name) => file[name]).find(isKey);
  if (fileKey !== undefined) return fileKey.trim();
  const checked = [
    "apiKey of the call",
    `${sourceName} of the adapter`,
    ...variables,
    ...(dotenv === null ? [] : [".env"]),
  ];
  throw new EngineError("missing_key", {
    provider,
    message: `no API key for ${provider}; searched: ${checked.join(", ")}`,
    metadata: { checkedSources: checked },
  });
}

/**
 * The value of a source. Throws `EngineError` (`missing_key`) with the name of the option if the function throws; an
 * error of Everturn is thrown as it is.
 */
export async function readKey(source: KeySource | null, provider: string, option: string): Promise<string | null> {
  if (typeof source !== "function") return source;
  try {
    return await source();
  } catch (cause) {
    if (cause instanceof EverturnError) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    const message = `the function ${option} of the ${provider} adapter failed: ${why}`;
    throw new EngineError("missing_key", { provider, message, cause });
  }
}

function isKey(value: string | null | undefined): value is string {
  return typeof value === "string" && value.trim() !== "";
}

/**
 * Parses the text of a `.env` file: lines of `KEY=VALUE`, optionally with `export` and with double quotes around the
 * value. All other lines, comments included, are ignored. There are no escapes, no multi-line values and no `$VARIABLE`
 * expansion.
 */
export function parseDotenv(text: string): { readonly [name: string]: string } {
  const pairs = text.split(/\r?\n/).flatMap((line): [string, string][] => {
    const [, name, value] = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (name === undefined || value === undefined) return [];
    const [, quoted] = /^"(.*)"$/.exec(value) ?? [];
    return [[name, quoted ?? value]];
  });
  return Object.fromEntries(pairs);
}
