// Shape combinators and the shapes of stored values, for sibling folders that declare shapes of their own. Separate
// from internal.ts because the names are general (`object`, `string`, `read`). This is not an entry point of the
// package.

export type {
  Fields,
  Infer,
  InferOptional,
  InferShapes,
  InferUnion,
  OptionalField,
  PresentField,
  Shape,
  WordOf,
} from "./shape.ts";

export { environmentShape, executorShape, suspendedCellShape } from "../turn/environment.ts";
export { eventShape, isModelEvent, modelEventShape } from "../turn/event.ts";
export { failureShape, issueShape } from "../failure/failure.ts";
export { describe, emptyObject, isObject, isPlainObject, keysOf } from "./json.ts";
export { assistantMessageShape, messageShape, toolAnswerFields, toolMessageShape } from "../message/message.ts";
export { modelNameShape } from "../call/model-ref.ts";
export { requestShape, responseFormatShape, structuredFormatShape } from "../call/request.ts";

export { budgets, cancelEvidenceShape, haltedReasonShape, outcomeShape } from "../turn/outcome.ts";
export {
  answerKinds,
  decisionShape,
  forwardedShape,
  pendingReasons,
  pendingToolCallShape,
  shownCallShape,
  waitOpts,
} from "../tool/pending.ts";
export { replyShape } from "../call/reply.ts";
export { failed, ok } from "../failure/result.ts";
export { turnStatuses } from "../session/session-view.ts";
export { contextWindowShape, frameShape } from "../session/context-window.ts";
export { sessionShape } from "../session/session.ts";
export {
  array,
  boolean,
  count,
  either,
  fallback,
  json,
  jsonObject,
  literal,
  nullable,
  number,
  object,
  oneOf,
  oneOfOr,
  optional,
  read,
  readOrNull,
  required,
  settings,
  string,
  variant,
} from "./shape.ts";
export { toolOutcomeShape } from "../tool/tool-outcome.ts";
export { toolCallShape, toolChoiceShape } from "../tool/tool.ts";
export { turnCauseShape } from "../turn/turn-cause.ts";
export { budgetsShape } from "../turn/turn-limits.ts";
export { usageShape } from "../call/usage.ts";
export { withoutDefaults } from "./shortened.ts";
