// The door of the storage in memory.

export type { MemoryOptions } from "./memory.ts";

export { memoryStorage } from "./memory.ts";
