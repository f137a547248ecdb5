// Entry point of the package `@everturn/server`: settings, engine, database and HTTP server of a process. The
// command-line program uses it.

export type { CopiedTable } from "./copy-database.ts";
export type { OpenDatabase } from "./database.ts";
export type { Count, DatabaseStats } from "./database-stats.ts";
export type { Engines } from "./engines.ts";
export type { KnownProvider, ProviderName } from "./known-providers.ts";
export type { RequestEntry } from "./request-log.ts";
export type { Scenarios } from "./scenarios/scenarios.ts";
export type { RunningServer, ServerOptions } from "./serve.ts";
export type { ServerToken } from "./setting-readers.ts";
export type {
  Environment,
  GivenFlags,
  Setting,
  SettingName,
  Settings,
  SettingSource,
  SettingsRequest,
  SettingValues,
} from "./settings.ts";

export { configFilesIn, findConfig } from "./config-file.ts";
export { copyDatabase, CopyError } from "./copy-database.ts";
export { openDatabase, openStorage } from "./database.ts";
export { databaseStats } from "./database-stats.ts";
export { connectServers } from "./mcp-servers.ts";
export { createEngine, createEngines, isOffline, missingKey } from "./engines.ts";
export { addressIn, keyVariable, knownProviders, offlineModel } from "./known-providers.ts";
export { offline } from "./offline-model.ts";
export { offlineTools } from "./offline-tools.ts";
export { createScenarios } from "./scenarios/scenarios.ts";
export { scenarioEngineName } from "./scenarios/engine.ts";
export { scriptedModel } from "./scenarios/script.ts";
export { createLoginCode, loginCodeMs } from "./login.ts";
export { hostInUrl, isLoopback, startServer } from "./serve.ts";
export { database as readDatabaseSetting, databaseName, isPostgresUrl, SettingsError } from "./setting-readers.ts";
export { loadSettings, settingFlags, settingNames } from "./settings.ts";
export { loadTools } from "./tools-module.ts";
export { checkTrusted, digestOf, distrustFolder, trustConfig, trustStorePath, UntrustedConfigError } from "./trust.ts";
export { configurationFolder, systemOf } from "./user-folders.ts";
