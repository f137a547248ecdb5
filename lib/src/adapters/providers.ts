import type { Adapter } from "../engine/internal.ts";
import type { ModelName, ModelRequest } from "../model/internal.ts";

import { EngineError } from "../model/internal.ts";

/**
 * Combines several adapters: a model is named `"provider:model"` or by a reference with a provider. A name without
 * a provider goes to the only adapter, and fails if there are several.
 */
export function providers(known: { readonly [name: string]: Adapter }): Adapter {
  const names = Object.keys(known);
  const find = (request: ModelRequest) => {
    const { provider, model } = split(request.model, names);
    const adapter =
      provider === null ? (names.length === 1 ? known[names[0] ?? ""] : undefined) : ownOf(known, provider);
    if (adapter === undefined) {
      const message = `no provider for the model ${JSON.stringify(nameOf(request.model))}; say which: ${names.map((name) => `"${name}:…"`).join(", ")}`;
      throw new EngineError("missing_model", { message });
    }
    return { adapter, request: { ...request, model } };
  };
  return {
    provider: "providers",
    needsFinalize: (request) => {
      const found = find(request);
      return found.adapter.needsFinalize?.(found.request) ?? false;
    },
    stream: (request, call) => {
      const found = find(request);
      return found.adapter.stream(found.request, call);
    },
  };
}

/** Not what every object has: `toString` is no provider. */
function ownOf(known: { readonly [name: string]: Adapter }, name: string): Adapter | undefined {
  return Object.hasOwn(known, name) ? known[name] : undefined;
}

function split(
  model: ModelName | null,
  names: readonly string[],
): { readonly provider: string | null; readonly model: ModelName | null } {
  if (model === null) return { provider: null, model };
  if (typeof model !== "string") return { provider: model.provider, model };
  const [prefix = "", ...rest] = model.split(":");
  return rest.length > 0 && names.includes(prefix)
    ? { provider: prefix, model: rest.join(":") }
    : { provider: null, model };
}

function nameOf(model: ModelName | null): string {
  return typeof model === "string" ? model : (model?.id ?? "");
}
