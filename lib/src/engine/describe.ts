// Serializes an engine to JSON and restores it. Data is copied; adapters, tools and executors are written as names and looked up in a registry.
//
// A description never contains an API key: an engine holds none, and settings that look like a credential are rejected. Functions among the
// options (hooks, `haltWhen`, …) cannot be described. `catalog`, `clock`, `toolExecutor`, `toolResultEncoder` and the schema of a code protocol's
// result are not part of a description; a restored engine has their defaults.

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
  /** Found by their provider. */
  readonly adapters?: readonly Adapter[];
  /** Found by their provider. */
  readonly imageAdapters?: readonly ImageAdapter[];
  /** Found by their names. */
  readonly tools?: readonly Tool<Context>[];
  /** Found by name and version. */
  readonly executors?: readonly CodeExecutor[];
};

/** Fields of an engine that are data. */
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

/** Returns a value as JSON. Throws `MisuseError` with the path of a function, or of an entry that is named like a credential. */
function plainOf(field: string, value: unknown): Json {
  // The `settings` reader, other than `json`, also rejects credentials.
  const parsed = typeof value === "object" && value !== null ? read(settings, value) : read(json, value);
  if ("value" in parsed) return parsed.value;
  const [first] = parsed.issues;
  throw new MisuseError(
    "not_serializable",
    `this engine cannot be described: ${field} is not JSON, or contains a credential`,
    {
      path: [field, ...(first?.path ?? [])],
    },
  );
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
  const { adapter, imageAdapter, tools = [], fallback = [], protocol, ...data } = described;
  const { adapters = [], imageAdapters = [], tools: registeredTools = [], executors = [] } = registry;
  const environment = parse("environment", {
    model: data["model"] ?? null,
    instructions: data["instructions"] ?? null,
    params: data["params"] ?? {},
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
    tools: listOf(tools).map((name) => find("tool", registeredTools, (tool) => tool.name, name)),
    fallback: listOf(fallback).map((item) => restoreFallback(item, adapters)),
    adapterOptions: mapOf(data["adapterOptions"]),
    metadata: mapOf(data["metadata"]),
    retry: retryOf(data["retry"]),
    options: mapOf(data["options"]),
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
    context: mapOf(data["context"]),
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
  const parsed = parse("environment", { model: described ?? null });
  if (parsed.ok && parsed.value.model !== null) return parsed.value.model;
  throw new EngineError("invalid_engine", { message: "a fallback of the described engine has no model" });
}

/** Finds an item of the registry by name. Throws `EngineError` with the names that the registry has. */
function find<T>(what: string, items: readonly T[], nameOf: (item: T) => string, name: Json | undefined): T {
  const match = items.find((item) => nameOf(item) === name);
  if (match !== undefined) return match;
  const names = items.map(nameOf).join(", ");
  throw new EngineError("invalid_engine", {
    message: `the registry has no ${what} ${JSON.stringify(name)}; it has ${names === "" ? "none" : names}`,
  });
}

function listOf(value: Json): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

function mapOf(value: Json | undefined): JsonObject {
  const parsed = read(jsonObject, value ?? {});
  return "value" in parsed ? parsed.value : {};
}

function retryOf(value: Json | undefined): Engine["retry"] {
  return value === false || value === undefined || value === "default" ? (value ?? "default") : mapOf(value);
}
