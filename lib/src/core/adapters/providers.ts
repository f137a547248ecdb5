// Combines several adapters into one. A model name selects the adapter: `"openai:gpt-5"`, or a model reference with a
// provider.

import type { Adapter, AdapterCall, AdapterOptions } from "../engine/internal.ts";
import type { JsonObject, ModelEvent, ModelName, ModelRequest } from "../model/internal.ts";

import { adapterFailure, AdapterError, assistant, EngineError } from "../model/internal.ts";
import { objectAt, textAt } from "../wire/internal.ts";

/**
 * Combines several adapters: a model is named `"provider:model"` or by a reference with a provider. A name without
 * a provider goes to the only adapter, and fails if there are several.
 */
export function providers(adapters: { readonly [name: string]: Adapter }): Adapter {
  const names = Object.keys(adapters);
  const findTarget = (modelName: ModelName | null) => {
    const { provider, model } = splitModelName(modelName, names);
    const name = provider ?? (names.length === 1 ? (names[0] ?? "") : "");
    const adapter = adapterNamed(adapters, name);
    return adapter === undefined ? null : { adapter, name, model };
  };
  const requiredTarget = (modelName: ModelName | null) => {
    const target = findTarget(modelName);
    if (target !== null) return target;
    const what =
      modelName === null ? "no model is set" : `no provider for the model ${JSON.stringify(modelNameText(modelName))}`;
    const message = `${what}; name one: ${names.map((name) => `"${name}:…"`).join(", ")}`;
    throw new EngineError("missing_model", { message });
  };
  const resolveTarget = (request: ModelRequest) => {
    const { adapter, name, model } = requiredTarget(request.model);
    return { adapter, name, request: { ...request, model } };
  };
  return {
    provider: "providers",
    checkOptions: (options) => {
      const refusals = Object.values(adapters).map((adapter) => refusalOf(adapter, options));
      const [refusal] = refusals;
      // The model decides which adapter gets the options, so they are refused only if every adapter refuses them.
      if (refusal !== undefined && refusal !== null && !refusals.includes(null)) throw refusal.error;
    },
    checkModel: (modelName, options) => {
      const { adapter, model } = requiredTarget(modelName);
      adapter.checkModel?.(model, options);
    },
    // Also called for a request whose model is set later, by `prepareStep`.
    needsFinalize: (request) => {
      const target = findTarget(request.model);
      return target?.adapter.needsFinalize?.({ ...request, model: target.model }) ?? false;
    },
    stream: (request, call) => {
      const target = resolveTarget(request);
      return target.adapter.stream(target.request, withProviderInReference(target.name, call));
    },
    encode: async (request) => {
      const target = resolveTarget(request);
      return (await target.adapter.encode?.(target.request)) ?? null;
    },
    countTokens: async (request, call) => {
      const target = resolveTarget(request);
      if (target.adapter.countTokens !== undefined) return target.adapter.countTokens(target.request, call);
      const { provider } = target.adapter;
      const message = `${provider} has no endpoint that counts tokens`;
      throw new AdapterError("unsupported_feature", { provider, message });
    },
    resume: (reference, request, call) => {
      const target = resolveTarget(request);
      const innerReference = unwrapReference(target.name, reference);
      return innerReference === null || target.adapter.resume === undefined
        ? foreignReference(target.name)
        : target.adapter.resume(innerReference, target.request, call);
    },
    cancel: async (reference, call) => {
      const name = textAt(reference, "provider");
      const innerReference = name === null ? null : unwrapReference(name, reference);
      if (name !== null && innerReference !== null) await adapterNamed(adapters, name)?.cancel?.(innerReference, call);
    },
  };
}

/** The error with which an adapter refuses options; `null`: it accepts them. */
function refusalOf(adapter: Adapter, options: AdapterOptions): { readonly error: unknown } | null {
  try {
    adapter.checkOptions?.(options);
    return null;
  } catch (error) {
    return { error };
  }
}

/** Wraps references to background work with the provider, because `cancel` gets a reference without a model. */
function withProviderInReference(provider: string, call: AdapterCall): AdapterCall {
  const { onReference } = call;
  if (onReference === undefined) return call;
  return { ...call, onReference: (reference) => onReference({ provider, reference }) };
}

/** The events for a reference that belongs to another provider, or to an adapter without background work. */
async function* foreignReference(provider: string): AsyncGenerator<readonly ModelEvent[]> {
  const error = adapterFailure("invalid_request", {
    provider,
    message: `${provider}: the reference belongs to another provider`,
  });
  yield [
    { type: "message_started", message: assistant("") },
    { type: "error", error },
  ];
}

function unwrapReference(provider: string, reference: JsonObject): JsonObject | null {
  return textAt(reference, "provider") === provider ? objectAt(reference, "reference") : null;
}

/** The adapter of a name. Own properties only: a model `toString:x` must not find `Object.prototype.toString`. */
function adapterNamed(adapters: { readonly [name: string]: Adapter }, name: string): Adapter | undefined {
  return Object.hasOwn(adapters, name) ? adapters[name] : undefined;
}

/**
 * Splits `"provider:model"` if the prefix is one of `names`. Other colons belong to the model name (`llama3:8b`). A
 * name may differ from the provider of its adapter, which refuses models of other providers, so a reference loses its
 * provider.
 */
function splitModelName(
  model: ModelName | null,
  names: readonly string[],
): { readonly provider: string | null; readonly model: ModelName | null } {
  if (model === null) return { provider: null, model };
  if (typeof model !== "string") return { provider: model.provider, model: { ...model, provider: null } };
  const [prefix = "", ...nameParts] = model.split(":");
  return nameParts.length > 0 && names.includes(prefix)
    ? { provider: prefix, model: nameParts.join(":") }
    : { provider: null, model };
}

function modelNameText(model: ModelName | null): string {
  return typeof model === "string" ? model : (model?.id ?? "");
}
