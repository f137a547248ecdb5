// Entry point `everturn/http`: sessions over HTTP, as a function from `Request` to `Response`, and the protocols of
// other libraries that it can serve.

export type { HttpReason } from "../core/model/internal.ts";
export type { Scope } from "./contract/internal.ts";
export type {
  AllowedOption,
  ApiKey,
  Auth,
  Caller,
  CallToDecide,
  Dialect,
  HttpFailure,
  HttpLimits,
  HttpOptions,
  KeyGrant,
  NewKey,
  OwnedSession,
  Scenario,
  StoredKey,
  StoredKeys,
} from "./http/internal.ts";
export type { Inspection } from "./inspect/internal.ts";

export { agUi, aiSdkChat, openaiCompletions } from "./dialects/internal.ts";
export { createHandler, defaultHttpLimits, storedKeys } from "./http/internal.ts";
export { inspection, readTurnRecord } from "./inspect/internal.ts";
