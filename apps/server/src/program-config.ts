// Reads what a configuration module defines besides settings: engines, a storage, authentication, and options of the
// runtime and of the HTTP handler. These values are objects and functions of the user's program, so a flag or a
// variable cannot set them.
//
// Values are checked by their fields, not with `instanceof`: the module may import another copy of the library than the
// command.

import type { GivenConfig } from "./config-file.ts";
import type { Engine } from "everturn";
import type { ConfigHttp, ConfigRuntime, ConfigStorage } from "everturn/config";
import type { Auth } from "everturn/http";
import type { McpServerEntry } from "everturn/mcp";
import type { HostStorage } from "everturn/runtime";

import { isMap, preview, SettingsError } from "./setting-readers.ts";

/** What a configuration module defines besides settings. */
export type ProgramConfig = {
  /** Engines by name; `null`: the command builds one from the settings. */
  readonly engines: { readonly [name: string]: Engine } | null;
  readonly storage: ConfigStorage | null;
  readonly auth: Auth | null;
  /** MCP servers by name. Each entry is checked when the server is connected. */
  readonly mcpServers: { readonly [name: string]: McpServerEntry };
  readonly runtime: ConfigRuntime;
  readonly http: ConfigHttp;
};

/** The fields of a configuration file that are not settings. */
export const programFieldNames: readonly (keyof ProgramConfig)[] = [
  "engines",
  "storage",
  "auth",
  "mcpServers",
  "runtime",
  "http",
];

/** The options of the runtime that a configuration file may set. */
const runtimeNames: { readonly [Name in keyof ConfigRuntime]-?: true } = {
  owner: true,
  lease: true,
  maxTakeovers: true,
  maxActiveTurns: true,
  limits: true,
  retentionMs: true,
  sessionRetentionMs: true,
  live: true,
};

/** The options of the HTTP handler that a configuration file may set. */
const httpNames: { readonly [Name in keyof ConfigHttp]-?: true } = {
  allow: true,
  contentHosts: true,
  decide: true,
  inspect: true,
  limits: true,
  openai: true,
  owns: true,
  providerFiles: true,
  records: true,
};

/** Reads the fields. Throws `SettingsError` that names the field and what was expected. */
export function readProgram(config: GivenConfig | null): ProgramConfig {
  if (config === null) return { engines: null, storage: null, auth: null, mcpServers: {}, runtime: {}, http: {} };
  const { path, fields } = config;
  for (const [program, setting] of [
    ["storage", "database"],
    ["auth", "tokens"],
  ] as const) {
    if (fields[program] !== undefined && fields[setting] !== undefined) {
      throw new SettingsError(`${path}: ${program} and ${setting} exclude each other; remove one of them`);
    }
  }
  const { engines, storage, auth, mcpServers, runtime, http } = fields;
  return {
    engines: engines === undefined ? null : readEngines(engines, `${path}: engines`),
    storage: storage === undefined ? null : readStorage(storage, `${path}: storage`),
    auth: auth === undefined ? null : readAuth(auth, `${path}: auth`),
    mcpServers: readMcpServers(mcpServers, `${path}: mcpServers`),
    runtime: readOptions<ConfigRuntime>(runtime, runtimeNames, `${path}: runtime`) ?? {},
    http: readOptions<ConfigHttp>(http, httpNames, `${path}: http`) ?? {},
  };
}

function readEngines(value: unknown, name: string): { readonly [name: string]: Engine } {
  if (!isMap(value)) throw new SettingsError(`${name} has to be an object of engines by name, not ${preview(value)}`);
  const engines: { [name: string]: Engine } = {};
  for (const [key, item] of Object.entries(value)) {
    if (!isEngine(item))
      throw new SettingsError(`${name}.${key} has to be an engine: pass its fields to engine({ … })`);
    engines[key] = item;
  }
  if (!Object.hasOwn(engines, "default")) {
    const names = Object.keys(engines).join(", ");
    throw new SettingsError(
      `${name} has to have an engine named default, for turns that name no engine${names === "" ? "" : `; it has ${names}`}`,
    );
  }
  return engines;
}

function readStorage(value: unknown, name: string): ConfigStorage {
  if (isStorage(value) || isFactory(value)) return value;
  throw new SettingsError(
    `${name} has to be a storage, for example sqliteStorage({ path }), or a function that returns one`,
  );
}

/** The names of servers become part of tool names. */
function readMcpServers(value: unknown, name: string): ProgramConfig["mcpServers"] {
  if (value === undefined) return {};
  if (!isMap(value)) throw new SettingsError(`${name} has to be an object of servers by name, not ${preview(value)}`);
  const servers: { [name: string]: McpServerEntry } = {};
  for (const [key, entry] of Object.entries(value)) {
    if (!isEntry(entry)) throw new SettingsError(`${name}.${key} has to be an object with command or url`);
    servers[key] = entry;
  }
  return servers;
}

/** An entry as far as its fields show; `connectMcpServers` checks them. */
function isEntry(value: unknown): value is McpServerEntry {
  return isMap(value) && (typeof value["command"] === "string" || typeof value["url"] === "string");
}

/** Returns whether a value implements the storage contract, as far as its fields show. */
export function isStorage(value: unknown): value is HostStorage {
  return isMap(value) && typeof value["read"] === "function" && typeof value["write"] === "function";
}

function isFactory(value: unknown): value is Exclude<ConfigStorage, HostStorage> {
  return typeof value === "function";
}

/** The tokens themselves are checked when the server starts. Errors do not show them. */
function readAuth(value: unknown, name: string): Auth {
  if (value === "none" || isAuthFunction(value) || isKeys(value)) return value;
  throw new SettingsError(
    `${name} has to be a list of { token, tenant?, name? }, a function of the request, or "none"`,
  );
}

function isAuthFunction(value: unknown): value is Extract<Auth, (request: Request) => unknown> {
  return typeof value === "function";
}

function isKeys(value: unknown): value is Extract<Auth, readonly unknown[]> {
  return Array.isArray(value) && value.every((item) => isMap(item) && typeof item["token"] === "string");
}

/**
 * Reads an object of options. Only their names are checked here; the function that takes the options checks their
 * values.
 */
function readOptions<T extends object>(
  value: unknown,
  names: { readonly [Name in keyof T]-?: true },
  name: string,
): T | null {
  if (value === undefined) return null;
  if (!isMap(value)) throw new SettingsError(`${name} has to be an object, not ${preview(value)}`);
  const unknownName = Object.keys(value).find((key) => !Object.hasOwn(names, key));
  if (hasNames<T>(value, names)) return value;
  throw new SettingsError(
    `${name} has no option ${String(unknownName)}; the options are ${Object.keys(names).join(", ")}`,
  );
}

function hasNames<T extends object>(value: object, names: { readonly [Name in keyof T]-?: true }): value is T {
  return Object.keys(value).every((key) => Object.hasOwn(names, key));
}

/** Returns whether a value was built by `engine()`. */
function isEngine(value: unknown): value is Engine {
  return (
    isMap(value) && ["adapter", "model", "options", "protocol", "clock"].every((name) => Object.hasOwn(value, name))
  );
}
