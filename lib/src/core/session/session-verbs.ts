// The verbs of sessions that the program keeps, as one value: `session` of the entry point `everturn`. Verbs of one
// name (`step`, `streamStep`) exist without a session, too, and `continue` cannot be imported.

import { decide, submitToolResult, submitToolResults } from "./answers.ts";
import {
  continueSession,
  recover,
  reply,
  start,
  step,
  streamContinue,
  streamReply,
  streamStart,
  streamStep,
} from "./verbs.ts";

/**
 * The verbs of a session that your program keeps, for example `session.start(engine, "Hello")` and
 * `session.reply(engine, saved, "And in Rome?")`. Each returns the next session and stores nothing. The durable verbs
 * of the same names are methods of `runtime`.
 */
export const session = {
  continue: continueSession,
  decide,
  recover,
  reply,
  start,
  step,
  streamContinue,
  streamReply,
  streamStart,
  streamStep,
  submitToolResult,
  submitToolResults,
} as const;
