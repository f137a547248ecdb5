// The names of this folder that `everturn/advanced` exports: how results and events
// change a session that the program keeps.

export type { SessionInput, SessionStepResult } from "./verbs.ts";

export { applyChatResult, applyStepResult } from "./project.ts";
export { StreamReducer } from "./stream-reducer.ts";
