// Settings of a request that the AI SDK has no common field for, in the options of each provider's package: how much a
// model reasons (before specification v4), parallel calls, the key of the prompt cache.
//
// The options of a package are below its own key: `{ anthropic: { thinking: … } }`. `model.provider` begins with the
// name of the package (`anthropic.messages`), which is that key except for Bedrock and Vertex.

import type { JsonObject, ModelRequest, ReasoningSettings } from "../../core/model/internal.ts";
import type { Omission } from "../../core/wire/internal.ts";
import type { Target } from "./encode.ts";

import { omitNullish, unsupported } from "../../core/wire/internal.ts";

/** The reasoning levels of specification v4. */
const levels: readonly string[] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/** The key of a package's options. Packages for other providers use the first word of `model.provider`. */
function optionsKey(provider: string): string {
  const [word = ""] = provider.split(".");
  if (word === "amazon-bedrock") return "bedrock";
  if (word === "vertex") return "google";
  return word === "azure" || word === "azure-openai" ? "openai" : word;
}

/**
 * The reasoning level of the call, and options of the provider, for the settings of a request. Lists what the provider
 * cannot take.
 */
export function derivedOptions(
  request: ModelRequest,
  { route, specification }: Target,
  omissions: Omission[],
): { readonly reasoning: string | null; readonly providerOptions: JsonObject } {
  const key = optionsKey(route.provider);
  const { reasoning, parallelToolCalls, promptCache } = request;
  if (request.compactAt !== undefined) {
    const why = "set providerOptions in the names of the provider's package, for example contextManagement";
    omissions.push(unsupported("compactAt", why));
  }
  const effort = reasoning?.effort ?? null;
  const takesLevel = specification === "v4" && effort !== null && levels.includes(effort);
  const settings = {
    ...(reasoning === null ? {} : reasoningOptions(key, { ...reasoning, effort: takesLevel ? null : effort })),
    ...(parallelToolCalls === null ? {} : parallelOptions(key, parallelToolCalls, omissions)),
    ...(promptCache === null ? {} : cacheOptions(key, request, omissions)),
  };
  return {
    reasoning: takesLevel ? effort : null,
    providerOptions: Object.keys(settings).length === 0 ? {} : { [key]: settings },
  };
}

function reasoningOptions(key: string, { effort, budgetTokens, summary }: ReasoningSettings): JsonObject {
  switch (key) {
    case "anthropic": {
      const thinking =
        effort === "none" ? { type: "disabled" } : budgetTokens === null ? null : { type: "enabled", budgetTokens };
      return omitNullish({ thinking, effort: effort === "none" ? null : effort });
    }
    case "google": {
      const config = omitNullish({
        thinkingBudget: effort === "none" ? 0 : budgetTokens,
        thinkingLevel: effort === "none" ? null : effort,
        includeThoughts: summary === null ? null : summary !== "none",
      });
      return Object.keys(config).length === 0 ? {} : { thinkingConfig: config };
    }
    case "bedrock": {
      const config = omitNullish({
        type: effort === "none" ? "disabled" : budgetTokens === null ? null : "enabled",
        budgetTokens,
        maxReasoningEffort: effort === "none" ? null : effort,
      });
      return Object.keys(config).length === 0 ? {} : { reasoningConfig: config };
    }
    default:
      return omitNullish({ reasoningEffort: effort, reasoningSummary: key === "openai" ? summary : null });
  }
}

function parallelOptions(key: string, isParallel: boolean, omissions: Omission[]): JsonObject {
  if (key === "anthropic") return { disableParallelToolUse: !isParallel };
  if (key !== "google" && key !== "bedrock") return { parallelToolCalls: isParallel };
  if (!isParallel)
    omissions.push(unsupported("parallelToolCalls", "the provider's package cannot limit a reply to one call"));
  return {};
}

function cacheOptions(key: string, { promptCache, scope }: ModelRequest, omissions: Omission[]): JsonObject {
  const cacheKey = promptCache?.key ?? scope?.sessionId ?? null;
  if (key === "openai") return omitNullish({ promptCacheKey: cacheKey });
  const why = "set providerOptions of a message in the names of the provider's package, for example cacheControl";
  omissions.push(unsupported("promptCache", why));
  return {};
}
