// The settings of the command and the server, and the source of each value: a flag, an environment variable, the configuration file or a default.
//
// Rules
//   1. Precedence: flag, environment, configuration file, default. The first source that has a setting provides its whole value; lists are not
//      merged.
//   2. An invalid value throws a `SettingsError` that names the source, the field and what was expected, before anything is opened or started.
//   3. Secrets: server tokens occur only as values of the setting `tokens`. Code that prints settings prints their number. API keys of providers
//      are not settings; adapters look them up for each call.
//   4. Values that only a configuration module can have (engines, a storage, functions) are in `program`; program-config.ts reads them.

import type { GivenConfig } from "./config-file.ts";
import type { ProgramConfig } from "./program-config.ts";
import type { ListenAddress, Origin, ServerToken } from "./setting-readers.ts";
import type { System } from "./user-folders.ts";
import type { Tool } from "everturn";
import type { EverturnConfig } from "everturn/config";
import type { WhenBusy } from "everturn/engine";
import type { RuntimeLimits } from "everturn/runtime";

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

/** The values of all settings, by name. */
export type SettingValues = {
  /** `provider:model`. Default: a model of the first provider whose API key is set; else `offline:demo`, which needs no key and no network. */
  readonly model: string;
  /** The path of the SQLite file; `:memory:`: a database that ends with the process. Default: in the user's data folder. */
  readonly database: string;
  /** The name of the engine that `chat` and `run` use. Default: `default`. */
  readonly engine: string;
  /** Tools, and absolute paths of modules that export tools. Default: none. */
  readonly tools: readonly (string | Tool)[];
  /** The system prompt; `null`, the default: none. */
  readonly instructions: string | null;
  /** The largest number of model calls in one turn. Default: 32. */
  readonly maxTurns: number;
  /** What happens to a message that arrives while a turn is open; `null`, the default: `reply` is rejected, `send` and the chat steer the turn. */
  readonly whenBusy: WhenBusy | null;
  /** Limits of turns by engine, tenant and limit key; `null`, the default: none, or `runtime.limits` of the configuration file. */
  readonly limits: RuntimeLimits | null;
  /** Base URLs by provider name. An unknown name is a server that implements the Chat Completions API. */
  readonly baseUrls: { readonly [provider: string]: string };
  /** The delay between two words of the offline model, in milliseconds. Default: 25. */
  readonly pace: number;
  /** The address that the server listens on. Default: 127.0.0.1 (loopback). */
  readonly host: string;
  /** The TCP port; 0: any free port. Default: 4242. */
  readonly port: number;
  /**
   * Bearer tokens of clients. Default: none; `serve` then uses a token of the user's configuration folder, on a loopback address only. `off`: requests need no
   * token, which is allowed on a loopback address only.
   */
  readonly tokens: readonly ServerToken[] | "off";
  /** Origins of web pages that may call the server (CORS allowlist). Default: none. */
  readonly cors: readonly string[];
  /** Whether the server serves OpenAI's chat completions (`/v1`). Default: false. */
  readonly completions: boolean;
  /** Whether the server writes a line for each request. Default: true. */
  readonly requestLog: boolean;
  /** The absolute path of a folder whose files the server serves; `null`, the default: none. */
  readonly static: string | null;
  /** Whether the server serves the studio at `/studio/`. Default: true. */
  readonly studio: boolean;
  /** Whether the server indexes messages, so that they can be searched, and `migrate` creates the index. Default: true. */
  readonly search: boolean;
  /** Who drives the turns of `serve`: this process, or Restate, which calls it. Default: `here`. */
  readonly drive: "here" | "restate";
  /** The URL of Restate's ingress, to which turns are sent. Default: http://127.0.0.1:8080. */
  readonly restateIngress: string;
  /** The address at which Restate calls this process. Default: 127.0.0.1:9080. */
  readonly restateListen: ListenAddress;
  /** The URL of Restate's admin API, at which this process is registered when it starts; `null`, the default: it is registered by other means. */
  readonly restateAdmin: string | null;
  /** The URL that is registered, for example of a proxy; `null`, the default: that of this process. */
  readonly restateUri: string | null;
  /** Public keys of the Restate servers that may call this process. Default: none, which is allowed on a loopback address only. */
  readonly restateKeys: readonly string[];
};

/** The compiler refuses a setting that `EverturnConfig`, the type of the configuration file, does not have. */
export type SettingName = keyof SettingValues & keyof EverturnConfig;

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

/** Environment variables, as in `process.env`. */
export type Environment = { readonly [name: string]: string | undefined };

/** How one setting is read. */
type Field<T> = {
  readonly flag: string | null;
  readonly variable: string | null;
  /** Whether the text of the variable is a comma-separated list. */
  readonly list: boolean;
  readonly read: (value: unknown, origin: Origin) => T;
  readonly fallback: (system: System) => { readonly value: T; readonly why: string };
};

const defaultReason = "default";

const fields: { readonly [Name in SettingName]: Field<SettingValues[Name]> } = {
  model: {
    flag: "--model",
    variable: "EVERTURN_MODEL",
    list: false,
    read: text,
    fallback: ({ environment }) => defaultModel(environment),
  },
  database: {
    flag: "--database",
    variable: "EVERTURN_DATABASE",
    list: false,
    read: database,
    fallback: (system) => ({ value: defaultDatabase(system), why: defaultReason }),
  },
  engine: {
    flag: "--engine",
    variable: "EVERTURN_ENGINE",
    list: false,
    read: text,
    fallback: () => ({ value: "default", why: defaultReason }),
  },
  tools: {
    flag: "--tools",
    variable: "EVERTURN_TOOLS",
    list: true,
    read: toolModules,
    fallback: () => ({ value: [], why: defaultReason }),
  },
  instructions: {
    flag: "--instructions",
    variable: "EVERTURN_INSTRUCTIONS",
    list: false,
    read: instructions,
    fallback: () => ({ value: null, why: defaultReason }),
  },
  maxTurns: {
    flag: "--max-turns",
    variable: "EVERTURN_MAX_TURNS",
    list: false,
    read: count,
    fallback: () => ({ value: 32, why: defaultReason }),
  },
  whenBusy: {
    flag: "--when-busy",
    variable: "EVERTURN_WHEN_BUSY",
    list: false,
    read: busyPolicy,
    fallback: () => ({ value: null, why: defaultReason }),
  },
  limits: {
    flag: "--limit",
    variable: "EVERTURN_LIMITS",
    list: true,
    read: limits,
    fallback: () => ({ value: null, why: defaultReason }),
  },
  baseUrls: {
    flag: null,
    variable: null,
    list: false,
    read: addresses,
    fallback: () => ({ value: {}, why: defaultReason }),
  },
  pace: {
    flag: null,
    variable: "EVERTURN_OFFLINE_PACE",
    list: false,
    read: pace,
    fallback: () => ({ value: 25, why: defaultReason }),
  },
  host: {
    flag: "--host",
    variable: "EVERTURN_HOST",
    list: false,
    read: text,
    fallback: () => ({ value: "127.0.0.1", why: defaultReason }),
  },
  port: {
    flag: "--port",
    variable: "EVERTURN_PORT",
    list: false,
    read: port,
    fallback: () => ({ value: 4242, why: defaultReason }),
  },
  tokens: {
    flag: "--token",
    variable: "EVERTURN_TOKENS",
    list: true,
    read: tokens,
    fallback: () => ({ value: [], why: defaultReason }),
  },
  cors: {
    flag: "--cors",
    variable: "EVERTURN_CORS",
    list: true,
    read: texts,
    fallback: () => ({ value: [], why: defaultReason }),
  },
  completions: {
    flag: "--completions",
    variable: "EVERTURN_COMPLETIONS",
    list: false,
    read: onOff,
    fallback: () => ({ value: false, why: defaultReason }),
  },
  requestLog: {
    flag: "--request-log",
    variable: "EVERTURN_REQUEST_LOG",
    list: false,
    read: onOff,
    fallback: () => ({ value: true, why: defaultReason }),
  },
  static: {
    flag: "--static",
    variable: "EVERTURN_STATIC",
    list: false,
    read: file,
    fallback: () => ({ value: null, why: defaultReason }),
  },
  studio: {
    flag: "--no-studio",
    variable: "EVERTURN_STUDIO",
    list: false,
    read: onOff,
    fallback: () => ({ value: true, why: defaultReason }),
  },
  search: {
    flag: "--search",
    variable: "EVERTURN_SEARCH",
    list: false,
    read: onOff,
    fallback: () => ({ value: true, why: defaultReason }),
  },
  drive: {
    flag: "--drive",
    variable: "EVERTURN_DRIVE",
    list: false,
    read: driver,
    fallback: () => ({ value: "here", why: defaultReason }),
  },
  restateIngress: {
    flag: "--restate-ingress",
    variable: "EVERTURN_RESTATE_INGRESS",
    list: false,
    read: url,
    fallback: () => ({ value: "http://127.0.0.1:8080", why: defaultReason }),
  },
  restateListen: {
    flag: "--restate-listen",
    variable: "EVERTURN_RESTATE_LISTEN",
    list: false,
    read: listenAddress,
    fallback: () => ({ value: { host: "127.0.0.1", port: 9080 }, why: defaultReason }),
  },
  restateAdmin: {
    flag: "--restate-admin",
    variable: "EVERTURN_RESTATE_ADMIN",
    list: false,
    read: url,
    fallback: () => ({ value: null, why: defaultReason }),
  },
  restateUri: {
    flag: "--restate-uri",
    variable: "EVERTURN_RESTATE_URI",
    list: false,
    read: url,
    fallback: () => ({ value: null, why: defaultReason }),
  },
  restateKeys: {
    flag: "--restate-key",
    variable: "EVERTURN_RESTATE_KEYS",
    list: true,
    read: texts,
    fallback: () => ({ value: [], why: defaultReason }),
  },
};

/** The names of all settings, as a configuration file has them. */
export const settingNames: readonly string[] = Object.keys(fields);

export type SettingsRequest = {
  readonly flags?: GivenFlags;
  /** The path in `--config`; `false`: no file is read. Default: `EVERTURN_CONFIG`, else the file in `folder`, if the user trusts it. */
  readonly config?: string | false;
  /** Default: `process.env`. */
  readonly environment?: Environment;
  /** Default: the working directory. */
  readonly folder?: string;
};

/** Reads the configuration file and resolves all settings. Throws `SettingsError`, and `UntrustedConfigError` for a file that the user does not trust. */
export async function loadSettings(request: SettingsRequest = {}): Promise<Settings> {
  const { environment = process.env, folder = process.cwd(), config: named } = request;
  const system = systemOf(environment);
  const configPath = named ?? (environment["EVERTURN_CONFIG"] || null);
  const fieldNames = [...settingNames, ...programFieldNames];
  const config = configPath === false ? null : await loadConfig(folder, configPath, fieldNames, system);
  return resolveSettings({ flags: request.flags ?? {}, config, folder, system });
}

/** Resolves the settings from their sources. The only I/O is reading the file that `instructions` names with `@FILE`. */
export function resolveSettings(sources: {
  readonly flags: GivenFlags;
  readonly config: GivenConfig | null;
  readonly folder: string;
  readonly system: System;
}): Settings {
  const { flags, config, folder, system } = sources;
  const resolve = <Name extends SettingName>(name: Name): Setting<SettingValues[Name]> => {
    const { flag, variable, list, read, fallback } = fields[name];
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
    model: resolve("model"),
    database: resolve("database"),
    engine: resolve("engine"),
    tools: resolve("tools"),
    instructions: resolve("instructions"),
    maxTurns: resolve("maxTurns"),
    whenBusy: resolve("whenBusy"),
    limits: resolve("limits"),
    baseUrls: resolve("baseUrls"),
    pace: resolve("pace"),
    host: resolve("host"),
    port: resolve("port"),
    tokens: resolve("tokens"),
    cors: resolve("cors"),
    completions: resolve("completions"),
    requestLog: resolve("requestLog"),
    static: resolve("static"),
    studio: resolve("studio"),
    search: resolve("search"),
    drive: resolve("drive"),
    restateIngress: resolve("restateIngress"),
    restateListen: resolve("restateListen"),
    restateAdmin: resolve("restateAdmin"),
    restateUri: resolve("restateUri"),
    restateKeys: resolve("restateKeys"),
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
