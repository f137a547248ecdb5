// The performer of `sync_environment`: asks `prepareStep` of the caller whether the next step uses another environment.

import type { EnvironmentFailed, EnvironmentSynced, SyncEnvironment, Turn } from "../../kernel/internal.ts";
import type { Environment } from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";

import { priceOf, withCatalogData } from "../../engine/internal.ts";
import { invalidArgument } from "../../model/internal.ts";

/**
 * Returns the changed environment, or `null` for no change. Fails the turn with `unknown_price` if a cost budget is set
 * and the price of the new model is not known (Q12). Rejects if `prepareStep` throws or names a tool that the engine
 * does not have.
 */
export async function performEnvironment(
  { options: { prepareStep }, toolSpecs: engineTools, limits: { budgets }, adapter, catalog }: RunPlan,
  { id, updateMachineConfig }: SyncEnvironment,
  { step, environment, revision }: Turn,
): Promise<EnvironmentSynced | EnvironmentFailed> {
  // A turn of kernel revision 1 ignores a change of its first environment.
  const mayChange = updateMachineConfig || revision > 1;
  if (!mayChange || prepareStep === undefined) {
    return { type: "environment_synced", id, environment: null };
  }
  const changes = await prepareStep({ step, environment });
  if (changes === null || changes === undefined) return { type: "environment_synced", id, environment: null };
  const { model, instructions, tools, params } = changes;
  const changed: Environment = {
    ...environment,
    ...(model === undefined ? {} : { model: withCatalogData(model, adapter.provider, catalog) }),
    ...(instructions === undefined ? {} : { instructions }),
    ...(params === undefined ? {} : { params: { ...environment.params, ...params } }),
    ...(tools === undefined ? {} : { tools: tools.map(specOf) }),
  };
  if (budgets.cost !== undefined && priceOf(changed.model) === null) {
    const name = typeof changed.model === "string" ? changed.model : (changed.model?.id ?? "no model");
    return {
      type: "environment_failed",
      id,
      message: `unknown_price: budgets.cost is set, and the price of ${name} is not known`,
    };
  }
  return { type: "environment_synced", id, environment: changed };

  function specOf(name: string) {
    const tool = engineTools.find((candidate) => candidate.name === name);
    if (tool === undefined) throw invalidArgument(`prepareStep: the engine has no tool "${name}"`);
    return tool;
  }
}
