// For the folders above that store data of their own: the readers, and the shapes of what their data holds. Not a door of the package.

export type { Fields, OptionalField, PresentField, Shape } from "./shape.ts";

export { environmentShape, suspendedCellShape } from "./environment.ts";
export { eventShape } from "./event-shape.ts";
export { failureShape, issueShape } from "./failure.ts";
export { emptyObject, isPlainObject } from "./json.ts";
export { assistantMessageShape, messageShape, toolAnswerFields } from "./message.ts";
export { modelNameShape } from "./model-ref.ts";
export { responseFormatShape, toolChoiceShape } from "./request.ts";
export { originShape } from "./origin.ts";
export { budgets, cancelEvidenceShape, outcomeShape } from "./outcome.ts";
export { decisionShape, forwardedShape, pendingReasons } from "./pending.ts";
export { replyShape } from "./reply.ts";
export { failed, ok } from "./result.ts";
export { turnStatuses } from "./session-view.ts";
export { sessionShape } from "./session.ts";
export {
  array,
  boolean,
  count,
  either,
  fallback,
  json,
  jsonObject,
  nullable,
  number,
  object,
  oneOf,
  oneOfOr,
  optional,
  read,
  required,
  settings,
  string,
  variant,
} from "./shape.ts";
export { toolOutcomeShape } from "./tool-outcome.ts";
export { toolCallShape } from "./tool.ts";
export { usageShape } from "./usage.ts";
