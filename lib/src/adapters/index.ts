// The door of the adapters: providers, servers that speak like one of them, and scripted stand-ins.

export type { AnthropicOptions } from "./anthropic.ts";
export type { CompatibleOptions, PresetName } from "./compatible.ts";
export type { FakeImagesAdapter, FakeImagesCall, FakeImagesOptions, FakeImagesStep } from "./fake-images.ts";
export type { FakeAdapter, FakeCall, FakeOptions, FakeScript, FakeStep } from "./fake.ts";
export type { KeyHeader, ProviderOptions, ProviderProfile } from "./http-adapter.ts";
export type { OpenAIOptions } from "./openai.ts";

export { anthropic } from "./anthropic.ts";
export { azure, openaiCompatible, preset } from "./compatible.ts";
export { fakeImages } from "./fake-images.ts";
export { fake } from "./fake.ts";
export { geminiImages } from "./gemini-images.ts";
export { gemini } from "./gemini.ts";
export { httpAdapter } from "./http-adapter.ts";
export { openaiImages } from "./openai-images.ts";
export { openai } from "./openai.ts";
export { providers } from "./providers.ts";
