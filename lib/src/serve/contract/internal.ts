// Names of this folder that sibling folders of lib/src import. Not an entry point of the package: any release may
// change this list.

export type {
  BodyParts,
  CallOptions,
  Operation,
  OperationScope,
  OperationTable,
  OperationTypes,
  PathNames,
  PathValues,
  ResponseDescription,
  Scope,
  SentFields,
  Uses,
  VerbsOf,
} from "./operation.ts";
export type {
  UiData,
  UiMetadata,
  UiTools,
  UiFilePart,
  UiCompaction,
  UiProgress,
  UiQuestion,
  UiSteeringMessage,
  UiTextPart,
} from "./chat-types.ts";
export { recoverFailed } from "./recover-failed.ts";
export { isClientVerb, scopes } from "./operation.ts";
export type { Completed, KeyView } from "./results.ts";
export { resultRef } from "./results.ts";
export { resultSchemas } from "./result-schemas.ts";
export type { ScenarioView, ServerView } from "./server-view.ts";
export type { TurnOptions, WhenBusy } from "./turn-options.ts";

// operations
export type { AdminVerbs } from "./admin-operations.ts";
export type { InspectionVerbs, RecordVerbs } from "./inspection-operations.ts";
export type { ProcessVerbs, SessionVerbs } from "./session-operations.ts";
export type { TurnVerbs } from "./turn-operations.ts";
export { adminOperations } from "./admin-operations.ts";
export { inspectionOperations, recordOperations } from "./inspection-operations.ts";
export { processOperations, sessionOperations } from "./session-operations.ts";
export { turnOperations } from "./turn-operations.ts";

// schemas
export type { BodyFields, BodySchema, QueryField } from "./schema.ts";
export {
  arraySchema,
  booleanSchema,
  countSchema,
  enumSchema,
  flagQuery,
  numberSchema,
  objectSchema,
  optionalField,
  requiredField,
  stringSchema,
  wholeNumber,
} from "./schema.ts";
