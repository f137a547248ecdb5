// The names of this folder that `everturn` exports: the verbs of sessions that the program keeps.

export type { DecisionInput } from "./answers.ts";
export type { SessionResult } from "./verbs.ts";

export { session } from "./session-verbs.ts";
