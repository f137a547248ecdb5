// The door of the execution layer: the verbs, their folds, and the loop for those who bring ports of their own.

export type { Drive } from "./driver.ts";
export type { Plan, PlanDetails, RunInput } from "./plan/plan.ts";
export type { ImageOptions } from "./images.ts";
export type { Pinned } from "./plan/pinned.ts";
export type {
  CancellableJournal,
  Committed,
  Inbox,
  Journal,
  JournalItem,
  LiveOrigin,
  Ports,
  Scope,
  Sink,
} from "./ports/ports.ts";
export type { Finished, PlanChild, Started } from "./run.ts";
export type { GenerateInput, WithOutput } from "./verbs.ts";

export { drive } from "./driver.ts";
export { encodeAsJson } from "./perform/encode-result.ts";
export { collectChat, collectReply, collectStep, partialOutput, UnknownToolError, unwrap } from "./folds.ts";
export { editImage, generateImage, imageVariations } from "./images.ts";
export { MemoryJournal } from "./ports/memory-journal.ts";
export { readPinned } from "./plan/pinned.ts";
export { planRun } from "./plan/plan.ts";
export { newRequestId } from "./request-id.ts";
export { startRun } from "./run.ts";
export { TurnStream } from "./turn-stream.ts";
export {
  chat,
  generate,
  replayPlan,
  step,
  stream,
  streamGenerate,
  streamPlan,
  streamStep,
  streamStepPlan,
} from "./verbs.ts";
