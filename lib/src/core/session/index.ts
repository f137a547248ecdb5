// Entry point `everturn/session`: the verbs that run a session. Import it as a namespace:
// `import * as session from "everturn/session"`.

export type { DecisionInput } from "./answers.ts";
export type { SessionInput, SessionResult, SessionStepResult } from "./verbs.ts";

export { decide, submitToolResult, submitToolResults } from "./answers.ts";
export { applyChatResult, applyStepResult } from "./project.ts";
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
