// The engine of the scenarios. The server and the worker process that is killed build the same one.

import type { Engine } from "everturn";

import { agentTool, engine } from "everturn";

import { offline } from "../offline-model.ts";
import { scriptedModel } from "./script.ts";
import { researchScripts, scenarioScripts } from "./scripts.ts";
import { researchTools, scenarioTools } from "./tools.ts";

/** The name of the engine in the runtime. */
export const scenarioEngineName = "scenarios";

/**
 * Builds the engine. `paceMs`: the delay between two words of the model, in milliseconds; tools take their time in
 * proportion.
 */
export function scenarioEngine(paceMs: number): Engine {
  const other = offline({ paceMs });
  const researcher = engine({
    adapter: scriptedModel(researchScripts, paceMs, other),
    model: "offline:researcher",
    instructions: "You are a researcher. Search the documents, then answer in two sentences.",
    tools: researchTools(paceMs),
  });
  const research = agentTool({
    name: "research",
    description: "Asks a researcher, an agent of its own, to work on a task.",
    engine: researcher,
  });
  return engine({
    adapter: scriptedModel(scenarioScripts, paceMs, other),
    model: "offline:scenarios",
    instructions: "You are an assistant whose replies are a script. You need no API key and no network.",
    tools: [...scenarioTools(paceMs), research],
    options: { maxTurns: 12 },
    retry: { maxAttempts: 3, baseDelayMs: 20 * paceMs, jitterMs: 4 * paceMs },
  });
}
