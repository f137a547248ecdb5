// What the command and the server are told, and by whom: a flag, the environment, the configuration file, or nobody. Each value remembers its source.
//
// Rules:
//   1. The strongest source that says anything about a setting says all of it: lists are replaced, not joined.
//   2. Whatever is wrong is a `SettingsError` that names the source, the field and what was expected, before anything else happens.
//   3. Tokens are values here and nowhere else: whoever prints settings prints how many there are. Keys of providers are no settings at all.

import type { GivenConfig } from "./config-file.ts";
import type { Origin, ServerToken } from "./setting-readers.ts";

import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

import { loadConfig } from "./config-file.ts";
import { defaultModel } from "./known-providers.ts";
import {
  addresses,
  count,
  file,
  files,
  instructions,
  pace,
  port,
  SettingsError,
  text,
  texts,
  tokens,
} from "./setting-readers.ts";

/** Who said it: `name` is the flag, the variable, the file, or, for a default, why it is this one. */
export type SettingSource = {
  readonly from: "flag" | "environment" | "config" | "default";
  readonly name: string;
};

export type Setting<T> = { readonly value: T; readonly source: SettingSource };

/** The settings by name, as plain values. */
export type SettingValues = {
  /** `provider:model`; `offline:demo` needs no key and no network. */
  readonly model: string;
  /** The SQLite file; `:memory:` is one that is gone with the process. */
  readonly database: string;
  /** Modules that export tools, as absolute paths. */
  readonly tools: readonly string[];
  readonly instructions: string | null;
  /** Model calls a turn may take. */
  readonly maxTurns: number;
  /** Where providers are, by their names; a name that is not known is a server that speaks Chat Completions. */
  readonly baseUrls: { readonly [provider: string]: string };
  /** Milliseconds between two words of the offline model. */
  readonly pace: number;
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
  readonly tokens: readonly ServerToken[];
  /** Origins of web pages that may call the server. */
  readonly cors: readonly string[];
};

export type SettingName = keyof SettingValues;

export type Settings = { readonly [Name in SettingName]: Setting<SettingValues[Name]> } & {
  /** The folder that flags and variables are relative to. */
  readonly folder: string;
  /** The configuration file that was read; `null`: there is none. */
  readonly configFile: string | null;
};

/** What was said on the command line, as text: a flag that may be repeated is a list. */
export type GivenFlags = { readonly [Name in SettingName]?: string | readonly string[] };

export type Environment = { readonly [name: string]: string | undefined };

type Field<T> = {
  readonly flag: string | null;
  readonly variable: string | null;
  /** In a variable, several are told apart by commas. */
  readonly list: boolean;
  readonly read: (value: unknown, origin: Origin) => T;
  readonly fallback: (world: World) => { readonly value: T; readonly why: string };
};

type World = { readonly environment: Environment; readonly platform: NodeJS.Platform; readonly home: string };

const usual = "default";

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
    read: file,
    fallback: (world) => ({ value: defaultDatabase(world), why: usual }),
  },
  tools: {
    flag: "--tools",
    variable: "EVERTURN_TOOLS",
    list: true,
    read: files,
    fallback: () => ({ value: [], why: usual }),
  },
  instructions: {
    flag: "--instructions",
    variable: "EVERTURN_INSTRUCTIONS",
    list: false,
    read: instructions,
    fallback: () => ({ value: null, why: usual }),
  },
  maxTurns: {
    flag: "--max-turns",
    variable: "EVERTURN_MAX_TURNS",
    list: false,
    read: count,
    fallback: () => ({ value: 32, why: usual }),
  },
  baseUrls: {
    flag: null,
    variable: null,
    list: false,
    read: addresses,
    fallback: () => ({ value: {}, why: usual }),
  },
  pace: {
    flag: null,
    variable: "EVERTURN_OFFLINE_PACE",
    list: false,
    read: pace,
    fallback: () => ({ value: 25, why: usual }),
  },
  host: {
    flag: "--host",
    variable: "EVERTURN_HOST",
    list: false,
    read: text,
    fallback: () => ({ value: "127.0.0.1", why: usual }),
  },
  port: {
    flag: "--port",
    variable: "EVERTURN_PORT",
    list: false,
    read: port,
    fallback: () => ({ value: 4242, why: usual }),
  },
  tokens: {
    flag: "--token",
    variable: "EVERTURN_TOKENS",
    list: true,
    read: tokens,
    fallback: () => ({ value: [], why: usual }),
  },
  cors: {
    flag: "--cors",
    variable: "EVERTURN_CORS",
    list: true,
    read: texts,
    fallback: () => ({ value: [], why: usual }),
  },
};

/** The names of all settings, as a configuration file has them. */
export const settingNames: readonly string[] = Object.keys(fields);

export type SettingsRequest = {
  readonly flags?: GivenFlags;
  /** The configuration file, if one is named on the command line. */
  readonly config?: string;
  readonly environment?: Environment;
  readonly folder?: string;
};

/** Reads the settings: flags, then the environment, then the configuration file, then defaults. */
export async function loadSettings(request: SettingsRequest = {}): Promise<Settings> {
  const { environment = process.env, folder = process.cwd() } = request;
  const named = request.config ?? (environment["EVERTURN_CONFIG"] || undefined);
  const config = await loadConfig(folder, named ?? null, settingNames);
  const world = { environment, platform: process.platform, home: homeFolder() };
  return resolveSettings({ flags: request.flags ?? {}, config, folder, world });
}

/** The settings, from what each source says. Touches nothing but files that instructions are in. */
export function resolveSettings(given: {
  readonly flags: GivenFlags;
  readonly config: GivenConfig | null;
  readonly folder: string;
  readonly world: World;
}): Settings {
  const { flags, config, folder, world } = given;
  const settle = <Name extends SettingName>(name: Name): Setting<SettingValues[Name]> => {
    const { flag, variable, list, read, fallback } = fields[name];
    const said = flags[name];
    if (said !== undefined) {
      return { value: read(said, { name: flag ?? name, folder }), source: { from: "flag", name: flag ?? name } };
    }
    const found = variable === null ? undefined : lookUp(world.environment, variable);
    if (found !== undefined) {
      const value = list ? found.text.split(",").map((part) => part.trim()) : found.text;
      return { value: read(value, { name: found.name, folder }), source: { from: "environment", name: found.name } };
    }
    const stored = config?.fields[name];
    if (config !== null && stored !== undefined) {
      const origin = { name: `${config.path}: ${name}`, folder: config.folder };
      return { value: read(stored, origin), source: { from: "config", name: config.path } };
    }
    const { value, why } = fallback(world);
    return { value, source: { from: "default", name: why } };
  };
  return {
    folder,
    configFile: config?.path ?? null,
    model: settle("model"),
    database: settle("database"),
    tools: settle("tools"),
    instructions: settle("instructions"),
    maxTurns: settle("maxTurns"),
    baseUrls: settle("baseUrls"),
    pace: settle("pace"),
    host: settle("host"),
    port: settle("port"),
    tokens: settle("tokens"),
    cors: settle("cors"),
  };
}

/** A variable that says something; an empty one says nothing. `EVERTURN_TOKEN` is as good as `EVERTURN_TOKENS`. */
function lookUp(
  environment: Environment,
  variable: string,
): { readonly name: string; readonly text: string } | undefined {
  const names = variable === "EVERTURN_TOKENS" ? [variable, "EVERTURN_TOKEN"] : [variable];
  return names.map((name) => ({ name, text: environment[name] ?? "" })).find(({ text }) => text.trim() !== "");
}

/** Where programs of this platform keep what a user would not want to lose. */
function defaultDatabase({ environment, platform, home }: World): string {
  const data = environment["XDG_DATA_HOME"] ?? "";
  const folder = (): string => {
    if (data !== "") return isAbsolute(data) ? data : join(home, data);
    if (platform === "darwin") return join(home, "Library", "Application Support");
    if (platform === "win32") return environment["LOCALAPPDATA"] || join(home, "AppData", "Local");
    return join(home, ".local", "share");
  };
  const path = join(folder(), "everturn", "everturn.db");
  // Relative to wherever somebody happens to be, sessions would be in many places.
  if (isAbsolute(path)) return path;
  throw new SettingsError("there is no home folder to keep sessions in: set HOME, or say --database FILE");
}

/** The user's folder; empty where there is none, as for a user that the system does not know. */
function homeFolder(): string {
  try {
    return homedir();
  } catch {
    return "";
  }
}
