// Entry point `everturn/otel`: spans and metrics by the GenAI semantic conventions of OpenTelemetry.

export type { OtelOptions } from "./instrument.ts";
export type { SpanIds } from "./span-ids.ts";

export { instrument } from "./instrument.ts";
export { spanIds } from "./span-ids.ts";
