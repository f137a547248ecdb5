// Entry point `everturn/testing`: conformance suites, the crash matrix, a provider that refuses, and a clock for tests.

export type { AdapterScenario, AdapterUnderTest } from "./adapter-suite.ts";
export type { CrashHost, CrashReport, CrashScenario } from "./crash-matrix.ts";
export type { HandClock } from "./hand-clock.ts";
export type { ProviderApi, Violation } from "./provider-rules/rule.ts";
export type { ProviderStep } from "./script-replies.ts";
export type { SimulationOptions, SimulationReport } from "./simulator/simulate.ts";
export type { StrictProvider } from "./strict-provider.ts";

export { adapterSuite } from "./adapter-suite.ts";
export { crashMatrix } from "./crash-matrix.ts";
export { crashScenarios, steadyModel } from "./crash-scenarios.ts";
export { encoderSuite } from "./encoder-suite.ts";
export { codeExecutorSuite, executorSuite } from "./executor-suite.ts";
export { handClock } from "./hand-clock.ts";
export { imageAdapterSuite } from "./image-adapter-suite.ts";
export { providerRules, violations } from "./provider-rules/violations.ts";
export { simulate } from "./simulator/simulate.ts";
export { storageSuite } from "./storage-suite.ts";
export { strictProvider } from "./strict-provider.ts";
export { transcript } from "./transcript.ts";
export { replayTurn } from "../durable/internal.ts";
