// The settings of the command and the server, and the source of each value: a flag, an environment variable, the
// configuration file or a default.
//
// Rules
//   1. Precedence: flag, environment, configuration file, default. The first source that has a setting provides its
//      whole value; lists are not merged.
//   2. An invalid value throws a `SettingsError` that names the source, the field and what was expected, before
//      anything is opened or started.
//   3. Secrets: server tokens occur only as values of the setting `tokens`. Code that prints settings prints their
//      number. API keys of providers are not settings; adapters look them up for each call.
//   4. Values that only a configuration module can have (engines, a storage, functions) are in `program`;
//      program-config.ts reads them.

import type { GivenConfig } from "./config-file.ts";
import type { ProgramConfig } from "./program-config.ts";
import type { Origin } from "./setting-readers.ts";
import type { System } from "./user-folders.ts";
import type { EverturnConfig } from "everturn/config";

import { join } from "node:path";

import { loadConfig } from "./config-file.ts";
import { defaultModel } from "./known-providers.ts";
import { limits } from "./limit-settings.ts";
import { programFieldNames, readProgram } from "./program-config.ts";
import {
  addresses,
  busyPolicy,
  count,
  database,
  driver,
  file,
  instructions,
  listenAddress,
  networks,
  onOff,
  pace,
  port,
  SettingsError,
  text,
  texts,
  tokens,
  toolModules,
  url,
} from "./setting-readers.ts";
import { dataFolder, systemOf } from "./user-folders.ts";

/** Where a value comes from. `name` is the flag, the variable, the path of the file, or the reason for a default. */
export type SettingSource = {
  readonly from: "flag" | "environment" | "config" | "default";
  readonly name: string;
};

/** A value and its source. */
export type Setting<T> = { readonly value: T; readonly source: SettingSource };

/** How one setting is read. */
type Field<T> = {
  readonly flag: string | null;
  readonly variable: string | null;
  /** Whether the text of the variable is a comma-separated list, and the flag may be repeated. */
  readonly list: boolean;
  readonly read: (value: unknown, origin: Origin) => T;
  readonly fallback: (system: System) => { readonly value: T; readonly why: string };
};

/**
 * Declares a setting. `fallback`: its default, or how the default is found, with the reason. Without `flag` or
 * `variable` there is none.
 */
function setting<T>(field: {
  readonly flag?: string;
  readonly variable?: string;
  readonly list?: true;
  readonly read: (value: unknown, origin: Origin) => T;
  readonly fallback: T | Field<T>["fallback"];
}): Field<T> {
  const { flag = null, variable = null, list = false, read, fallback } = field;
  const byDefault = isFinder(fallback) ? fallback : () => ({ value: fallback, why: defaultReason });
  return { flag, variable, list, read, fallback: byDefault };
}

function isFinder<T>(fallback: T | Field<T>["fallback"]): fallback is Field<T>["fallback"] {
  return typeof fallback === "function";
}

const defaultReason = "default";

/** All settings. The compiler refuses one that `EverturnConfig`, the type of the configuration file, does not have. */
const fields = {
  /**
   * `provider:model`. Default: a model of the first provider whose API key is set; else `offline:demo`, which needs no
   * key and no network.
   */
  model: setting({
    flag: "--model",
    variable: "EVERTURN_MODEL",
    read: text,
    fallback: ({ environment }) => defaultModel(environment),
  }),
  /**
   * The path of the SQLite file; `:memory:`: a database that ends with the process. Default: in the user's data folder.
   */
  database: setting({
    flag: "--database",
    variable: "EVERTURN_DATABASE",
    read: database,
    fallback: (system) => ({ value: defaultDatabase(system), why: defaultReason }),
  }),
  /** The name of the engine that `chat` and `run` use. */
  engine: setting({ flag: "--engine", variable: "EVERTURN_ENGINE", read: text, fallback: "default" }),
  /** Tools, and absolute paths of modules that export tools. */
  tools: setting({ flag: "--tools", variable: "EVERTURN_TOOLS", list: true, read: toolModules, fallback: [] }),
  /** The system prompt; `null`: none. */
  instructions: setting({
    flag: "--instructions",
    variable: "EVERTURN_INSTRUCTIONS",
    read: instructions,
    fallback: null,
  }),
  /** The largest number of model calls in one turn. */
  maxTurns: setting({ flag: "--max-turns", variable: "EVERTURN_MAX_TURNS", read: count, fallback: 32 }),
  /**
   * What happens to a message that arrives while a turn is open; `null`: `reply` is rejected, `send` and the chat steer
   * the turn.
   */
  whenBusy: setting({ flag: "--when-busy", variable: "EVERTURN_WHEN_BUSY", read: busyPolicy, fallback: null }),
  /** Limits of turns by engine, tenant and limit key; `null`: none, or `runtime.limits` of the configuration file. */
  limits: setting({ flag: "--limit", variable: "EVERTURN_LIMITS", list: true, read: limits, fallback: null }),
  /** Base URLs by provider name. An unknown name is a server that implements the Chat Completions API. */
  baseUrls: setting({ read: addresses, fallback: {} }),
  /** The delay between two words of the offline model, in milliseconds. */
  pace: setting({ variable: "EVERTURN_OFFLINE_PACE", read: pace, fallback: 25 }),
  /** The address that the server listens on. */
  host: setting({ flag: "--host", variable: "EVERTURN_HOST", read: text, fallback: "127.0.0.1" }),
  /** The TCP port; 0: any free port. */
  port: setting({ flag: "--port", variable: "EVERTURN_PORT", read: port, fallback: 4242 }),
  /**
   * Bearer tokens of clients. Without any, `serve` uses a token of the user's configuration folder, on a loopback
   * address only. `off`: requests need no token, which is allowed on a loopback address only.
   */
  tokens: setting({ flag: "--token", variable: "EVERTURN_TOKENS", list: true, read: tokens, fallback: [] }),
  /** Origins of web pages that may call the server (CORS allowlist). */
  cors: setting({ flag: "--cors", variable: "EVERTURN_CORS", list: true, read: texts, fallback: [] }),
  /** Proxies whose `X-Forwarded-For` names the client: addresses, networks, or `loopback`. */
  trustedProxies: setting({
    flag: "--trusted-proxy",
    variable: "EVERTURN_TRUSTED_PROXIES",
    list: true,
    read: networks,
    fallback: [],
  }),
  /** Whether the server serves OpenAI's chat completions (`/v1`). */
  completions: setting({ flag: "--completions", variable: "EVERTURN_COMPLETIONS", read: onOff, fallback: false }),
  /** Whether the server writes a line for each request. */
  requestLog: setting({ flag: "--request-log", variable: "EVERTURN_REQUEST_LOG", read: onOff, fallback: true }),
  /** The absolute path of a folder whose files the server serves; `null`: none. */
  static: setting({ flag: "--static", variable: "EVERTURN_STATIC", read: file, fallback: null }),
  /** Whether the server serves the studio at `/studio/`. */
  studio: setting({ flag: "--no-studio", variable: "EVERTURN_STUDIO", read: onOff, fallback: true }),
  /** Whether the server indexes messages, so that they can be searched, and `migrate` creates the index. */
  search: setting({ flag: "--search", variable: "EVERTURN_SEARCH", read: onOff, fallback: true }),
  /** Who drives the turns of `serve`: this process, or Restate, which calls it. */
  drive: setting<"here" | "restate">({ flag: "--drive", variable: "EVERTURN_DRIVE", read: driver, fallback: "here" }),
  /** The URL of Restate's ingress, to which turns are sent. */
  restateIngress: setting({
    flag: "--restate-ingress",
    variable: "EVERTURN_RESTATE_INGRESS",
    read: url,
    fallback: "http://127.0.0.1:8080",
  }),
  /** The address at which Restate calls this process. */
  restateListen: setting({
    flag: "--restate-listen",
    variable: "EVERTURN_RESTATE_LISTEN",
    read: listenAddress,
    fallback: { host: "127.0.0.1", port: 9080 },
  }),
  /**
   * The URL of Restate's admin API, at which this process is registered when it starts; `null`: it is registered by
   * other means.
   */
  restateAdmin: setting({ flag: "--restate-admin", variable: "EVERTURN_RESTATE_ADMIN", read: url, fallback: null }),
  /** The URL that is registered, for example of a proxy; `null`: that of this process. */
  restateUri: setting({ flag: "--restate-uri", variable: "EVERTURN_RESTATE_URI", read: url, fallback: null }),
  /**
   * Public keys of the Restate servers that may call this process. Without any, it is called on a loopback address
   * only.
   */
  restateKeys: setting({
    flag: "--restate-key",
    variable: "EVERTURN_RESTATE_KEYS",
    list: true,
    read: texts,
    fallback: [],
  }),
} satisfies { readonly [Name in keyof EverturnConfig]?: Field<unknown> };

export type SettingName = keyof typeof fields;

/** The values of all settings, by name. */
export type SettingValues = { readonly [Name in SettingName]: ReturnType<(typeof fields)[Name]["fallback"]>["value"] };

/** All settings with their sources. */
export type Settings = { readonly [Name in SettingName]: Setting<SettingValues[Name]> } & {
  /** The folder that relative paths in flags and variables are resolved against. */
  readonly folder: string;
  /** The path of the configuration file that was read; `null`: none. */
  readonly configFile: string | null;
  /** What a configuration module defines besides settings. */
  readonly program: ProgramConfig;
};

/** The flags of the command line, as text. A flag that may be repeated is a list. */
export type GivenFlags = { readonly [Name in SettingName]?: string | readonly string[] };

/**
 * The flags that set settings, of the options of a command line by their names in camel case: `--max-turns` is
 * `maxTurns`, and `--no-token` is `token: false`.
 */
export function settingFlags(options: { readonly [name: string]: unknown }): GivenFlags {
  const flags = Object.entries(fields).flatMap(
    ([name, { flag, list }]): readonly [string, string | readonly string[]][] => {
      const option = flag === null ? undefined : options[camelCase(flag.replace(/^--(?:no-)?/, ""))];
      if (option === false) return [[name, "off"]];
      if (list) return Array.isArray(option) ? [[name, option.map(String)]] : [];
      return typeof option === "string" ? [[name, option]] : [];
    },
  );
  return Object.fromEntries(flags);
}

function camelCase(words: string): string {
  return words.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** Environment variables, as in `process.env`. */
export type Environment = { readonly [name: string]: string | undefined };

/** The names of all settings, as a configuration file has them. */
export const settingNames: readonly string[] = Object.keys(fields);

export type SettingsRequest = {
  readonly flags?: GivenFlags;
  /**
   * The path in `--config`; `false`: no file is read. Default: `EVERTURN_CONFIG`, else the file in `folder`, if the
   * user trusts it.
   */
  readonly config?: string | false;
  /** Default: `process.env`. */
  readonly environment?: Environment;
  /** Default: the working directory. */
  readonly folder?: string;
};

/**
 * Reads the configuration file and resolves all settings. Throws `SettingsError`, and `UntrustedConfigError` for a file
 * that the user does not trust.
 */
export async function loadSettings(request: SettingsRequest = {}): Promise<Settings> {
  const { environment = process.env, folder = process.cwd(), config: named } = request;
  const system = systemOf(environment);
  const configPath = named ?? (environment["EVERTURN_CONFIG"] || null);
  const fieldNames = [...settingNames, ...programFieldNames];
  const config = configPath === false ? null : await loadConfig(folder, configPath, fieldNames, system);
  return resolveSettings({ flags: request.flags ?? {}, config, folder, system });
}

/**
 * Resolves the settings from their sources. The only I/O is reading the file that `instructions` names with `@FILE`.
 */
export function resolveSettings(sources: {
  readonly flags: GivenFlags;
  readonly config: GivenConfig | null;
  readonly folder: string;
  readonly system: System;
}): Settings {
  const { flags, config, folder, system } = sources;
  const resolve = <T>(name: SettingName, { flag, variable, list, read, fallback }: Field<T>): Setting<T> => {
    const flagText = flags[name];
    if (flagText !== undefined) {
      return { value: read(flagText, { name: flag ?? name, folder }), source: { from: "flag", name: flag ?? name } };
    }
    const assigned = variable === null ? undefined : lookUp(system.environment, variable);
    if (assigned !== undefined) {
      const value = list ? assigned.text.split(",").map((part) => part.trim()) : assigned.text;
      return {
        value: read(value, { name: assigned.name, folder }),
        source: { from: "environment", name: assigned.name },
      };
    }
    const configValue = config?.fields[name];
    if (config !== null && configValue !== undefined) {
      const origin = { name: `${config.path}: ${name}`, folder: config.folder };
      return { value: read(configValue, origin), source: { from: "config", name: config.path } };
    }
    const { value, why } = fallback(system);
    return { value, source: { from: "default", name: why } };
  };
  return {
    folder,
    configFile: config?.path ?? null,
    program: readProgram(config),
    model: resolve("model", fields.model),
    database: resolve("database", fields.database),
    engine: resolve("engine", fields.engine),
    tools: resolve("tools", fields.tools),
    instructions: resolve("instructions", fields.instructions),
    maxTurns: resolve("maxTurns", fields.maxTurns),
    whenBusy: resolve("whenBusy", fields.whenBusy),
    limits: resolve("limits", fields.limits),
    baseUrls: resolve("baseUrls", fields.baseUrls),
    pace: resolve("pace", fields.pace),
    host: resolve("host", fields.host),
    port: resolve("port", fields.port),
    tokens: resolve("tokens", fields.tokens),
    cors: resolve("cors", fields.cors),
    trustedProxies: resolve("trustedProxies", fields.trustedProxies),
    completions: resolve("completions", fields.completions),
    requestLog: resolve("requestLog", fields.requestLog),
    static: resolve("static", fields.static),
    studio: resolve("studio", fields.studio),
    search: resolve("search", fields.search),
    drive: resolve("drive", fields.drive),
    restateIngress: resolve("restateIngress", fields.restateIngress),
    restateListen: resolve("restateListen", fields.restateListen),
    restateAdmin: resolve("restateAdmin", fields.restateAdmin),
    restateUri: resolve("restateUri", fields.restateUri),
    restateKeys: resolve("restateKeys", fields.restateKeys),
  };
}

/** Returns an environment variable that is not empty. `EVERTURN_TOKEN` is an alias of `EVERTURN_TOKENS`. */
function lookUp(
  environment: Environment,
  variable: string,
): { readonly name: string; readonly text: string } | undefined {
  const names = variable === "EVERTURN_TOKENS" ? [variable, "EVERTURN_TOKEN"] : [variable];
  return names.map((name) => ({ name, text: environment[name] ?? "" })).find(({ text }) => text.trim() !== "");
}

/** The default database file, in the user's data folder. */
function defaultDatabase(system: System): string {
  const folder = dataFolder(system);
  if (folder !== null) return join(folder, "everturn.db");
  throw new SettingsError("no home folder for the session database: set HOME, or use --database");
}
