// Names of this folder that sibling folders of lib/src import. Not an entry point of the package: any release may
// change this list.

export type { CallToDecide, OwnedSession } from "./access-rules.ts";
export type { CallerSessions } from "./access.ts";
export type { ApiKey, Auth, Caller } from "./auth.ts";
export { contextOf, engineOfNew } from "./auth.ts";
export { callerSchemaShape } from "./caller-schema.ts";
export type { ContentPolicy } from "./content-policy.ts";
export { checkToolContent, defaultContentPolicy, partProblem, urlProblem } from "./content-policy.ts";
export type { Dialect, DialectSettings } from "./dialect.ts";
export type { HttpFailure } from "./failure.ts";
export { errorResponse, failureOf, publicToolMessage, redactedJson } from "./failure.ts";
export type { HttpOptions } from "./handler.ts";
export { createHandler } from "./handler.ts";
export type { KeyGrant, NewKey, StoredKey, StoredKeys } from "./keys.ts";
export { storedKeys } from "./keys.ts";
export { checkQuery, isPathSegment, queryParameter } from "./input.ts";
export type { HttpLimits } from "./limits.ts";
export { defaultHttpLimits } from "./limits.ts";
export type { SseSource } from "./sse.ts";
export { frame } from "./sse.ts";

// contract
export type { BodySchema, ResponseDescription } from "../contract/internal.ts";
export { flagQuery, objectSchema, optionalField, stringSchema, wholeNumber } from "../contract/internal.ts";

// openapi
export { jsonAnswer } from "./openapi/openapi.ts";

// routes
export type { Scenario } from "./routes/inspection-routes.ts";
export type { StreamedTurn } from "./routes/dialect-route.ts";
export { bodyRoute, route } from "./routes/dialect-route.ts";
export { streamed } from "./routes/permits.ts";
export type { Parameter, Route, RouteCall } from "./routes/route.ts";
export { json } from "./routes/route.ts";
export { cancelAnswers, turnHeaders } from "./routes/turn-answer.ts";
export type { AllowedOption } from "./routes/turn-options.ts";
