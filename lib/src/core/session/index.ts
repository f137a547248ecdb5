// The public names of sessions that the program keeps. `everturn` exports them.

export type { DecisionInput } from "./answers.ts";
export type { SessionInput, SessionResult, SessionStepResult } from "./verbs.ts";

export { decide, submitToolResult, submitToolResults } from "./answers.ts";
export { applyChatResult, applyStepResult } from "./project.ts";
export { session } from "./session-verbs.ts";
export { StreamReducer } from "./stream-reducer.ts";
export {
  continueSession as continue,
  recover,
  reply,
  start,
  step,
  streamContinue,
  streamReply,
  streamStart,
  streamStep,
} from "./verbs.ts";
