// Entry point `everturn/ai-sdk`: the bridge to the AI SDK. Its models as adapters, its tools as tools, and an engine as
// one of its models.

export type { AiSdkModel } from "./language-model.ts";
export type { AiSdkCallOptions, AiSdkLanguageModel } from "./specification.ts";
export type { AiSdkTools } from "./tools.ts";

export { aiSdkAdapter } from "./adapter.ts";
export { aiSdkModel } from "./language-model.ts";
export { aiSdkTools } from "./tools.ts";
