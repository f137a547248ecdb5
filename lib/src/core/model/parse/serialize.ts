// The serializer: stored values in a versioned envelope, `{ "everturn": "session", "version": 5, "data": … }`.
//
// Theory of operation
//   The tag `everturn` names the stored type. `version` names the format that wrote the value; any change to a stored
//   shape raises `storedVersion` (docs/decisions/0007). Reading upgrades old data once, in `lift`, and no other code
//   knows earlier versions (S1).
//
//   Data of a newer version, or with an unknown tag, is not an error unless the caller asks for a type (`as`): it is
//   returned as data, so that a storage can keep and copy what a newer release wrote (forward compatibility).
//
// Invariants
//   1. What `toJson` writes, `fromJson` of this and of every later release reads. lib/test/museum keeps what every
//      version wrote.
//   2. `toJson` throws rather than losing data: functions, dates, cycles and credentials are a `MisuseError`.
//   3. `fromJson` never throws and has bounded cost: text length, number of values and depth are limited before memory
//      is allocated for them.

import type { ValidationFailure } from "../failure/failure.ts";
import type { IssueCode, Path } from "../failure/issue.ts";
import type { Result } from "../failure/result.ts";
import type { Session } from "../session/session.ts";
import type { Json } from "./json.ts";
import type { StoredType, StoredTypes } from "./parse.ts";

import { validationFailure } from "../failure/failures.ts";
import { renderIssue } from "../failure/issue.ts";
import { MisuseError } from "../failure/misuse.ts";
import { failed, ok } from "../failure/result.ts";
import { textHead } from "../message/truncate-text.ts";
import { isPlainObject, ownValue } from "./json.ts";
import { isStoredType, parse } from "./parse.ts";
import { json, maxNodes, read } from "./shape.ts";

/** The version of stored data that this release writes. It reads this version and all earlier ones. */
export const storedVersion = 5;

/** The longest text that is read or written, in UTF-16 code units. Longer text is an error in both directions. */
export const maxTextLength = 32 * 1024 * 1024;

/** The envelope of a stored value. */
export type Tagged = { readonly everturn: string; readonly version: number; readonly data: Json };

/** The content of an envelope: a value of a stored type, or data that this release does not recognise. */
export type Restored = AnyOf<StoredType> | Unrecognised;

/** The union over the stored types, discriminated by `type`. */
type AnyOf<Types extends StoredType> = { readonly [K in Types]: RestoredAs<K> }[Types];

type RestoredAs<K extends StoredType> = {
  readonly known: true;
  readonly type: K;
  readonly value: StoredTypes[K];
};

/** Data of a newer version or with an unknown tag, unchanged. */
type Unrecognised = {
  readonly known: false;
  readonly type: string;
  readonly version: number;
  readonly data: Json;
};

/**
 * The types that can be written. A session in memory may have any context; writing it fails if the context is not JSON.
 */
export type StorableTypes = Omit<StoredTypes, "session"> & { readonly session: Session };

/**
 * Puts a value in its envelope. Throws `MisuseError` (`not_serializable`) with the path for functions, dates, cycles,
 * credentials and everything else that JSON would lose.
 */
export function toTagged<K extends StoredType>(type: K, value: StorableTypes[K]): Tagged {
  const parsed = parse(type, value);
  if (parsed.ok) return { everturn: type, version: storedVersion, data: parsed.value };
  const [first] = parsed.failure.issues;
  const where = parsed.failure.issues.slice(0, 3).map(renderIssue).join("; ");
  throw new MisuseError("not_serializable", `this ${type} cannot be stored: ${where}`, { path: first?.path ?? [] });
}

/**
 * Serializes a value as JSON text with a type tag and a version. Throws `MisuseError` (`not_serializable`) for
 * values that JSON would lose, such as functions and dates, and for text that is too long to be read back.
 * Negative zero is written as 0.
 *
 * @example
 * ```ts
 * import { fromJson, orThrow, newSession, toJson } from "everturn";
 *
 * const text = toJson("session", newSession({ id: "s1" }));
 * orThrow(fromJson(text, { as: "session" })).id; // => "s1"
 * ```
 */
export function toJson<K extends StoredType>(type: K, value: StorableTypes[K]): string {
  const tagged = toTagged(type, value);
  const text = stringify(tagged);
  if (text !== null && text.length <= maxTextLength) return text;
  const length = text === null ? "more characters than a string can have" : `${text.length} characters`;
  throw new MisuseError("not_serializable", `this ${type} takes ${length}; at most ${maxTextLength} are read back`);
}

/** Returns the JSON text, or `null` if it exceeds the maximum string length of the JavaScript engine. */
function stringify(tagged: Tagged): string | null {
  try {
    return JSON.stringify(tagged);
  } catch {
    return null;
  }
}

/**
 * Reads JSON text that {@link toJson} of this or an earlier release wrote. With `as`, any other type is a failure,
 * and JSON without a tag is read as that type. Invalid text is a failure; nothing is thrown.
 */
export function fromJson(text: string): Result<Restored, ValidationFailure>;
export function fromJson<K extends StoredType>(
  text: string,
  options: { readonly as: K },
): Result<StoredTypes[K], ValidationFailure>;
export function fromJson<K extends StoredType>(
  text: string,
  options?: { readonly as: K },
): Result<Restored | StoredTypes[K], ValidationFailure> {
  const parsed = parseText(text);
  if (!parsed.ok) return parsed;
  return options === undefined ? fromTagged(parsed.value) : fromTagged(parsed.value, options);
}

/**
 * Reads a value from its envelope, for storages that keep JSON values and not text. Otherwise like {@link fromJson}.
 */
export function fromTagged(input: unknown): Result<Restored, ValidationFailure>;
export function fromTagged<K extends StoredType>(
  input: unknown,
  options: { readonly as: K },
): Result<StoredTypes[K], ValidationFailure>;
export function fromTagged<K extends StoredType>(
  input: unknown,
  options?: { readonly as: K },
): Result<Restored | StoredTypes[K], ValidationFailure> {
  if (options !== undefined && !isStoredType(options.as)) return parse(options.as, input);
  const envelope = openEnvelope(input);
  if (envelope === null) {
    if (options !== undefined) return parse(options.as, input);
    return refuse(["format"], "missing_type_tag", 'there is no "everturn" tag; pass { as } to name the type');
  }
  if (!envelope.ok) return envelope;
  const { everturn: tag, version, data } = envelope.value;
  if (options !== undefined && tag !== options.as) {
    return refuse(
      ["format"],
      "unknown_type_tag",
      `this is tagged ${JSON.stringify(textHead(tag, 64))}, not "${options.as}"`,
    );
  }
  if (options !== undefined && version > storedVersion) {
    return refuse(
      ["version"],
      "newer_version",
      `written by a newer release: version ${version}; this release reads versions up to ${storedVersion}`,
    );
  }
  if (!isStoredType(tag) || version > storedVersion) return keepAsData(tag, version, data);
  if (options !== undefined) return parse(options.as, lift(options.as, version, data));
  return restore(tag, lift(tag, version, data));
}

/**
 * Upgrades data of an older version to the current shape. All versions so far differ in added fields only, and shapes
 * fill in the default of an absent field, so there is nothing to convert yet.
 */
function lift(_type: StoredType, _version: number, data: unknown): unknown {
  return data;
}

function restore<K extends StoredType>(type: K, data: unknown): Result<AnyOf<K>, ValidationFailure> {
  const parsed = parse(type, data);
  return parsed.ok ? ok({ known: true, type, value: parsed.value }) : parsed;
}

function keepAsData(type: string, version: number, data: unknown): Result<Unrecognised, ValidationFailure> {
  const result = read(json, data);
  if ("value" in result) return ok({ known: false, type, version, data: result.value });
  return failed(validationFailure("invalid_data", { issues: result.issues }));
}

/** Reads the fields of an envelope. Returns `null` if the value has no tag. */
function openEnvelope(input: unknown): Result<Omit<Tagged, "data"> & { data: unknown }, ValidationFailure> | null {
  if (!isPlainObject(input) || !Object.hasOwn(input, "everturn")) return null;
  const tag = ownValue(input, "everturn");
  const version = ownValue(input, "version");
  const data = ownValue(input, "data");
  if (typeof tag !== "string") return refuse(["everturn"], "invalid_type", "the tag must be a string");
  if (typeof version !== "number" || !Number.isSafeInteger(version) || version < 1) {
    return refuse(["version"], "invalid_type", "the version must be a whole number of 1 or more");
  }
  if (data === undefined) return refuse(["data"], "missing", "there is a tag, but no data");
  return ok({ everturn: tag, version, data });
}

function parseText(text: string): Result<unknown, ValidationFailure> {
  if (typeof text !== "string") return refuse(["json"], "invalid_type", "must be text");
  if (text.length > maxTextLength) {
    return refuse(["json"], "too_large", `${text.length} characters; at most ${maxTextLength} are read`);
  }
  // Many small values take far more memory than their text, and JSON.parse allocates all of them before they can be
  // counted.
  if (hasTooManyValues(text)) return refuse(["json"], "too_large", `too many values; at most ${maxNodes} are read`);
  try {
    const value: unknown = JSON.parse(text);
    return ok(value);
  } catch (thrown) {
    // Only the position is reported: the engine's message quotes the text, which may be private.
    const position = thrown instanceof Error ? /in JSON at position (\d+)/.exec(thrown.message)?.[1] : undefined;
    return refuse(
      ["json"],
      "malformed",
      `this is not JSON${position === undefined ? "" : ` from position ${position}`}`,
    );
  }
}

/**
 * Estimates the number of values in JSON text before it is parsed, in linear time and constant memory. Every value but
 * the first follows a comma, a brace or a bracket outside a string, so the number of these characters is an upper
 * bound. The limit is twice `maxNodes`, because empty containers add a character without a value; `read` counts exactly
 * afterwards.
 */
function hasTooManyValues(text: string): boolean {
  let separators = 0;
  let quoted = false;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code === quote) quoted = !quoted;
    else if (quoted && code === backslash) index += 1;
    else if (!quoted && (code === comma || code === brace || code === bracket)) separators += 1;
  }
  return separators > 2 * maxNodes;
}

const quote = '"'.charCodeAt(0);
const backslash = "\\".charCodeAt(0);
const comma = ",".charCodeAt(0);
const brace = "{".charCodeAt(0);
const bracket = "[".charCodeAt(0);

function refuse(path: Path, code: IssueCode, message: string) {
  return failed(validationFailure("invalid_data", { issues: [{ path, code, message }] }));
}
