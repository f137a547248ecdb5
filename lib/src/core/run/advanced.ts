// The names of this folder that `everturn/advanced` exports: the folds of a stream.

export type { RunInput } from "./plan/plan.ts";

export { collectChat, collectReply, collectStep, UnknownToolError } from "./folds.ts";
