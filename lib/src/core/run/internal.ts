// Names that sibling folders of lib/src use besides the public ones. This is not an entry point of the package: nothing
// listed here is covered by the rules for public names, and any of it can change in any release.

export * from "./index.ts";
export * from "./advanced.ts";

export { newRequestId } from "./request-id.ts";
export type { PlanChild } from "./perform/perform.ts";
export type { Started } from "./run.ts";
export { startRun } from "./run.ts";
export { noOrigin } from "./run-spans.ts";
export type { WithOutput } from "./verbs.ts";
export { childResult, streamPlan, streamStepPlan, withOutput } from "./verbs.ts";

// perform
export { encodeAsJson } from "./perform/encode-result.ts";
export { answeredFallback, routesOf } from "./perform/routes.ts";
export { startMark } from "./perform/start-mark.ts";
export type { InnerWait } from "./perform/tool-job.ts";
export { innerHints } from "./perform/tool-job.ts";

// plan
export type { Pinned } from "./plan/pinned.ts";
export { readPinned } from "./plan/pinned.ts";
export type { Plan, PlanDetails, RunPlan } from "./plan/plan.ts";
export { isPair, messagesOf, planRun } from "./plan/plan.ts";

// ports
export { emptyInbox } from "./ports/memory-ports.ts";
export type {
  CancellableJournal,
  Committed,
  Inbox,
  JournalItem,
  LiveOrigin,
  Ports,
  Replaced,
  Scope,
} from "./ports/ports.ts";
export { memoryScope } from "./ports/ports.ts";
