// Readers that convert the raw value of a setting to its type, or throw a `SettingsError`. Flags and environment
// variables are text; values of a configuration file are JSON or, from a module, anything.
//
// An error message shows the invalid value, except where the value may be a secret (tokens, base URLs with a password).

import type { Tool, WhenBusy } from "everturn";

import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { resolve } from "node:path";

/**
 * Invalid settings. The message is complete and is shown without a stack trace; it contains no token and no API key.
 */
export class SettingsError extends Error {
  override readonly name: string = "SettingsError";
}

/**
 * A bearer token of the server, and the tenant whose sessions it gives access to. The empty tenant is the shared one.
 */
export type ServerToken = { readonly tenant: string; readonly token: string };

/** The name of a value's source, for errors, and the folder that its relative paths are resolved against. */
export type Origin = { readonly name: string; readonly folder: string };

export function text(value: unknown, { name }: Origin): string {
  if (typeof value === "string" && value.trim() !== "") return value.trim();
  throw new SettingsError(`${name} has to be text, not ${preview(value)}`);
}

export function texts(value: unknown, origin: Origin): readonly string[] {
  return textList(value, origin).map((item) => text(item, origin));
}

/** A path, made absolute. `:memory:` is kept. */
export function file(value: unknown, origin: Origin): string {
  const path = text(value, origin);
  return path === ":memory:" ? path : resolve(origin.folder, path);
}

/**
 * The database: a path, made absolute, or the URL of a Postgres database, which is kept. Another URL is refused,
 * without its user and password.
 */
export function database(value: unknown, origin: Origin): string {
  const target = text(value, origin);
  if (isPostgresUrl(target)) return target;
  const scheme = /^(?<name>[a-z][a-z0-9+.-]+):\//i.exec(target)?.groups?.["name"];
  if (scheme === undefined) return file(target, origin);
  throw new SettingsError(
    `${origin.name} has to be the path of a SQLite file or a URL that begins with postgres://, not ${scheme}:…`,
  );
}

/** Returns whether a setting names a Postgres database. */
export function isPostgresUrl(target: string): boolean {
  return /^postgres(ql)?:\/\//i.test(target);
}

/** A database as messages show it: a URL without user, password and parameters. */
export function databaseName(target: string): string {
  if (!isPostgresUrl(target)) return target;
  if (!URL.canParse(target)) return "postgres://…";
  const { host, pathname, search, hash } = new URL(target);
  // A password with an unescaped special character ends the host; the rest of it would be in the path.
  const isPlain = /^(\/[^/@]*)?$/.test(pathname) && hash === "" && (pathname.length > 1 || !search.includes("@"));
  return isPlain ? `postgres://${host}${pathname}` : "postgres://…";
}

/**
 * Tools, and paths of modules that export tools, made absolute. A configuration module may contain tools; the other
 * sources have paths only.
 */
export function toolModules(value: unknown, origin: Origin): readonly (string | Tool)[] {
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  return items.map((item) => {
    if (isTool(item)) return item;
    if (typeof item === "string") return resolve(origin.folder, text(item, origin));
    throw new SettingsError(`${origin.name} has to be a path, a tool, or a list of them, not ${preview(value)}`);
  });
}

/**
 * Returns whether a value was built by `tool()`. Checked by its fields, because the module may import another copy of
 * the library.
 */
export function isTool(value: unknown): value is Tool {
  return (
    typeof value === "object" &&
    value !== null &&
    "name" in value &&
    typeof value.name === "string" &&
    "schema" in value &&
    "hasHandler" in value &&
    "prepare" in value &&
    typeof value.prepare === "function"
  );
}

/** Text, or `@FILE` for the text of a file. */
export function instructions(value: unknown, origin: Origin): string {
  const textOrFile = text(value, origin);
  if (!textOrFile.startsWith("@")) return textOrFile;
  const path = resolve(origin.folder, textOrFile.slice(1));
  try {
    return readFileSync(path, "utf8").trim();
  } catch (cause) {
    throw new SettingsError(`${origin.name}: cannot read the instructions in ${path}`, { cause });
  }
}

export function count(value: unknown, { name }: Origin): number {
  return integerBetween(value, 1, 1_000_000, `${name} has to be a whole number of 1 or more`);
}

export function port(value: unknown, { name }: Origin): number {
  return integerBetween(value, 0, 65_535, `${name} has to be a port, from 0 (any free port) to 65535`);
}

/** A switch: `on` or `off`; in a configuration file also `true` or `false`. */
export function onOff(value: unknown, { name }: Origin): boolean {
  const text = typeof value === "string" ? value.trim().toLowerCase() : value;
  if (text === true || text === "on") return true;
  if (text === false || text === "off") return false;
  throw new SettingsError(`${name} has to be on or off, not ${preview(value)}`);
}

const busyPolicies: readonly WhenBusy[] = ["steer", "queue", "interrupt", "reject"];

/** The busy policy: what happens to a message that arrives while a turn is open. */
export function busyPolicy(value: unknown, { name }: Origin): WhenBusy {
  const found = busyPolicies.find((policy) => policy === value);
  if (found !== undefined) return found;
  throw new SettingsError(`${name} has to be one of ${busyPolicies.join(", ")}, not ${preview(value)}`);
}

/** Who drives turns. */
export function driver(value: unknown, { name }: Origin): "here" | "restate" {
  if (value === "here" || value === "restate") return value;
  throw new SettingsError(`${name} has to be here or restate, not ${preview(value)}`);
}

/** A URL of HTTP, without a trailing slash. The value is not shown: it may contain a password. */
export function url(value: unknown, { name }: Origin): string {
  if (typeof value === "string" && /^https?:\/\//.test(value) && URL.canParse(value)) return value.replace(/\/+$/, "");
  throw new SettingsError(`${name} has to be a URL that begins with http:// or https://`);
}

/** Where a process listens. */
export type ListenAddress = { readonly host: string; readonly port: number };

/** `HOST:PORT`, or `PORT` on the loopback address. */
export function listenAddress(value: unknown, origin: Origin): ListenAddress {
  const given = typeof value === "number" ? String(value) : text(value, origin);
  const [, host = "127.0.0.1", digits = ""] = /^(?:(.+):)?(\d+)$/.exec(given) ?? [];
  return { host: host.replace(/^\[(.*)\]$/, "$1"), port: port(digits === "" ? given : digits, origin) };
}

/** Addresses and networks (`10.0.0.0/8`), or `loopback`. */
export function networks(value: unknown, origin: Origin): readonly string[] {
  return texts(value, origin).map((item) => {
    const [address = "", prefix, ...others] = item.split("/");
    const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
    const isNetwork = prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= bits);
    if (item === "loopback" || (bits > 0 && isNetwork && others.length === 0)) return item;
    throw new SettingsError(
      `${origin.name} has to be an address, a network such as 10.0.0.0/8, or loopback, not ${preview(item)}`,
    );
  });
}

/** The delay between two words of the offline model, in milliseconds. */
export function pace(value: unknown, { name }: Origin): number {
  return integerBetween(value, 0, 60_000, `${name} has to be a number of milliseconds from 0 to 60000`);
}

function integerBetween(value: unknown, least: number, most: number, rule: string): number {
  const number = typeof value === "string" && /^\d+$/.test(value.trim()) ? Number(value) : value;
  if (typeof number === "number" && Number.isSafeInteger(number) && number >= least && number <= most) return number;
  throw new SettingsError(`${rule}, not ${preview(value)}`);
}

/** Base URLs by provider. */
export function addresses(value: unknown, { name }: Origin): { readonly [provider: string]: string } {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    // The value is not shown: a URL may contain a password.
    throw new SettingsError(`${name} has to be an object of base URLs by provider: { "ollama": "http://…" }`);
  }
  return Object.fromEntries(
    Object.entries(value).map(([provider, url]: [string, unknown]) => {
      if (typeof url === "string" && /^https?:\/\//.test(url)) return [provider, url];
      throw new SettingsError(`${name}.${provider} has to be a URL that begins with http:// or https://`);
    }),
  );
}

/** `TOKEN` or `TENANT:TOKEN`; `off`: requests need no token. Errors do not show the token. */
export function tokens(value: unknown, origin: Origin): readonly ServerToken[] | "off" {
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (items.length === 1 && items[0] === "off") return "off";
  return items.map((item): ServerToken => {
    const [, tenant = "", token = ""] =
      typeof item === "string" ? (/^(?:([^:]*):)?(.+)$/s.exec(item.trim()) ?? []) : [];
    if (token.length < shortestToken || /\s/.test(token)) {
      throw new SettingsError(
        `${origin.name}: a token has to have ${shortestToken} characters or more and no spaces; with a tenant: TENANT:TOKEN`,
      );
    }
    return { tenant, token };
  });
}

/** The smallest number of characters. Shorter tokens can be guessed by trying. */
const shortestToken = 16;

function textList(value: unknown, { name }: Origin): readonly unknown[] {
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (items.every((item) => typeof item === "string")) return items;
  throw new SettingsError(`${name} has to be text or a list of texts, not ${preview(value)}`);
}

/** A value for an error message, as JSON of at most 60 characters. */
export function preview(value: unknown): string {
  if (typeof value === "function" || typeof value === "symbol") return `a ${typeof value}`;
  const json = jsonOf(value);
  return json.length > 60 ? `${json.slice(0, 60)}…` : json;
}

/**
 * A value as JSON. A configuration module may export values that JSON cannot represent: `undefined`, cycles, bigints.
 */
function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "nothing";
  } catch {
    return Array.isArray(value) ? "a list" : typeof value === "object" ? "an object" : `a ${typeof value}`;
  }
}

/** The message of a thrown value. A module of the user can throw anything, also an object whose `toString` throws. */
export function thrownText(thrown: unknown): string {
  try {
    return thrown instanceof Error ? thrown.message : String(thrown);
  } catch {
    return "a value that cannot be converted to text was thrown";
  }
}

/** Whether a value is an object that is not a list. */
export function isMap(value: unknown): value is { readonly [name: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
