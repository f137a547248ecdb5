// Asks the caller whether the next step should work with something else.

import type { EnvironmentFailed, EnvironmentSynced, SyncEnvironment, Turn } from "../../kernel/internal.ts";
import type { Environment } from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";

import { priceOf } from "../../engine/internal.ts";
import { MisuseError } from "../../model/internal.ts";

export async function performEnvironment(
  { prepareStep, toolSpecs: known, budgets }: RunPlan,
  { id, updateMachineConfig }: SyncEnvironment,
  { step, environment }: Turn,
): Promise<EnvironmentSynced | EnvironmentFailed> {
  // What a turn starts with is pinned already; only a later step can be changed.
  if (!updateMachineConfig || prepareStep === null || prepareStep === undefined) {
    return { type: "environment_synced", id, environment: null };
  }
  const changes = await prepareStep({ step, environment });
  if (changes === null || changes === undefined) return { type: "environment_synced", id, environment: null };
  const { model, instructions, tools, params } = changes;
  const changed: Environment = {
    ...environment,
    ...(model === undefined ? {} : { model }),
    ...(instructions === undefined ? {} : { instructions }),
    ...(params === undefined ? {} : { params: { ...environment.params, ...params } }),
    ...(tools === undefined ? {} : { tools: tools.map(named) }),
  };
  if (budgets.cost !== undefined && priceOf(changed.model) === null) {
    const name = typeof changed.model === "string" ? changed.model : (changed.model?.id ?? "no model");
    return { type: "environment_failed", id, message: `unknown_price: a cost budget needs the price of ${name}` };
  }
  return { type: "environment_synced", id, environment: changed };

  function named(name: string) {
    const tool = known.find((one) => one.name === name);
    if (tool === undefined) throw new MisuseError("invalid_argument", `prepareStep: the engine has no tool "${name}"`);
    return tool;
  }
}
