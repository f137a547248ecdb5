// The names of this folder that `everturn` exports: the verbs that run a model, with their streams and folds.

export { countTokens } from "./count-tokens.ts";
export { partialOutput, unwrap } from "./folds.ts";
export { editImage, generateImage, imageVariations } from "./images.ts";
export { TurnStream } from "./turn-stream.ts";
export { chat, generate, step, stream, streamGenerate, streamStep } from "./verbs.ts";
