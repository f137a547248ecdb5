// The public test kit.

export type { AdapterScenario, AdapterUnderTest, PreflightReason, ScenarioCall } from "./adapter-suite.ts";
export type { ConformanceCase } from "./conformance.ts";
export type { BrokenPoint, CrashHost, CrashOptions, CrashReport, CrashScenario, CrashUser } from "./crash-matrix.ts";
export type { CodeCells } from "./executor-suite.ts";
export type { HandClock } from "./hand-clock.ts";
export type { CrashPoint, MortalLife, PointKind } from "./mortal-life.ts";
export type { ImageAdapterScenario, ImageAdapterUnderTest } from "./image-adapter-suite.ts";
export type { StorageUnderTest } from "./storage-suite.ts";
export type { ReplayedTurn, ReplayOptions, TurnRecord } from "../runtime/internal.ts";

export { adapterSuite } from "./adapter-suite.ts";
export { crashMatrix } from "./crash-matrix.ts";
export { crashScenarios, steadyModel } from "./crash-scenarios.ts";
export { encoderSuite } from "./encoder-suite.ts";
export { codeExecutorSuite, executorSuite, javascriptCells } from "./executor-suite.ts";
export { handClock } from "./hand-clock.ts";
export { imageAdapterSuite } from "./image-adapter-suite.ts";
export { storageSuite } from "./storage-suite.ts";
export { line, transcript } from "./transcript.ts";
export { replayTurn } from "../runtime/internal.ts";
