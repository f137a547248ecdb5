// Options of durable verbs are stored with the turn and read by whichever process drives it: they have to be JSON, and may hold no key.

import type { JsonObject } from "../../model/internal.ts";
import type { DurableOptions, StartOptions } from "../types.ts";

import { MisuseError, renderIssue } from "../../model/internal.ts";
import { isPlainObject, read, settings } from "../../model/parse/reading.ts";
import { checkedWaits } from "./waits.ts";

/** Said to the verb, and not to the run: to every verb, and to the one that begins a session. */
const ofVerb: readonly string[] = ["engine", "key", "version", "continue"];
const ofStart: readonly string[] = [...ofVerb, "id", "context", "metadata"];

/** What only an engine can say, and why. */
const ofEngine = new Set([
  "haltWhen",
  "prepareStep",
  "onCheckpoint",
  "onEvent",
  "tools",
  "toolExecutor",
  "toolResultEncoder",
  "hooks",
  "signal",
  "apiKey",
]);

/** What a run in memory may be told, and a turn that is stored is not: who it is for, and what its one reader wants to see. */
const ofMemory = new Set(["sessionId", "requestId", "emitTextDeltas", "emitToolDeltas", "includeRawChunks", "context"]);

/** What options have to be that nobody else looks at before they are stored. */
const kinds: readonly (readonly [name: string, kind: string, fits: (value: unknown) => boolean])[] = [
  ["engine", "the name of an engine", (value) => typeof value === "string"],
  ["key", "a text", (value) => typeof value === "string"],
  ["version", "a whole number", (value) => Number.isSafeInteger(value)],
  ["continue", "true or false", (value) => typeof value === "boolean"],
  ["repair", "a whole number of 0 or more", isCount],
  ["maxToolResultLength", "a whole number of 0 or more", isCount],
];

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

/** Options are an object, also from callers without a compiler. */
export function checkOptions(verb: string, options: unknown): void {
  if (isPlainObject(options)) return;
  throw new MisuseError("invalid_argument", `${verb}: the options have to be an object`);
}

/** The options of the run, as they are stored. What cannot be is the caller's bug. */
export function storedOptions(options: DurableOptions): JsonObject {
  return stored(options, ofVerb);
}

/** The same for the verb that begins a session. */
export function storedStartOptions(options: StartOptions): JsonObject {
  return stored(options, ofStart);
}

function stored(options: DurableOptions | StartOptions, ofTheVerb: readonly string[]): JsonObject {
  checkOptions("options", options);
  const given: { readonly [name: string]: unknown } = options;
  for (const [name, kind, fits] of kinds) {
    if (given[name] === undefined || fits(given[name])) continue;
    throw new MisuseError("invalid_argument", `${name} has to be ${kind}`, { path: [name] });
  }
  const rest: { [name: string]: unknown } = {};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || ofTheVerb.includes(name)) continue;
    if (typeof value === "function" || ofEngine.has(name)) {
      throw new MisuseError(
        "invalid_argument",
        `${name} cannot be stored with a turn; it belongs to the engine that the turn names, which every process that drives it has`,
        { path: [name] },
      );
    }
    if (ofMemory.has(name)) {
      throw new MisuseError("unknown_field", `"${name}" is no option of a turn that is stored`, { path: [name] });
    }
    rest[name] = value;
  }
  const found = read(settings, rest);
  if (!("value" in found)) {
    const [first] = found.issues;
    throw new MisuseError("invalid_argument", `options: ${found.issues.slice(0, 3).map(renderIssue).join("; ")}`, {
      path: first?.path ?? [],
    });
  }
  checkedWaits(found.value["waits"]);
  return found.value;
}

/** The same for the run: what only the runtime looks at is left out. */
export function runOptions(options: JsonObject): JsonObject {
  const { waits: _, ...rest } = options;
  return rest;
}

/** Checks options that are all texts, also from callers without a compiler. */
export function checkTexts(
  verb: string,
  options: { readonly [name: string]: unknown },
  names: readonly string[],
): void {
  checkOptions(verb, options);
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new MisuseError("unknown_field", `${verb}: "${unknown}" is no option`, { path: [unknown] });
  }
  const wrong = names.find((name) => options[name] !== undefined && typeof options[name] !== "string");
  if (wrong === undefined) return;
  throw new MisuseError("invalid_argument", `${verb}: ${wrong} has to be a text`, { path: [wrong] });
}
