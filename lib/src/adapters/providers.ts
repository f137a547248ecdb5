import type { Adapter, AdapterCall } from "../engine/internal.ts";
import type { JsonObject, ModelEvent, ModelName, ModelRequest } from "../model/internal.ts";

import { adapterFailure, assistant, EngineError } from "../model/internal.ts";
import { objectAt, textAt } from "../wire/internal.ts";

/**
 * Combines several adapters: a model is named `"provider:model"` or by a reference with a provider. A name without
 * a provider goes to the only adapter, and fails if there are several.
 */
export function providers(known: { readonly [name: string]: Adapter }): Adapter {
  const names = Object.keys(known);
  const find = (request: ModelRequest) => {
    const { provider, model } = split(request.model, names);
    const name = provider ?? (names.length === 1 ? (names[0] ?? "") : "");
    const adapter = ownOf(known, name);
    if (adapter === undefined) {
      const message = `no provider for the model ${JSON.stringify(nameOf(request.model))}; say which: ${names.map((name) => `"${name}:…"`).join(", ")}`;
      throw new EngineError("missing_model", { message });
    }
    return { adapter, name, request: { ...request, model } };
  };
  return {
    provider: "providers",
    needsFinalize: (request) => {
      const found = find(request);
      return found.adapter.needsFinalize?.(found.request) ?? false;
    },
    stream: (request, call) => {
      const found = find(request);
      return found.adapter.stream(found.request, named(found.name, call));
    },
    resume: (reference, request, call) => {
      const found = find(request);
      const own = ownReference(found.name, reference);
      return own === null || found.adapter.resume === undefined
        ? unknownWork(found.name)
        : found.adapter.resume(own, found.request, call);
    },
    cancel: async (reference, call) => {
      const name = textAt(reference, "provider");
      const own = name === null ? null : ownReference(name, reference);
      if (name !== null && own !== null) await ownOf(known, name)?.cancel?.(own, call);
    },
  };
}

/** References name the provider that they are of: a reference alone does not say which model was asked. */
function named(provider: string, call: AdapterCall): AdapterCall {
  const { onReference } = call;
  if (onReference === undefined) return call;
  return { ...call, onReference: (reference) => onReference({ provider, reference }) };
}

/** The end of work that cannot be found again. */
async function* unknownWork(provider: string): AsyncGenerator<readonly ModelEvent[]> {
  const error = adapterFailure("invalid_request", { provider, message: `${provider}: the reference is of other work` });
  yield [
    { type: "message_started", message: assistant("") },
    { type: "error", error },
  ];
}

function ownReference(provider: string, reference: JsonObject): JsonObject | null {
  return textAt(reference, "provider") === provider ? objectAt(reference, "reference") : null;
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
