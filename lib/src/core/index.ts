// Entry point `everturn`: engines, tools, messages, the verbs that run a model, and those of sessions that your program
// keeps.

export * from "./model/index.ts";
export * from "./engine/index.ts";
export * from "./adapters/index.ts";
export * from "./run/index.ts";
export * from "./session/index.ts";
