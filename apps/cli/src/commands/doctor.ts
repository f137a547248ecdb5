// `everturn doctor`: reports all settings with their sources and checks that they work. API keys are reported by the
// names of their variables and tokens by their number, never by value. Every check runs even if another failed, so that
// one run reports all problems.

import type { CommandContext } from "./context.ts";
import type { Engines, Environment, Setting, SettingName, Settings } from "@everturn/server";

import { accessSync, constants } from "node:fs";

import {
  addressIn,
  connectServers,
  createEngines,
  databaseName,
  isOffline,
  keyVariable,
  knownProviders,
  loadSettings,
  loadTools,
  missingKey,
  offlineModel,
  settingFlags,
  settingNames,
  UntrustedConfigError,
} from "@everturn/server";

import { safeJson } from "../terminal/safe-text.ts";
import { openSessions } from "../workspace.ts";
import { exitCodes } from "./exit-codes.ts";
import { brief, plural, table } from "./text.ts";
import { packageVersion } from "./version.ts";

/** The result of one check. `message` is part of the JSON output. */
type Finding = { readonly state: "ok" | "hint" | "broken"; readonly name: string; readonly message: string };

type Line = { readonly name: string; readonly value: string; readonly source: string };

export async function doctor(context: CommandContext, { json }: { readonly json: boolean }): Promise<number> {
  const { say, out, io } = context;
  const lines: Line[] = [];
  const findings = [nodeFinding(), ok("everturn", packageVersion())];
  let isUntrusted = false;
  const settings = await context.settings().catch(async (error: unknown) => {
    isUntrusted = error instanceof UntrustedConfigError;
    findings.push(broken(isUntrusted ? "config" : "settings", error));
    return isUntrusted ? settingsWithoutFile(context) : null;
  });
  findings.push(...keyFindings(io.environment));
  if (settings !== null) {
    lines.push(...settingLines(settings));
    const isReported = findings.some(({ name }) => name === "config");
    if (!isReported) {
      findings.push(ok("config", settings.configFile ?? "no configuration file in this folder (optional)"));
    }
    findings.push(
      await databaseFinding(settings),
      await toolsFinding(settings),
      ...(await serversFinding(settings, io.environment)),
      await modelFinding(settings, io.environment),
    );
  }
  const isBroken = findings.some(({ state }) => state === "broken");
  const code = isUntrusted ? exitCodes.usage : isBroken ? exitCodes.failed : exitCodes.ok;
  if (json) {
    say(safeJson({ ok: !isBroken, findings, settings: lines }));
    return code;
  }
  const marks = { ok: out.green("✓"), hint: out.dim("·"), broken: out.red("✗") };
  const rows = findings.map(({ state, name, message }) => [marks[state], name, message]);
  for (const line of table(rows, io.stdout.columns)) say(line);
  if (lines.length > 0) {
    say();
    for (const line of table(
      [["SETTING", "VALUE", "FROM"], ...lines.map((line) => [line.name, line.value, line.source])],
      io.stdout.columns,
    ))
      say(line);
  }
  return code;
}

/** The settings as if the folder had no configuration file, so that the other checks run; `null`: they are invalid. */
async function settingsWithoutFile({ io, options }: CommandContext): Promise<Settings | null> {
  const { environment, folder } = io;
  return loadSettings({ flags: settingFlags(options), environment, folder, config: false }).catch(() => null);
}

function ok(name: string, message: string): Finding {
  return { state: "ok", name, message };
}

function broken(name: string, error: unknown): Finding {
  return { state: "broken", name, message: brief(error instanceof Error ? error.message : String(error), 1000) };
}

function nodeFinding(): Finding {
  const { node } = process.versions;
  const [major = 0, minor = 0] = node.split(".").map(Number);
  const isOld = major < 20 || (major === 20 && minor < 19);
  return isOld ? broken("node", `${node}; version 20.19 or later is needed`) : ok("node", node);
}

/** Reports which API keys and base URLs are set, by the names of their variables. */
function keyFindings(environment: Environment): readonly Finding[] {
  const keys = Object.entries(knownProviders).flatMap(([name, provider]) => {
    const variable = keyVariable(provider, environment);
    return variable === null ? [] : [ok("key", `${variable} is set (${name})`)];
  });
  const baseUrls = Object.entries(knownProviders).flatMap(([name, provider]): readonly Finding[] => {
    try {
      const address = addressIn(name, provider, environment);
      return address === null ? [] : [ok("address", `${name} is at ${withoutSecrets(address)}`)];
    } catch (error) {
      return [broken("address", error)];
    }
  });
  const variables = Object.values(knownProviders)
    .filter(({ model }) => model !== null)
    .flatMap(({ keys }) => keys.slice(0, 1));
  const none: Finding = {
    state: "hint",
    name: "key",
    message: `no API key is set; for a real model set one of ${variables.join(", ")}`,
  };
  return [...(keys.length === 0 ? [none] : keys), ...baseUrls];
}

async function databaseFinding(settings: Settings): Promise<Finding> {
  try {
    const { sessions, database, close } = await openSessions(settings);
    try {
      const { items, next } = await sessions.list({ limit: 1000 });
      const count = next === null ? plural(items.length, "session") : `more than ${items.length} sessions`;
      if (database.path !== null) accessSync(database.path, constants.W_OK);
      const schema = database.schemaVersion === null ? "" : `, schema ${database.schemaVersion}`;
      return ok("database", `${database.name} (${database.driver}${schema}), ${count}`);
    } finally {
      await close();
    }
  } catch (error) {
    return broken("database", error);
  }
}

/** The tools of the settings, or those of the selected engine of the configuration file. */
async function toolsFinding({ tools, model, program, engine }: Settings): Promise<Finding> {
  try {
    const warnings: string[] = [];
    const loaded = await loadTools(tools.value, (message) => warnings.push(message));
    const own = program.engines?.[engine.value]?.tools ?? [];
    const names = [...new Set([...own, ...loaded].map(({ name }) => name))].join(", ");
    const isAdded = isOffline(model.value) && (program.engines === null || names === "");
    const offline = isAdded ? "; the offline model adds demonstration tools" : "";
    const text = names === "" ? `none${offline}` : `${names}${offline}`;
    if (warnings.length > 0) return { state: "hint", name: "tools", message: [text, ...warnings].join("; ") };
    return ok("tools", text);
  } catch (error) {
    return broken("tools", error);
  }
}

/** The MCP servers of the configuration file. Each is started or called once. */
async function serversFinding(settings: Settings, environment: Environment): Promise<readonly Finding[]> {
  if (Object.keys(settings.program.mcpServers).length === 0) return [];
  try {
    const { clients, close } = await connectServers(settings, {}, environment);
    await close();
    return clients.map(({ name, tools }) => ok("mcp", `${name}: ${plural(tools.length, "tool")}`));
  } catch (error) {
    return [broken("mcp", error)];
  }
}

async function modelFinding(settings: Settings, environment: Environment): Promise<Finding> {
  try {
    const created = await createEngines({ ...settings, tools: { ...settings.tools, value: [] } }, environment);
    return modelState(created, environment);
  } catch (error) {
    return broken("model", error);
  }
}

function modelState({ engines, selected, model, isCommandModel }: Engines, environment: Environment): Finding {
  const names = Object.keys(engines);
  const engine = names.length === 1 && selected === "default" ? "" : `, engine ${selected} of ${names.join(", ")}`;
  if (isOffline(model))
    return {
      state: "hint",
      name: "model",
      message: `${offlineModel}: scripted, needs no API key and no network${engine}`,
    };
  const missing = isCommandModel ? missingKey(model, environment) : null;
  return missing === null
    ? ok("model", `${model} (not called by this check${engine})`)
    : broken("model", `${model} needs an API key: set ${missing.join(" or ")}`);
}

/** A URL without its password. */
function urlSetting({ value, source }: Setting<string | null>): Setting<string | null> {
  return { value: value === null ? null : withoutSecrets(value), source };
}

function settingLines(settings: Settings): readonly Line[] {
  const all: { readonly [Name in SettingName]: Setting<unknown> } = {
    ...settings,
    database: databaseSetting(settings),
    tools: {
      ...settings.tools,
      value: settings.tools.value.map((tool) => (typeof tool === "string" ? tool : tool.name)),
    },
    tokens: {
      ...settings.tokens,
      value: tokensText(settings),
    },
    baseUrls: {
      ...settings.baseUrls,
      value: Object.entries(settings.baseUrls.value).map(([name, url]) => `${name} ${withoutSecrets(url)}`),
    },
    restateListen: {
      ...settings.restateListen,
      value: `${settings.restateListen.value.host}:${settings.restateListen.value.port}`,
    },
    restateIngress: urlSetting(settings.restateIngress),
    restateAdmin: urlSetting(settings.restateAdmin),
    restateUri: urlSetting(settings.restateUri),
  };
  return Object.entries(all)
    .filter(([name]) => settingNames.includes(name))
    .map(([name, { value, source }]): Line => {
      const sourceText =
        source.from === "config"
          ? `config ${source.name}`
          : source.from === "default" && source.name !== "default"
            ? `default: ${source.name}`
            : source.name;
      const isOfEngine =
        settings.program.engines !== null && source.from === "default" && engineSettings.includes(name);
      return isOfEngine
        ? { name, value: "-", source: `engine ${settings.engine.value}` }
        : { name, value: valueText(value), source: sourceText };
    });
}

/** How many tokens are set; `serve` uses the token file if there is none. */
function tokensText({ tokens: { value }, program }: Settings): string {
  if (value === "off") return "off";
  return value.length === 0 && program.auth === null ? "the token file of serve" : plural(value.length, "token");
}

/** Settings whose defaults do not apply to engines of a configuration file. */
const engineSettings: readonly string[] = ["instructions", "maxTurns", "whenBusy"];

/** The database, or the storage of the configuration file in its place. */
function databaseSetting({ database, program, configFile }: Settings): Setting<string> {
  const isNamed = database.source.from === "flag" || database.source.from === "environment";
  if (program.storage === null || isNamed) return { ...database, value: databaseName(database.value) };
  return { value: "the storage of the configuration file", source: { from: "config", name: configFile ?? "" } };
}

function valueText(value: unknown): string {
  if (value === null || (Array.isArray(value) && value.length === 0)) return "-";
  return brief(Array.isArray(value) ? value.join(", ") : String(value), 60);
}

/** A URL without user, password and query, which may contain secrets. */
function withoutSecrets(address: string): string {
  if (!URL.canParse(address)) return "an invalid URL";
  const { origin, pathname } = new URL(address);
  return `${origin}${pathname === "/" ? "" : pathname}`;
}
