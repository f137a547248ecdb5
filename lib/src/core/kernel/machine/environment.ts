// The environment of a turn and the digest by which model calls name it (Q6).

import type { Environment } from "../../model/internal.ts";
import type { TurnProtocol } from "../protocol/protocol.ts";
import type { Turn, TurnMachineConfig } from "./turn.ts";

import { canonicalJson } from "../../model/internal.ts";
import { digestOf } from "../history/history.ts";

/** The environment a turn starts with. `modelVariant` becomes the reasoning effort, which `generation` may override. */
export function startEnvironment<P extends TurnProtocol>(config: TurnMachineConfig<P>): Environment {
  const { systemPrompt, model, toolSpecs, providerTools, modelVariant, generation } = config;
  const params = modelVariant === null ? generation : { reasoning: { effort: modelVariant }, ...generation };
  return { instructions: systemPrompt, model, tools: toolSpecs, providerTools, params };
}

/**
 * The environment for the replies after the one that a tool choice forced (`required`, or a named tool): a model that
 * always has to call a tool never answers. A sync of the environment can set the choice again. `none` and `auto` stay.
 */
export function withoutForcedChoice(environment: Environment): Environment {
  const { toolChoice = null, ...params } = environment.params;
  return toolChoice === null || toolChoice === "none" || toolChoice === "auto"
    ? environment
    : { ...environment, params };
}

/** The fields of a turn that hold its environment. Both are always set together, so that the digest matches. */
export function environmentFields(environment: Environment): Pick<Turn, "environment" | "environmentDigest"> {
  return { environment, environmentDigest: digestOf(canonicalJson(environment)) };
}
