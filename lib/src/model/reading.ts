// For the folders above that store data of their own: the readers, and the shapes of what their data holds. Not a door of the package.

export type { Shape } from "./shape.ts";

export { environmentShape } from "./environment.ts";
export { failureShape, issueShape } from "./failure.ts";
export { emptyObject } from "./json.ts";
export { messageShape, toolAnswerFields } from "./message.ts";
export { modelNameShape } from "./model-ref.ts";
export { originShape } from "./origin.ts";
export { budgets } from "./outcome.ts";
export { pendingReasons } from "./pending.ts";
export { replyShape } from "./reply.ts";
export { failed, ok } from "./result.ts";
export {
  array,
  boolean,
  fallback,
  json,
  jsonObject,
  nullable,
  number,
  object,
  oneOf,
  oneOfOr,
  read,
  required,
  settings,
  string,
  variant,
} from "./shape.ts";
export { toolOutcomeShape } from "./tool-outcome.ts";
export { toolCallShape } from "./tool.ts";
export { usageShape } from "./usage.ts";
