// The performers of what a model or a run calls in the program: tools, and the hooks of a turn. They are loaded together, on demand (on-demand.ts).

export { callBeforeTurn, callOnCheckpoint } from "./checkpoint-hooks.ts";
export { performEnvironment } from "./environment.ts";
export { performTool } from "./tool.ts";
