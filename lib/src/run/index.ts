// The door of the execution layer: the verbs, their folds, and the loop for those who bring ports of their own.

export type { RunInput } from "./plan/plan.ts";

export { collectChat, collectReply, collectStep, partialOutput, UnknownToolError, unwrap } from "./folds.ts";
export { editImage, generateImage, imageVariations } from "./images.ts";
export { TurnStream } from "./turn-stream.ts";
export { chat, generate, step, stream, streamGenerate, streamStep } from "./verbs.ts";
