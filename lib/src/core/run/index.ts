// The public names of this folder: the verbs that run a model, with their streams and folds. `everturn` exports what most
// programs need, `everturn/advanced` the rest.

export type { RunInput } from "./plan/plan.ts";

export { countTokens } from "./count-tokens.ts";
export { collectChat, collectReply, collectStep, partialOutput, UnknownToolError, unwrap } from "./folds.ts";
export { editImage, generateImage, imageVariations } from "./images.ts";
export { TurnStream } from "./turn-stream.ts";
export { chat, generate, step, stream, streamGenerate, streamStep } from "./verbs.ts";
