// The expected results of the scenes in every runtime, and of the requests to the worker.

import type { SceneResults } from "./scenes.ts";
import type { Json } from "everturn";

const sunny = "Clear in Zürich: ☀️.";

export const expectedScenes: SceneResults = {
  scripted: { shown: "Clear in Rome.", haltedReason: "completed", results: ["invalid_arguments", null], steps: 3 },
  streamed: {
    shown: sunny,
    inPieces: true,
    haltedReason: "completed",
    toolResult: '{"city":"Zürich","sky":"clear"}',
    totalTokens: 24,
  },
  left: { shown: "Once ", haltedReason: "cancelled" },
  keyless: "missing_key",
  durable: {
    pickedUp: 1,
    waited: "awaiting_tools",
    shown: sunny,
    text: sunny,
    last: "chat_completed",
    status: "completed",
  },
};

/** The expected results of the client, with any server. */
export const expectedClient: Json = {
  shown: sunny,
  status: "completed",
  last: "chat_completed",
  cancelled: "cancelled",
};

/** The expected results of the sandbox in a web worker. */
export const expectedSandbox: Json = {
  endless: { type: "failed", reason: "limit_exceeded", message: "more than 500 milliseconds (limits.timeMs)" },
  next: { type: "finished", observations: ["after"], error: null, finish: null },
  isResponsive: true,
};

const turns = {
  status: 200,
  shown: sunny,
  inPieces: true,
  last: "end",
  resumed: true,
  waited: 200,
  text: sunny,
};

export const expectedVisits: SceneResults = {
  early: { health: 200, refused: 401, text: "Hello from the edge.", last: "end" },
  turns,
  often: { read: 40, of: 40 },
  keptTurns: turns,
  kept: { cancelled: { result: "cancelled" }, afterLeaving: "completed" },
};
