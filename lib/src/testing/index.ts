// The public test kit.

export type { AdapterScenario, AdapterUnderTest, PreflightReason, ScenarioCall } from "./adapter-suite.ts";
export type { ConformanceCase } from "./conformance.ts";
export type { CodeCells } from "./executor-suite.ts";
export type { HandClock } from "./hand-clock.ts";
export type { ImageAdapterScenario, ImageAdapterUnderTest } from "./image-adapter-suite.ts";
export type { StorageUnderTest } from "./storage-suite.ts";

export { adapterSuite } from "./adapter-suite.ts";
export { encoderSuite } from "./encoder-suite.ts";
export { codeExecutorSuite, executorSuite, javascriptCells } from "./executor-suite.ts";
export { handClock } from "./hand-clock.ts";
export { imageAdapterSuite } from "./image-adapter-suite.ts";
export { storageSuite } from "./storage-suite.ts";
export { line, transcript } from "./transcript.ts";
