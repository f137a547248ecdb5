// Serializes an engine to JSON and restores it. Data is copied; adapters, tools, executors, middleware, and protocols
// and projectors of a program are written as names and looked up in a registry.
//
// Invariants
//   1. A description never contains an API key: an engine holds none, and settings that look like a credential are
//      rejected.
//   2. Nothing that changes what a run does is dropped. A field that is neither data nor found by a name
//      (`toolExecutor`, `toolResultEncoder`, `tokenizer`, a catalog or a result schema of the program) is described as `"custom"`,
//      and the registry has to pass it. Otherwise a tool executor that sandboxes tools would disappear, and the
//      restored engine would run them unprotected.
//   3. Functions among the options (hooks, `haltWhen`, …) cannot be described, and a description with an unknown field
//      cannot be restored.
// Only `clock` is left out, because it belongs to the process.

import type { NamedProjector } from "../kernel/internal.ts";
import type { CallerContext, Json, JsonObject } from "../model/internal.ts";
import type { ContextPolicy, Tokenizer } from "./context-policy.ts";
import type { Engine, Fallback } from "./engine.ts";
import type { Middleware } from "./middleware.ts";
import type { Adapter, ImageAdapter } from "./model-call/adapter.ts";
import type { Catalog } from "./model-call/catalog.ts";
import type { ToolExecutor, ToolResultEncoder, WhenBusy } from "./options.ts";
import type { EngineProtocol, Identity, OwnProtocol } from "./protocol.ts";
import type { CodeExecutor } from "./tool/executor.ts";
import type { AnySchema } from "./tool/schema.ts";
import type { Tool } from "./tool/tool.ts";

import { EngineError, MisuseError, parse } from "../model/internal.ts";
import { json, jsonObject, read, readOrNull, settings } from "../model/parse/reading.ts";
import { engine as newEngine } from "./engine.ts";
import { builtInCatalog } from "./model-call/catalog.ts";
import { isBusyPolicy } from "./options.ts";
import { isOwnProtocol } from "./protocol.ts";
import { isStandardSchema } from "./tool/schema.ts";

/**
 * What {@link restoreEngine} cannot read from a description. Adapters, tools, code executors and middleware are found
 * by name, protocols and projectors by name and version. The other fields replace the field of the same name, also if
 * the description has none, and are required if the described engine had a value that is not data.
 */
export type EngineRegistry<Context extends CallerContext = CallerContext> = {
  /** Found by their provider. */
  readonly adapters?: readonly Adapter[];
  /** Found by their provider. */
  readonly imageAdapters?: readonly ImageAdapter[];
  /** Found by their names. */
  readonly tools?: readonly Tool<Context>[];
  /** Found by their names. */
  readonly executors?: readonly CodeExecutor[];
  /** Found by their names. */
  readonly middleware?: readonly Middleware[];
  /** Protocols of one's own, found by name and version. */
  readonly protocols?: readonly OwnProtocol[];
  /** Found by name and version. */
  readonly projectors?: readonly NamedProjector[];
  /** Runs tool calls. */
  readonly toolExecutor?: ToolExecutor;
  /** Converts tool results for the model. */
  readonly toolResultEncoder?: ToolResultEncoder;
  /** Counts tokens for the context policy. */
  readonly tokenizer?: Tokenizer;
  /** Limits, prices and capabilities of models. The built-in catalog needs no entry here. */
  readonly catalog?: Catalog;
  /** The schema of the value that a cell of the code protocol passes to `finish`. A JSON Schema needs no entry here. */
  readonly finish?: AnySchema;
};

/** Describes a value that only the registry can restore. */
const custom = "custom";

/**
 * Describes an engine as JSON: data is copied, adapters, tools, executors and middleware are named, other functions are
 * marked as required. Throws `MisuseError` with the path of a function among the options.
 */
export function describeEngine<Context extends CallerContext>(engine: Engine<Context>): JsonObject {
  const {
    adapter,
    imageAdapter,
    tools,
    fallback,
    protocol,
    projector,
    contextPolicy,
    toolExecutor,
    toolResultEncoder,
    catalog,
    clock: _clock,
    middleware,
    ...data
  } = engine;
  return {
    // Every other field has to be data; `plainOf` rejects the rest.
    ...Object.fromEntries(Object.entries(data).map(([field, value]) => [field, plainOf(field, value)])),
    adapter: adapter?.provider ?? null,
    imageAdapter: imageAdapter?.provider ?? null,
    tools: tools.map(({ name }) => name),
    middleware: middleware.map(({ name }) => name),
    fallback: fallback.map(describeFallback),
    toolExecutor: toolExecutor === null ? null : custom,
    toolResultEncoder: toolResultEncoder === null ? null : custom,
    catalog: catalog === null ? null : catalog === builtInCatalog ? "built_in" : custom,
    protocol: describeProtocol(protocol),
    projector: projector === null ? null : identityOf(projector),
    contextPolicy: contextPolicy === null ? null : describePolicy(contextPolicy),
  };
}

function describePolicy({ tokenizer, ...policy }: ContextPolicy): Json {
  return plainOf("contextPolicy", tokenizer === undefined ? policy : { ...policy, tokenizer: custom });
}

function describeProtocol(protocol: EngineProtocol): Json {
  if (isOwnProtocol(protocol)) return { type: "own", ...identityOf(protocol) };
  if (protocol.type === "chat") return "chat";
  return {
    type: "code",
    executor: protocol.executor.name,
    requireFinish: protocol.requireFinish ?? false,
    finish: describeSchema(protocol.finish ?? null),
    limits: plainOf("limits", protocol.limits ?? {}),
  };
}

function identityOf({ name, version }: Identity): { readonly name: string; readonly version: number } {
  return { name, version };
}

/** A JSON Schema is data. A Standard Schema is not: its JSON Schema lacks its conversions and refinements. */
function describeSchema(schema: AnySchema | null): Json {
  if (schema === null) return null;
  return isStandardSchema(schema) ? custom : (readOrNull(jsonObject, schema) ?? custom);
}

/**
 * Returns a value as JSON. Throws `MisuseError` with the path of a function, or of an entry that is named like a
 * credential.
 */
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
 * Builds an engine from the description of {@link describeEngine}. Throws `EngineError` (`invalid_engine`) for a name
 * that the registry does not have, for a field that the registry has to pass, and for a field that it does not know.
 */
export function restoreEngine(described: JsonObject, registry: EngineRegistry): Engine {
  const {
    adapter = null,
    imageAdapter = null,
    tools = [],
    fallback = [],
    protocol = "chat",
    projector = null,
    contextPolicy = null,
    toolExecutor = null,
    toolResultEncoder = null,
    catalog = null,
    model = null,
    instructions = null,
    params = {},
    adapterOptions,
    metadata,
    options,
    context,
    retry,
    whenBusy = null,
    middleware = [],
    ...unknown
  } = described;
  const [unknownField] = Object.keys(unknown);
  if (unknownField !== undefined) throw invalid(`the description has a field "${unknownField}", which is not known`);
  const { adapters = [], imageAdapters = [], tools: registeredTools = [], middleware: registered = [] } = registry;
  const environment = parse("environment", { model, instructions, params });
  if (!environment.ok) throw invalid(environment.failure.message);
  return newEngine<CallerContext>({
    model: environment.value.model,
    instructions: environment.value.instructions,
    params: environment.value.params,
    adapter: adapter === null ? null : find("adapter", adapters, ({ provider }) => provider, adapter),
    imageAdapter:
      imageAdapter === null ? null : find("image adapter", imageAdapters, ({ provider }) => provider, imageAdapter),
    tools: readList("tools", tools).map((name) => find("tool", registeredTools, (tool) => tool.name, name)),
    fallback: readList("fallback", fallback).map((item) => restoreFallback(item, adapters)),
    adapterOptions: mapOf("adapterOptions", adapterOptions),
    metadata: mapOf("metadata", metadata),
    retry: retryOf(retry),
    whenBusy: busyPolicyOf(whenBusy),
    options: mapOf("options", options),
    toolExecutor: registry.toolExecutor ?? absent("toolExecutor", toolExecutor),
    toolResultEncoder: registry.toolResultEncoder ?? absent("toolResultEncoder", toolResultEncoder),
    catalog: registry.catalog ?? (catalog === "built_in" ? builtInCatalog : absent("catalog", catalog)),
    protocol: restoreProtocol(protocol, registry),
    contextPolicy: contextPolicy === null ? null : restorePolicy(contextPolicy, registry),
    projector: projector === null ? null : findVersion("projector", registry.projectors ?? [], projector),
    context: mapOf("context", context),
    middleware: readList("middleware", middleware).map((name) =>
      find("middleware", registered, (item) => item.name, name),
    ),
  });
}

function restorePolicy(described: Json, registry: EngineRegistry): ContextPolicy {
  const { tokenizer = null, ...policy } = mapOf("contextPolicy", described);
  const restored = registry.tokenizer ?? absent("tokenizer", tokenizer);
  return restored === null ? policy : { ...policy, tokenizer: restored };
}

function busyPolicyOf(described: Json): WhenBusy | null {
  if (described === null || isBusyPolicy(described)) return described;
  throw invalid("whenBusy is not a busy policy that this release knows");
}

function restoreProtocol(described: Json, { executors = [], finish, protocols = [] }: EngineRegistry): EngineProtocol {
  if (described === "chat") return { type: "chat" };
  const { type, executor = null, requireFinish, finish: describedFinish = null, limits } = mapOf("protocol", described);
  if (type === "own") return findVersion("protocol", protocols, described);
  if (type !== "code") throw invalid(`the protocol has to be "chat" or of the type "code" or "own"`);
  const schema = finish ?? restoreSchema(describedFinish);
  return {
    type: "code",
    executor: find("executor of the protocol", executors, ({ name }) => name, executor),
    requireFinish: requireFinish === true,
    ...(schema === null ? {} : { finish: schema }),
    limits: mapOf("limits", limits),
  };
}

function restoreSchema(described: Json): AnySchema | null {
  return described === null || described === custom ? absent("finish", described) : mapOf("finish", described);
}

/**
 * Returns `null` for a field that the described engine did not have. Throws `EngineError` if it had one, which the
 * registry then has to pass.
 */
function absent(field: string, described: Json): null {
  if (described === null) return null;
  throw invalid(
    `the described engine has its own ${field}, which is not data; pass it: restoreEngine(described, { ${field}: … })`,
  );
}

function invalid(message: string): EngineError {
  return new EngineError("invalid_engine", { message });
}

function restoreFallback(described: Json, adapters: readonly Adapter[]): Fallback {
  if (typeof described === "object" && described !== null && !Array.isArray(described) && "adapter" in described) {
    const adapter = find("adapter", adapters, ({ provider }) => provider, described["adapter"]);
    return { adapter, model: fallbackModel(described["model"]) };
  }
  return fallbackModel(described);
}

function fallbackModel(described: Json | undefined) {
  const parsed = parse("environment", { model: described ?? null });
  if (parsed.ok && parsed.value.model !== null) return parsed.value.model;
  throw invalid("a fallback of the described engine has no model");
}

/** Finds an item of the registry by name. Throws `EngineError` with the names that the registry has. */
function find<T>(what: string, items: readonly T[], nameOf: (item: T) => string, name: Json | undefined): T {
  const match = items.find((item) => nameOf(item) === name);
  if (match !== undefined) return match;
  const names = items.map(nameOf).join(", ");
  throw invalid(`the registry has no ${what} ${JSON.stringify(name)}; it has ${names === "" ? "none" : names}`);
}

/**
 * Finds the item with the name and version of a description. An older version among `earlier` of an item does not start
 * turns, so it is not found.
 */
function findVersion<T extends Identity>(what: string, items: readonly T[], described: Json): T {
  const { name, version } = mapOf(what, described);
  return find(what, items, versionName, versionName({ name: String(name), version: Number(version) }));
}

function versionName({ name, version }: Identity): string {
  return `${name} ${version}`;
}

function readList(field: string, value: Json): readonly Json[] {
  if (Array.isArray(value)) return value;
  throw invalid(`${field} of the description has to be a list`);
}

function mapOf(field: string, value: Json | undefined): JsonObject {
  const map = readOrNull(jsonObject, value ?? {});
  if (map !== null) return map;
  throw invalid(`${field} of the description has to be an object`);
}

function retryOf(value: Json | undefined): Engine["retry"] {
  return value === false || value === undefined || value === "default" ? (value ?? "default") : mapOf("retry", value);
}
