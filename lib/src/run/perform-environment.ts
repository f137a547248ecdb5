// Asks the caller whether the next step should work with something else.

import type { EnvironmentSynced, SyncEnvironment, Turn } from "../kernel/index.ts";
import type { Environment } from "../model/index.ts";
import type { RunPlan } from "./plan.ts";

import { MisuseError } from "../model/index.ts";

export async function performEnvironment(
  { prepareStep, toolSpecs: known }: RunPlan,
  { id, updateMachineConfig }: SyncEnvironment,
  { step, environment }: Turn,
): Promise<EnvironmentSynced> {
  // What a turn starts with is pinned already; only a later step can be changed.
  if (!updateMachineConfig || prepareStep === null || prepareStep === undefined) {
    return { type: "environment_synced", id, environment: null };
  }
  const changes = await prepareStep({ step, environment });
  if (changes === null) return { type: "environment_synced", id, environment: null };
  const { model, instructions, tools, params } = changes;
  const changed: Environment = {
    ...environment,
    ...(model === undefined ? {} : { model }),
    ...(instructions === undefined ? {} : { instructions }),
    ...(params === undefined ? {} : { params: { ...environment.params, ...params } }),
    ...(tools === undefined ? {} : { tools: tools.map(named) }),
  };
  return { type: "environment_synced", id, environment: changed };

  function named(name: string) {
    const tool = known.find((one) => one.name === name);
    if (tool === undefined) throw new MisuseError("invalid_argument", `prepareStep: the engine has no tool "${name}"`);
    return tool;
  }
}
