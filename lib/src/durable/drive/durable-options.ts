// Options of durable verbs. They are stored with the turn, because any process may drive it, so they must be JSON
// without secrets. The schema of `output` may be of any library and is stored as JSON Schema. Which options of a run
// are stored, and why the others are refused, is declared in `core/engine/run-options.ts`; the options of the verbs
// themselves are declared in `verbOptionTable`.

import type { DurableRefusal } from "../../core/engine/internal.ts";
import type { JsonObject, MisuseReason } from "../../core/model/internal.ts";
import type { DurableOptions, MessageOptions, SessionFields, StartOptions, VerbOptions } from "./types.ts";

import {
  busyPolicies,
  isBusyPolicy,
  checkRule,
  isRunOption,
  numberIn,
  numericOptions,
  runOptionTable,
  toJsonSchema,
} from "../../core/engine/internal.ts";
import { MisuseError, renderIssue } from "../../core/model/internal.ts";
import { isPlainObject, read, settings } from "../../core/model/parse/reading.ts";
import { isLimitKey, limitKeyRule } from "../rows/limits.ts";
import { checkedWaits } from "../rows/waits.ts";

/** The properties of an option of a verb. */
type VerbOptionRow = {
  /** The verbs that have the option. For other verbs the name is an option of the run. */
  readonly verbs: "all" | "start" | "message";
  /** Whether it is stored among the options of the turn. `runOptions` removes it before the run. */
  readonly stored: boolean;
  /**
   * Whether an HTTP client may set it among the options of a turn. Some of the others have a header or a body field of
   * their own.
   */
  readonly http: "always" | "no";
  /** The type check, before the verb does anything; `null`: it is checked elsewhere. */
  readonly check: { readonly kind: string; readonly fits: (value: unknown) => boolean } | null;
};

const text = { kind: "a string", fits: (value: unknown) => typeof value === "string" };
const flag = { kind: "true or false", fits: (value: unknown) => typeof value === "boolean" };
const whole = { kind: "a whole number", fits: (value: unknown) => Number.isSafeInteger(value) };
const limitKey = { kind: limitKeyRule, fits: isLimitKey };
const policy = { kind: `one of ${busyPolicies.join(", ")}`, fits: isBusyPolicy };

/** The options of durable verbs that are not options of the run. */
export const verbOptionTable = {
  engine: { verbs: "all", stored: false, http: "always", check: { ...text, kind: "the name of an engine" } },
  key: { verbs: "all", stored: false, http: "no", check: text },
  version: { verbs: "all", stored: false, http: "always", check: whole },
  waits: { verbs: "all", stored: true, http: "always", check: null },
  // Over HTTP it comes from the authenticated caller, never from the request: a caller that chooses its key evades the
  // limit.
  limitKey: { verbs: "all", stored: true, http: "no", check: limitKey },
  continue: { verbs: "all", stored: false, http: "no", check: flag },
  whenBusy: { verbs: "message", stored: false, http: "no", check: policy },
  id: { verbs: "start", stored: false, http: "no", check: null },
  turnContext: { verbs: "all", stored: false, http: "no", check: null },
  context: { verbs: "start", stored: false, http: "no", check: null },
  metadata: { verbs: "start", stored: false, http: "no", check: null },
} as const satisfies {
  readonly [Name in keyof VerbOptions | keyof SessionFields | "continue" | "whenBusy"]: VerbOptionRow;
};

/** The names of the options whose row has these properties. */
export type VerbOptionsWith<Properties> = {
  [Name in keyof typeof verbOptionTable]: (typeof verbOptionTable)[Name] extends Properties ? Name : never;
}[keyof typeof verbOptionTable];

const verbOptions: readonly (readonly [name: string, row: VerbOptionRow])[] = Object.entries(verbOptionTable);

/** Why an option cannot be stored with a turn, and what to do instead. */
const refusals: {
  readonly [Why in DurableRefusal]: { readonly reason: MisuseReason; readonly because: string };
} = {
  function: {
    reason: "invalid_argument",
    because:
      "functions are not stored; set it on the engine that the turn names, which every process that drives the turn has",
  },
  secret: {
    reason: "invalid_argument",
    because: "keys are never stored; the adapter of the engine that the turn names must provide the key",
  },
  live: {
    reason: "invalid_argument",
    because: "it exists in this process only; cancel a turn with cancel(), and read its events from its handle",
  },
  reader: { reason: "unknown_field", because: "every reader of the turn receives the same events" },
  session: { reason: "unknown_field", because: "it follows from the session and the turn" },
};

/** Throws `MisuseError` for options that are not an object: callers may not use a compiler. */
export function checkOptions(verb: string, options: unknown): void {
  if (isPlainObject(options)) return;
  throw new MisuseError("invalid_argument", `${verb}: the options must be an object`);
}

/** The options to store with the turn. Throws `MisuseError` if one is invalid or cannot be stored. */
export function storedOptions(options: DurableOptions<unknown>): JsonObject {
  return stored(options, ["all"]);
}

/** The options of `reply` and `send` to store with the turn. */
export function storedMessageOptions(options: MessageOptions<unknown>): JsonObject {
  return stored(options, ["all", "message"]);
}

/** The options of `start` to store with the turn. */
export function storedStartOptions(options: StartOptions<unknown>): JsonObject {
  return stored(options, ["all", "start"]);
}

function stored(
  options: MessageOptions<unknown> | StartOptions<unknown>,
  verbs: readonly VerbOptionRow["verbs"][],
): JsonObject {
  checkOptions("options", options);
  const values: { readonly [name: string]: unknown } = options;
  const notStored = new Set<string>();
  for (const [name, { verbs: takenBy, stored: isStored, check }] of verbOptions) {
    if (verbs.includes(takenBy) && !isStored) notStored.add(name);
    if (check === null || values[name] === undefined || check.fits(values[name])) continue;
    throw new MisuseError("invalid_argument", `${name} must be ${check.kind}`, { path: [name] });
  }
  for (const name of numericOptions) {
    const value = values[name];
    if (value !== undefined && value !== null) checkRule("", [name], value, numberIn(runOptionTable[name].number));
  }
  const storable: { [name: string]: unknown } = {};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || notStored.has(name)) continue;
    if (name === "output" && options.output !== undefined) {
      storable[name] = toJsonSchema(options.output, name);
      continue;
    }
    const why = refusalOf(name, value);
    if (why !== null) {
      const { reason, because } = refusals[why];
      throw new MisuseError(reason, `${name} cannot be stored with a turn: ${because}`, { path: [name] });
    }
    storable[name] = value;
  }
  const parsed = read(settings, storable);
  if (!("value" in parsed)) {
    const [first] = parsed.issues;
    throw new MisuseError("invalid_argument", `options: ${parsed.issues.slice(0, 3).map(renderIssue).join("; ")}`, {
      path: first?.path ?? [],
    });
  }
  checkedWaits(parsed.value["waits"]);
  return parsed.value;
}

/** Why an option is refused; `null`: it may be stored. The plan of the turn rejects unknown names. */
function refusalOf(name: string, value: unknown): DurableRefusal | null {
  const durable = isRunOption(name) ? runOptionTable[name].durable : "stored";
  if (durable !== "stored") return durable;
  return typeof value === "function" ? "function" : null;
}

/** The stored options that are options of the run. */
export function runOptions(options: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(options).filter(([name]) => !isVerbOption(name)));
}

/** Returns whether a stored option belongs to the verb. */
function isVerbOption(name: string): boolean {
  return verbOptions.some(([option, { stored }]) => option === name && stored);
}

/** Checks options whose values are all strings. Throws `MisuseError` for unknown names and other types. */
export function checkTexts(
  verb: string,
  options: { readonly [name: string]: unknown },
  names: readonly string[],
): void {
  checkOptions(verb, options);
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new MisuseError("unknown_field", `${verb}: unknown option "${unknown}"`, { path: [unknown] });
  }
  const wrong = names.find((name) => options[name] !== undefined && typeof options[name] !== "string");
  if (wrong === undefined) return;
  throw new MisuseError("invalid_argument", `${verb}: ${wrong} must be a string`, { path: [wrong] });
}
