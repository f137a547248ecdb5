// An engine as JSON, and back. What is data is written down; adapters, tools and executors are named, and found again in a registry. A key is
// never part of it: an engine has none.

import type { CallerContext, Json, JsonObject } from "../model/internal.ts";
import type { Engine, Fallback } from "./engine.ts";
import type { Adapter, ImageAdapter } from "./model-call/adapter.ts";
import type { CodeExecutor } from "./tool/executor.ts";
import type { Tool } from "./tool/tool.ts";

import { EngineError, MisuseError, parse } from "../model/internal.ts";
import { json, jsonObject, read, settings } from "../model/parse/reading.ts";
import { engine as newEngine } from "./engine.ts";

/** Adapters, tools and executors that {@link restoreEngine} finds by name. */
export type EngineRegistry<Context extends CallerContext = CallerContext> = {
  readonly adapters?: readonly Adapter[];
  readonly imageAdapters?: readonly ImageAdapter[];
  readonly tools?: readonly Tool<Context>[];
  readonly executors?: readonly CodeExecutor[];
};

const plainFields = [
  "model",
  "instructions",
  "params",
  "adapterOptions",
  "retry",
  "metadata",
  "options",
  "context",
] as const;

/**
 * Describes an engine as JSON: data is copied, adapters, tools and executors are named. Throws `MisuseError` with
 * the path of a function among the options.
 */
export function describeEngine<Context extends CallerContext>(engine: Engine<Context>): JsonObject {
  const plain = Object.fromEntries(plainFields.map((field) => [field, plainOf(field, engine[field])]));
  const { protocol, adapter, imageAdapter, tools, fallback } = engine;
  return {
    ...plain,
    adapter: adapter?.provider ?? null,
    imageAdapter: imageAdapter?.provider ?? null,
    tools: tools.map(({ name }) => name),
    fallback: fallback.map(describeFallback),
    protocol:
      protocol.type === "chat"
        ? "chat"
        : {
            type: "code",
            executor: protocol.executor.name,
            requireFinish: protocol.requireFinish ?? false,
            limits: plainOf("limits", protocol.limits ?? {}),
          },
  };
}

function plainOf(field: string, value: unknown): Json {
  // As settings are read: a key among them is refused.
  const found = typeof value === "object" && value !== null ? read(settings, value) : read(json, value);
  if ("value" in found) return found.value;
  const [first] = found.issues;
  throw new MisuseError("not_serializable", `this engine cannot be described: ${field} is not JSON, or holds a key`, {
    path: [field, ...(first?.path ?? [])],
  });
}

function describeFallback(fallback: Fallback): Json {
  if (typeof fallback === "object" && "adapter" in fallback) {
    return { adapter: fallback.adapter.provider, model: plainOf("fallback", fallback.model) };
  }
  return plainOf("fallback", fallback);
}

/**
 * Builds an engine from the description of {@link describeEngine}. Throws `EngineError` for a name that the
 * registry does not have.
 */
export function restoreEngine(described: JsonObject, registry: EngineRegistry): Engine {
  const { adapter, imageAdapter, tools = [], fallback = [], protocol, ...rest } = described;
  const { adapters = [], imageAdapters = [], tools: known = [], executors = [] } = registry;
  const environment = parse("environment", {
    model: rest["model"] ?? null,
    instructions: rest["instructions"] ?? null,
    params: rest["params"] ?? {},
  });
  if (!environment.ok) throw new EngineError("invalid_engine", { message: environment.failure.message });
  const { model, instructions, params } = environment.value;
  const code =
    typeof protocol === "object" && protocol !== null && !Array.isArray(protocol) && "executor" in protocol
      ? protocol
      : null;
  return newEngine<CallerContext>({
    model,
    instructions,
    params,
    adapter:
      adapter === null || adapter === undefined ? null : find("adapter", adapters, ({ provider }) => provider, adapter),
    imageAdapter:
      imageAdapter === null || imageAdapter === undefined
        ? null
        : find("image adapter", imageAdapters, ({ provider }) => provider, imageAdapter),
    tools: listOf(tools).map((name) => find("tool", known, (tool) => tool.name, name)),
    fallback: listOf(fallback).map((one) => restoreFallback(one, adapters)),
    adapterOptions: mapOf(rest["adapterOptions"]),
    metadata: mapOf(rest["metadata"]),
    retry: retryOf(rest["retry"]),
    options: mapOf(rest["options"]),
    ...(code === null
      ? {}
      : {
          protocol: {
            type: "code",
            executor: find("executor", executors, ({ name }) => name, code["executor"]),
            requireFinish: code["requireFinish"] === true,
            limits: mapOf(code["limits"]),
          },
        }),
    context: mapOf(rest["context"]),
  });
}

function restoreFallback(described: Json, adapters: readonly Adapter[]): Fallback {
  if (typeof described === "object" && described !== null && !Array.isArray(described) && "adapter" in described) {
    const adapter = find("adapter", adapters, ({ provider }) => provider, described["adapter"]);
    return { adapter, model: modelOf(described["model"]) };
  }
  return modelOf(described);
}

function modelOf(described: Json | undefined) {
  const found = parse("environment", { model: described ?? null });
  if (found.ok && found.value.model !== null) return found.value.model;
  throw new EngineError("invalid_engine", { message: "a fallback names no model" });
}

function find<T>(what: string, known: readonly T[], nameOf: (one: T) => string, name: Json | undefined): T {
  const found = known.find((one) => nameOf(one) === name);
  if (found !== undefined) return found;
  const names = known.map(nameOf).join(", ");
  throw new EngineError("invalid_engine", {
    message: `the registry has no ${what} ${JSON.stringify(name)}; it has ${names === "" ? "none" : names}`,
  });
}

function listOf(value: Json): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

function mapOf(value: Json | undefined): JsonObject {
  const found = read(jsonObject, value ?? {});
  return "value" in found ? found.value : {};
}

function retryOf(value: Json | undefined): Engine["retry"] {
  return value === false || value === undefined || value === "default" ? (value ?? "default") : mapOf(value);
}
