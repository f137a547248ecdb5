// Entry point `everturn/restate`: Restate decides which process drives a turn, and wakes it. Journal, sessions and
// events stay in the storage of the runtime.

export type { RestateHandlerContext, RestateSession, RestateTurn } from "./client.ts";
export type { RestateRuntime, RestateRuntimeOptions, SendFailure } from "./runtime.ts";
export type { RestateServer } from "./serve.ts";
export type { RestateServiceOptions } from "./service-context.ts";
export type { RestateService } from "./services.ts";

export { registerRestateDeployment, startRestateSweeper } from "./ingress.ts";
export { restateRuntime } from "./runtime.ts";
export { restateServices } from "./services.ts";
export { restateSession } from "./client.ts";
export { serveRestate } from "./serve.ts";
