// Entry point `everturn/http`: sessions over HTTP, as a function from `Request` to `Response`.

export type { CallToDecide, OwnedSession } from "./access.ts";
export type { ApiKey, Auth, Caller } from "./auth.ts";
export type { HttpReason } from "../../core/model/internal.ts";
export type { HttpFailure } from "./failure.ts";
export type { HttpOptions } from "./handler.ts";
export type { HttpLimits } from "./limits.ts";
export type { InspectOptions, Scenario } from "./routes/inspection-routes.ts";
export type { AllowedOption } from "./routes/turn-options.ts";

export { createHandler } from "./handler.ts";
export { defaultHttpLimits } from "./limits.ts";
