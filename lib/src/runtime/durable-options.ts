// Options of durable verbs are stored with the turn and read by whichever process drives it: they have to be JSON, and may hold no key.

import type { JsonObject } from "../model/index.ts";
import type { DurableOptions } from "./types.ts";

import { MisuseError, renderIssue } from "../model/index.ts";
import { read, settings } from "../model/reading.ts";
import { checkedWaits } from "./waits.ts";

/** Said to the verb, and not to the run. */
const ofVerb = ["engine", "key", "version", "id", "context", "metadata", "continue"] as const;

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

/** The options of the run, as they are stored. What cannot be is the caller's bug. */
export function storedOptions(options: DurableOptions): JsonObject {
  const rest: { [name: string]: unknown } = {};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || ofVerb.some((one) => one === name)) continue;
    if (typeof value === "function" || ofEngine.has(name)) {
      throw new MisuseError(
        "invalid_argument",
        `${name} cannot be stored with a turn; it belongs to the engine that the turn names, which every process that drives it has`,
        { path: [name] },
      );
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
