// Entry point `everturn/ai-sdk`: the bridge to the AI SDK. Its models as adapters, its tools as tools, and an engine as
// one of its models.

export type { AiSdkAdapterOptions, AiSdkModelFactory } from "./adapter.ts";
export type { AiSdkModel, AiSdkModelOptions } from "./language-model.ts";
export type { AiSdkModelPart, AiSdkModelReply } from "./model-parts.ts";
export type { AiSdkCallOptions, AiSdkLanguageModel, AiSdkProvider, AiSdkStreamResult } from "./specification.ts";
export type { AiSdkTool, AiSdkTools, AiSdkToolsOptions } from "./tools.ts";

export { aiSdkAdapter } from "./adapter.ts";
export { aiSdkModel } from "./language-model.ts";
export { aiSdkTools } from "./tools.ts";
