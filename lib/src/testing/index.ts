// The public test kit.

export type { HandClock } from "./hand-clock.ts";

export { handClock } from "./hand-clock.ts";
export { line, transcript } from "./transcript.ts";
