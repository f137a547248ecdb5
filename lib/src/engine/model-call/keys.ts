// Where keys come from: the call, the adapter, the environment, a `.env` file when that is asked for. They are looked up when a call is made, and
// kept nowhere.

import type { Failure } from "../../model/internal.ts";

import { adapterFailure, EngineError, parse } from "../../model/internal.ts";

/** A key, or what gives one when a call is made. */
export type KeySource = string | (() => string | null | Promise<string | null>);

export type KeyRequest = {
  readonly provider: string;
  /** The call's own. */
  readonly call: string | null;
  /** The adapter's. */
  readonly source: KeySource | null;
  /** Names of variables to look in. */
  readonly variables: readonly string[];
  /** Reads a `.env` file, where the adapter was asked to. */
  readonly dotenv: (() => Promise<{ readonly [name: string]: string }>) | null;
};

/** The key for a call; where there is none, an `EngineError` says where it was looked for. */
export async function findKey({ provider, call, source, variables, dotenv }: KeyRequest): Promise<string> {
  // Without the white space around it, as a header would have it: a server that repeats the key repeats it so.
  if (isKey(call)) return call.trim();
  const own = typeof source === "function" ? await source() : source;
  if (isKey(own)) return own.trim();
  const environment = variables.map(variable).find(isKey);
  if (environment !== undefined && environment !== null) return environment.trim();
  const file = dotenv === null ? {} : await dotenv();
  const stored = variables.map((name) => file[name]).find(isKey);
  if (stored !== undefined) return stored.trim();
  const checked = ["apiKey of the call", "apiKey of the adapter", ...variables, ...(dotenv === null ? [] : [".env"])];
  throw new EngineError("missing_key", {
    provider,
    message: `no key for ${provider}; looked in ${checked.join(", ")}`,
    metadata: { checkedSources: checked },
  });
}

function isKey(value: string | null | undefined): value is string {
  return typeof value === "string" && value.trim() !== "";
}

/** A variable of the environment, where there is one to ask. */
function variable(name: string): string | null {
  const program: unknown = Reflect.get(globalThis, "process");
  if (typeof program !== "object" || program === null) return null;
  const environment: unknown = Reflect.get(program, "env");
  if (typeof environment !== "object" || environment === null) return null;
  const value: unknown = Reflect.get(environment, name);
  return typeof value === "string" ? value : null;
}

/** The pairs of a `.env` text: `KEY=VALUE`, `export`, comments, one pair of quotes. */
export function parseDotenv(text: string): { readonly [name: string]: string } {
  const pairs = text.split(/\r?\n/).flatMap((line): [string, string][] => {
    const [, name, value] = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (name === undefined || value === undefined) return [];
    const [, quoted] = /^"(.*)"$/.exec(value) ?? [];
    return [[name, quoted ?? value]];
  });
  return Object.fromEntries(pairs);
}

/** Shorter ones are no secrets, but words such as `none`, which stand in for a key where none is needed. */
const shortestKey = 8;

/** The text without the key, wherever it stands. */
export function withoutKey(text: string, key: string | null): string {
  const secret = key?.trim() ?? "";
  return secret.length < shortestKey ? text : text.replaceAll(secret, "[key]");
}

/** The failure without the key of its call, wherever an adapter, a library or a provider put it. */
export function failureWithoutKey(failure: Failure, key: string | null): Failure {
  const secret = key?.trim() ?? "";
  if (secret.length < shortestKey) return failure;
  let found = false;
  const text = JSON.stringify(failure, (_, value: unknown) => {
    if (typeof value !== "string" || !value.includes(secret)) return value;
    found = true;
    return withoutKey(value, secret);
  });
  if (!found) return failure;
  const clean = parse("failure", JSON.parse(text));
  return clean.ok ? clean.value : adapterFailure("unknown");
}
