// How values are written down: `{ "everturn": "session", "version": 1, "data": … }`. The tag says what it is, the version
// which release of the model wrote it. Any change to a stored shape raises the version; reading lifts old data once, here,
// and nothing behind this door knows that other versions ever existed (S1).
//
// What a newer release wrote, or something we do not know, is not an error: it comes back as the data it is, so that a store
// can keep it, copy it and hand it to somebody who understands it.

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
import { textHead } from "../message/cut-text.ts";
import { isPlainObject, ownValue } from "./json.ts";
import { isStoredType, parse } from "./parse.ts";
import { json, maxNodes, read } from "./shape.ts";

/** The version of stored data that this release writes. It reads this version and all earlier ones. */
export const storedVersion = 4;

/** The longest text that is read or written, in UTF-16 units. */
export const maxTextLength = 32 * 1024 * 1024;

/** A value in its envelope. */
export type Tagged = { readonly everturn: string; readonly version: number; readonly data: Json };

/** What was in an envelope: one of our values, or something this release does not know. */
export type Restored = AnyOf<StoredType> | Unrecognised;

/** Tag and value belong together: looking at `type` tells what `value` is. */
type AnyOf<Types extends StoredType> = { readonly [K in Types]: RestoredAs<K> }[Types];

type RestoredAs<K extends StoredType> = {
  readonly known: true;
  readonly type: K;
  readonly value: StoredTypes[K];
};

/** Written by a newer release, or by something else altogether. Kept as it is. */
type Unrecognised = {
  readonly known: false;
  readonly type: string;
  readonly version: number;
  readonly data: Json;
};

/** What may be written: a session in memory may have a live context, and is refused only if it really does. */
export type StorableTypes = Omit<StoredTypes, "session"> & { readonly session: Session };

/**
 * Puts a value in its envelope. Functions, dates, cycles, credentials and whatever else JSON would lose are refused: this
 * throws `MisuseError` (`not_serializable`) that names the path.
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
 * import { fromJson, orThrow, newSession, toJson } from "everturn/model";
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

/** The text, or `null` when it is longer than strings can be. */
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
  const read = parseText(text);
  if (!read.ok) return read;
  return options === undefined ? fromTagged(read.value) : fromTagged(read.value, options);
}

/** Reads a value in its envelope, for those who keep JSON in columns rather than text. */
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
    return refuse(["format"], "missing_type_tag", 'no "everturn" tag says what this is; pass { as } if you know');
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
      `written by a newer release: version ${version}, and this one reads up to ${storedVersion}`,
    );
  }
  if (!isStoredType(tag) || version > storedVersion) return keepAsData(tag, version, data);
  if (options !== undefined) return parse(options.as, lift(options.as, version, data));
  return restore(tag, lift(tag, version, data));
}

/** Lifts data of an older version to this one's shape, a version at a time. What version 1 lacks is filled in by its shape. */
function lift(_type: StoredType, _version: number, data: unknown): unknown {
  return data;
}

function restore<K extends StoredType>(type: K, data: unknown): Result<AnyOf<K>, ValidationFailure> {
  const parsed = parse(type, data);
  return parsed.ok ? ok({ known: true, type, value: parsed.value }) : parsed;
}

function keepAsData(type: string, version: number, data: unknown): Result<Unrecognised, ValidationFailure> {
  const found = read(json, data);
  if ("value" in found) return ok({ known: false, type, version, data: found.value });
  return failed(validationFailure("invalid_data", { issues: found.issues }));
}

/** The envelope; `null` when there is none. */
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
  // Many small values take far more memory than their text, and JSON.parse builds them all before anyone can count.
  if (isCrowded(text)) return refuse(["json"], "too_large", `far more than ${maxNodes} values`);
  try {
    const value: unknown = JSON.parse(text);
    return ok(value);
  } catch (thrown) {
    // Only the position: the engine's own message quotes the text, and the text may hold anything.
    const position = thrown instanceof Error ? /in JSON at position (\d+)/.exec(thrown.message)?.[1] : undefined;
    return refuse(
      ["json"],
      "malformed",
      `this is not JSON${position === undefined ? "" : ` from position ${position}`}`,
    );
  }
}

/** A cheap look before JSON.parse: more values than will be read? Every value but the first stands behind one of three marks. */
function isCrowded(text: string): boolean {
  let marks = 0;
  let quoted = false;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code === quote) quoted = !quoted;
    else if (quoted && code === backslash) index += 1;
    else if (!quoted && (code === comma || code === brace || code === bracket)) marks += 1;
  }
  return marks > 2 * maxNodes;
}

const quote = '"'.charCodeAt(0);
const backslash = "\\".charCodeAt(0);
const comma = ",".charCodeAt(0);
const brace = "{".charCodeAt(0);
const bracket = "[".charCodeAt(0);

function refuse(path: Path, code: IssueCode, message: string) {
  return failed(validationFailure("invalid_data", { issues: [{ path, code, message }] }));
}
