// Entry point `everturn/config`: the type of a configuration file. It imports types only, so a configuration file costs
// nothing to load besides what it imports itself.

export type { ConfigHttp, ConfigRuntime, ConfigStorage, EverturnConfig } from "./config.ts";

export { defineConfig } from "./config.ts";
