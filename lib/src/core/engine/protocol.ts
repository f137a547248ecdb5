// The protocol and the projector of an engine: the built-in ones, and those of a program, which are found by name and
// version.
//
// A turn stores the name and the version of its protocol and of its projector (core/run/plan/pinned.ts).
// `protocolNamed` and `projectorNamed` find the functions again, among the current version of the engine and its
// `earlier` ones. A process whose engine does not have them leaves the turn as it is.

import type { NamedProjector, NamedProtocol } from "../kernel/internal.ts";
import type { Rule } from "./option-rules.ts";
import type { CellLimits, CodeExecutor } from "./tool/executor.ts";
import type { AnySchema } from "./tool/schema.ts";

import { invalidArgument } from "../model/internal.ts";
import { describe, isObject, json, read } from "../model/parse/reading.ts";
import { aFunction, aName, atLeastOne, checkRule } from "./option-rules.ts";

/** How replies are interpreted: as text and tool calls, as code to run, or by a protocol of one's own. */
export type EngineProtocol = { readonly type: "chat" } | CodeSettings | OwnProtocol;

/** The code protocol: the model writes cells of code, and an executor runs them. */
type CodeSettings = { readonly type: "code" } & CellSettings & {
    /** Whether the run must end with a value that a cell passed to `finish`. Default: false. */
    readonly requireFinish?: boolean;
  };

/** What runs code cells. */
export type CellSettings = {
  readonly executor: CodeExecutor;
  /** The schema of the value that a cell passes to `finish`. Default: any JSON. */
  readonly finish?: AnySchema;
  /** Limits of one cell, merged over `defaultCellLimits`. */
  readonly limits?: Partial<CellLimits>;
};

/** A protocol of one's own. If it returns `start_exec`, it needs an executor. */
export type OwnProtocol = NamedProtocol & { readonly type?: never } & Partial<CellSettings>;

/** What runs the cells of a protocol; `null`: it has no executor. */
export function cellSettingsOf(protocol: EngineProtocol): CellSettings | null {
  if (!("executor" in protocol) || protocol.executor === undefined) return null;
  // Each field by name: a spread would lose those that an instance of a class inherits.
  const { executor, finish, limits } = protocol;
  return { executor, ...(finish === undefined ? {} : { finish }), ...(limits === undefined ? {} : { limits }) };
}

/** Is this a protocol of one's own? */
export function isOwnProtocol(protocol: EngineProtocol): protocol is OwnProtocol {
  return protocol.type === undefined;
}

/** The protocol with this name and version; `null`: the engine has none. */
export function protocolNamed(protocol: EngineProtocol, wanted: Identity): NamedProtocol | null {
  return isOwnProtocol(protocol) ? named(protocol, wanted) : null;
}

/** The projector with this name and version; `null`: the engine has none. */
export function projectorNamed(projector: NamedProjector | null, wanted: Identity): NamedProjector | null {
  return projector === null ? null : named(projector, wanted);
}

/** The name and version by which a turn finds its protocol or its projector. */
export type Identity = { readonly name: string; readonly version: number };

function named<T extends Identity & { readonly earlier?: readonly T[] }>(
  current: T,
  { name, version }: Identity,
): T | null {
  if (current.name === name && current.version === version) return current;
  for (const item of current.earlier ?? []) {
    const found = named(item, { name, version });
    if (found !== null) return found;
  }
  return null;
}

/** Throws `MisuseError` unless the value is a protocol. It names the field and says what to do. */
export function checkProtocol(protocol: unknown): void {
  if (!isObject(protocol)) throw notAnObject(["protocol"], protocol);
  const { type, executor } = protocol;
  if (type === "chat") return;
  const isExecutor = isObject(executor) && typeof executor["run"] === "function";
  if (!isExecutor && (type === "code" || executor !== undefined)) {
    throw wrong(["protocol", "executor"], `must be a code executor, not ${describe(executor)}`);
  }
  if (type === "code") return;
  if (type !== undefined) {
    const known = `there are "chat" and "code"; a protocol of your own has no type, but a name and a version`;
    throw wrong(["protocol", "type"], `${JSON.stringify(type) ?? describe(type)} is no protocol: ${known}`);
  }
  checkNamed(["protocol"], protocol, protocolFunctions, checkTermination);
  if (protocol["name"] === "chat" || protocol["name"] === "code") {
    throw wrong(["protocol", "name"], `must not be that of the built-in protocol ${JSON.stringify(protocol["name"])}`);
  }
}

/** Throws `MisuseError` unless the value is a projector or `null`. */
export function checkProjector(projector: unknown): void {
  if (projector === null) return;
  if (!isObject(projector)) throw notAnObject(["projector"], projector);
  checkNamed(["projector"], projector, ["project"], () => undefined);
}

const protocolFunctions = ["prepareProtocolIteration", "handleLlmSuccess", "handleToolResults", "handleExecResult"];

type Fields = { readonly [field: string]: unknown };

const identityName: Rule = {
  ...aName,
  must: "a text that is not empty, because stored turns find it again by its name and version",
};

function checkNamed(
  path: readonly string[],
  value: Fields,
  functions: readonly string[],
  checkMore: (path: readonly string[], value: Fields) => void,
): void {
  const { name, version, earlier = [] } = value;
  checkRule("engine: ", [...path, "name"], name, identityName);
  checkRule("engine: ", [...path, "version"], version, atLeastOne);
  for (const field of functions) checkRule("engine: ", [...path, field], value[field], aFunction);
  checkMore(path, value);
  if (!Array.isArray(earlier)) throw wrong([...path, "earlier"], `must be a list, not ${describe(earlier)}`);
  for (const [index, item] of earlier.entries()) {
    const at = [...path, "earlier", String(index)];
    if (!isObject(item)) throw notAnObject(at, item);
    checkNamed(at, item, functions, checkMore);
    if (item["name"] !== name || item["version"] === version) {
      throw wrong(at, `must have the name ${JSON.stringify(name)} and another version than ${String(version)}`);
    }
  }
}

function checkTermination(path: readonly string[], { termination }: Fields): void {
  const result = read(json, termination);
  if ("value" in result) return;
  const at = [...path, "termination", ...(result.issues[0]?.path ?? []).map(String)];
  throw wrong(at, "must be JSON, because it is stored with each turn; null: the protocol has no end condition");
}

function notAnObject(path: readonly string[], value: unknown): Error {
  return wrong(path, `must be an object, not ${describe(value)}`);
}

function wrong(path: readonly string[], what: string): Error {
  return invalidArgument(`engine: ${path.join(".")} ${what}`, path);
}
