// Entry point `everturn/trace`: spans as lines of JSON, and a page that shows them.

export type { TraceOptions, TraceRecord } from "./trace-lines.ts";

export { traceTo } from "./trace-lines.ts";
export { traceViewer } from "./viewer.ts";
