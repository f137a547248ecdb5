// Entry point `everturn/advanced`: what programs need that build on the parts: the data types with all of their
// functions, the turn machine with its protocols, the codecs of the provider APIs, engines as data, and the contract of
// a storage. Names of `everturn` are not repeated here.

export * from "../core/model/advanced.ts";
export * from "../core/kernel/advanced.ts";
export * from "../core/engine/advanced.ts";
export * from "../core/wire/advanced.ts";
export * from "../core/adapters/advanced.ts";
export * from "../core/run/advanced.ts";
export * from "../core/session/advanced.ts";
export * from "../durable/advanced.ts";
