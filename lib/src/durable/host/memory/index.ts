// Entry point `everturn/host/memory`: the storage in memory.

export type { MemoryOptions } from "./memory.ts";

export { memoryStorage } from "./memory.ts";
