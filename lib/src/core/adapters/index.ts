// The names of this folder that `everturn` exports: the adapters. This folder has no entry point of its own.

export type { FakeAdapter, FakeScript, FakeStep } from "./fake.ts";
export type { ProviderOptions } from "./http-adapter.ts";

export { anthropic } from "./anthropic.ts";
export { azure, openaiCompatible, preset } from "./compatible.ts";
export { engine } from "./engine.ts";
export { fakeImages } from "./fake-images.ts";
export { calls, fake, says } from "./fake.ts";
export { geminiImages } from "./gemini-images.ts";
export { gemini } from "./gemini.ts";
export { openaiImages } from "./openai-images.ts";
export { openai } from "./openai.ts";
export { providers } from "./providers.ts";
