// Tool values: what a tool returned, as JSON with attachments (files and images) at any position.
//
// Two forms
//   program  an attachment is an object built by `attachment()`, marked with a symbol that JSON cannot contain
//   stored   an attachment is `{ "$everturn": "attachment", … }`
// An object that has a key `$everturn` of its own is stored as `{ "$everturn": "object", "entries": … }`. This escaping
// prevents forgery: data that a tool read from an untrusted page cannot become an attachment, for example one that
// names a local file.
//
// Invariants
//   1. `decodeToolValue(encodeToolValue(value))` restores the value, apart from what `JSON.stringify` changes as well
//      (`toJSON`, keys that are `undefined`).
//   2. A value that JSON would silently lose (functions, cycles, `Map`, errors) is a failure with its path, not a gap.
//   3. Depth and number of nodes are bounded in both directions.

import type { ToolFailure } from "../failure/failure.ts";
import type { Path } from "../failure/issue.ts";
import type { Result } from "../failure/result.ts";
import type { ContentSource } from "../message/content-source.ts";
import type { UserPart } from "../message/message.ts";
import type { Json } from "../parse/json.ts";
import type { Infer, Shape } from "../parse/shape.ts";

import { ToolError } from "../failure/errors.ts";
import { renderPath } from "../failure/issue.ts";
import { failed, ok } from "../failure/result.ts";
import { contentSourceShape } from "../message/content-source.ts";
import { filePart, imagePart } from "../message/media-part.ts";
import { textPart } from "../message/part.ts";
import { describe, isJsonArray, isPlainObject } from "../parse/json.ts";
import {
  construct,
  fallback,
  json,
  maxJsonDepth,
  maxNodes,
  nullable,
  object,
  readOrNull,
  required,
  string,
} from "../parse/shape.ts";

/** A tool value in its stored form. Written by {@link encodeToolValue}, read by {@link decodeToolValue}. */
export type ToolValue = Json;

/** A tool value in its program form: JSON with attachments. */
export type ProgramValue =
  | null
  | boolean
  | number
  | string
  | Attachment
  | readonly ProgramValue[]
  | { readonly [key: string]: ProgramValue };

/** A file or an image among the values that a tool returns. Built by {@link attachment}. */
export type Attachment = {
  /** The symbol that marks an object built by {@link attachment}. */
  readonly [attachmentMark]: true;
  /** The source of the bytes: base64 data, a URL, a file path or a provider's file id. */
  readonly source: ContentSource;
  /** With an image MIME type the model receives an image, otherwise a file. `null` if unknown. */
  readonly mimeType: string | null;
  /** The file name; `null` if there is none. */
  readonly name: string | null;
};

/** The deepest nesting of a value in its stored form, escape objects included. */
export const maxToolValueDepth: number = maxJsonDepth;

// A symbol, because JSON cannot contain one. Registered globally, so that all copies of the package share it.
const attachmentMark: unique symbol = Symbol.for("everturn.attachment");
const reservedKey = "$everturn";

const attachmentFields = {
  source: required(contentSourceShape),
  mimeType: fallback(nullable(string), null),
  name: fallback(nullable(string), null),
};
type AttachmentFields = Infer<typeof attachmentFields>;
const attachmentShape = object(attachmentFields);

/**
 * Builds a file or image that a tool handler returns, alone or anywhere inside an object. The model receives it as
 * a file or an image.
 *
 * @example
 * ```ts
 * import { attachment } from "everturn/advanced"; import { imageFromUrl, toolResult } from "everturn";
 *
 * const chart = attachment(imageFromUrl("https://example.com/chart.png", "image/png"));
 * const { content } = toolResult("call_1", { chart, trend: "up" });
 * typeof content === "string" ? [] : content.map((part) => part.type); // => ["text", "image", "text"]
 * ```
 */
export function attachment(from: {
  /** The source of the bytes. */
  readonly source: ContentSource;
  /** The default is `null`: unknown. */
  readonly mimeType?: string | null;
  /** The default is `null`: no file name. */
  readonly name?: string | null;
}): Attachment {
  const { source, mimeType = null, name = null } = from;
  return { [attachmentMark]: true, ...construct("attachment", attachmentShape, { source, mimeType, name }) };
}

/** Returns whether a value was built by `attachment()`. Plain data with the same fields was not. */
export function isAttachment(value: unknown): value is Attachment {
  return typeof value === "object" && value !== null && attachmentMark in value;
}

/**
 * Encodes the value that a tool returned into its stored form. Like `JSON.stringify`, it calls `toJSON` (dates become
 * text) and omits keys that are `undefined`. A value that JSON would lose or change silently is a failure
 * (`encoding_failed`) with the path.
 */
export function encodeToolValue(value: unknown): Result<ToolValue, ToolFailure> {
  try {
    return ok(new Encoding().encode(value === undefined ? null : value, 0));
  } catch (thrown) {
    // `Encoding` throws a `ToolError` to leave its recursion. A `toJSON` method or a getter of the value may throw
    // anything.
    if (thrown instanceof ToolError) return failed(thrown.failure);
    return failed(refusal([], "reading it threw an error", thrown).failure);
  }
}

/** One traversal of a program value. Holds the path for error messages and the ancestors for cycle detection. */
class Encoding {
  readonly #path: (string | number)[] = [];
  readonly #ancestors: object[] = [];
  #nodes = 0;

  /** Encodes a value. `depth` is its depth in the stored form, where an escape object counts as one more level. */
  encode(value: unknown, depth: number): Json {
    this.#nodes += 1;
    if (this.#nodes > maxNodes) throw refusal([], `it has more than ${maxNodes} values`);
    if (value === null || typeof value === "string" || typeof value === "boolean") return value;
    if (typeof value === "number") {
      if (Number.isFinite(value)) return value;
      throw refusal(this.#path, `${String(value)} is not a JSON number`);
    }
    if (typeof value !== "object") throw refusal(this.#path, `${describe(value)} is not data`);
    if (this.#ancestors.includes(value)) throw refusal(this.#path, "the value contains itself");
    this.#checkDepth(depth);
    this.#ancestors.push(value);
    const encoded = this.#object(value, depth);
    this.#ancestors.pop();
    return encoded;
  }

  #checkDepth(depth: number): void {
    if (depth < maxToolValueDepth) return;
    throw refusal(this.#path.slice(0, 8), `nested more than ${maxToolValueDepth} levels deep`);
  }

  #object(value: object, depth: number): Json {
    if (isAttachment(value)) return this.#attachment(value, depth);
    const toJson: unknown = Reflect.get(value, "toJSON");
    const plain: unknown = typeof toJson === "function" ? toJson.call(value, "") : value;
    if (plain !== value) return this.encode(plain === undefined ? null : plain, depth);
    if (Array.isArray(value)) {
      if (value.length > maxNodes) throw refusal(this.#path, `a list of ${value.length} items`);
      return Array.from(value, (item: unknown, index) => this.#at(index, item === undefined ? null : item, depth + 1));
    }
    if (!isPlainObject(value)) refuseOpaque(value, this.#path);
    return this.#entries(value, depth);
  }

  #entries(value: object, depth: number): Json {
    const escaped = Object.hasOwn(value, reservedKey);
    if (escaped) this.#checkDepth(depth + 1);
    const entries = Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .map(([key, item]): [string, Json] => [key, this.#at(key, item, depth + (escaped ? 2 : 1))]);
    const plain: Json = Object.fromEntries(entries);
    return escaped ? { [reservedKey]: "object", entries: plain } : plain;
  }

  #attachment(value: Attachment, depth: number): Json {
    this.#checkDepth(depth + 1);
    const { source, mimeType, name } = value;
    const fields = readOrNull(attachmentShape, { source, mimeType, name });
    if (fields === null) throw refusal(this.#path, "an attachment without a valid source");
    return { [reservedKey]: "attachment", ...fields };
  }

  #at(key: string | number, item: unknown, depth: number): Json {
    this.#path.push(key);
    const encoded = this.encode(item, depth);
    this.#path.pop();
    return encoded;
  }
}

/**
 * Rejects instances whose content JSON does not see: errors, iterables such as `Map`, and instances without own
 * properties. Other instances are encoded by their own properties, as `JSON.stringify` does.
 */
function refuseOpaque(value: object, path: Path): void {
  const isError = typeof Reflect.get(value, "stack") === "string";
  if (isError || Symbol.iterator in value || Object.keys(value).length === 0) {
    throw refusal(path, `${describe(value)} would be lost; return plain data or attachment(…)`);
  }
}

function refusal(path: Path, why: string, cause?: unknown): ToolError {
  const where = path.length === 0 ? "the value" : renderPath(path);
  return new ToolError("encoding_failed", {
    message: `${where} cannot be given to the model: ${why}`,
    metadata: { path: [...path] },
    cause,
  });
}

/**
 * Decodes the stored form. A malformed `$everturn` object is a failure (`invalid_return`): the encoder never writes
 * one.
 */
export function decodeToolValue(value: ToolValue): Result<ProgramValue, ToolFailure> {
  try {
    return ok(decode(value, []));
  } catch (thrown) {
    if (thrown instanceof ToolError) return failed(thrown.failure);
    throw thrown;
  }
}

function decode(value: Json, path: Path): ProgramValue {
  if (value === null || typeof value !== "object") return value;
  if (path.length > maxToolValueDepth) throw malformed(path.slice(0, 8), "nested too deep");
  if (isJsonArray(value)) return value.map((item, index) => decode(item, [...path, index]));
  const stored = readStoredObject(value);
  switch (stored.type) {
    case "attachment":
      return { [attachmentMark]: true, source: stored.source, mimeType: stored.mimeType, name: stored.name };
    case "entries":
      return Object.fromEntries(
        Object.entries(stored.entries).map(([key, item]): [string, ProgramValue] => [
          key,
          decode(item, [...path, key]),
        ]),
      );
    case "malformed":
      throw malformed(path, stored.why);
  }
}

function malformed(path: Path, why: string): ToolError {
  return new ToolError("invalid_return", {
    message: `${renderPath(path)}: ${why} in a stored tool value`,
    metadata: { path: [...path] },
  });
}

/** What an object in the stored form stands for. */
type StoredObject =
  | ({ readonly type: "attachment" } & AttachmentFields)
  | { readonly type: "entries"; readonly entries: { readonly [key: string]: Json } }
  | { readonly type: "malformed"; readonly why: string };

function readStoredObject(value: { readonly [key: string]: Json }): StoredObject {
  if (!Object.hasOwn(value, reservedKey)) return { type: "entries", entries: value };
  const { [reservedKey]: tag, ...fields } = value;
  switch (tag) {
    case "attachment": {
      const stored = readOrNull(attachmentShape, fields);
      return stored === null ? { type: "malformed", why: "malformed attachment" } : { type: "attachment", ...stored };
    }
    case "object": {
      const { entries, ...others } = fields;
      return isPlainObject(entries) && Object.keys(others).length === 0
        ? { type: "entries", entries }
        : { type: "malformed", why: "malformed escaped object" };
    }
    default:
      return { type: "malformed", why: `unknown value of ${reservedKey}` };
  }
}

/**
 * Renders a tool's value as the parts that the model sees. Text stays text (`"sunny"`), any other value becomes compact
 * JSON (`{"celsius":21}`), and an attachment keeps its position between the text before it and the text after it. The
 * list has at least one part, and no part is empty.
 */
export function toolValueParts(value: ToolValue): readonly UserPart[] {
  if (typeof value === "string") return [textPart(value === "" ? noOutput : value)];
  const writer = new PartWriter();
  // A value that is malformed is shown in its stored form, which is more useful to the model than an error.
  return writer.write(value) ? writer.parts() : [textPart(JSON.stringify(value))];
}

const noOutput = "[Tool returned no output]";

/** Writes a tool value as compact JSON text that is split at every attachment. */
class PartWriter {
  readonly #parts: UserPart[] = [];
  #text = "";

  /**
   * Writes a value that is in its stored form. Returns false if the value is malformed: `decodeToolValue` would fail.
   */
  write(value: ToolValue, depth = 0): boolean {
    if (value === null || typeof value !== "object") {
      this.#text += JSON.stringify(value);
      return true;
    }
    if (depth > maxToolValueDepth) return false;
    if (isJsonArray(value)) return this.#list("[", value.entries(), "]", depth);
    const stored = readStoredObject(value);
    if (stored.type === "entries") return this.#list("{", Object.entries(stored.entries), "}", depth);
    if (stored.type === "malformed") return false;
    this.#endText();
    this.#parts.push(attachmentPart(stored));
    return true;
  }

  parts(): readonly UserPart[] {
    if (this.#parts.length === 0) return [textPart(this.#text)];
    this.#endText();
    return this.#parts;
  }

  #list(open: string, items: Iterable<[string | number, ToolValue]>, close: string, depth: number): boolean {
    let separator = open;
    for (const [key, item] of items) {
      this.#text += typeof key === "string" ? `${separator}${JSON.stringify(key)}:` : separator;
      if (!this.write(item, depth + 1)) return false;
      separator = ",";
    }
    this.#text += separator === open ? open + close : close;
    return true;
  }

  #endText(): void {
    if (this.#text !== "") this.#parts.push(textPart(this.#text));
    this.#text = "";
  }
}

/** An attachment with an image MIME type becomes an image part, any other a file part. */
function attachmentPart({ source, mimeType, name }: AttachmentFields): UserPart {
  if (mimeType?.startsWith("image/") === true) return imagePart({ source, mimeType });
  return filePart(source, { mimeType, name });
}

export const toolValueShape: Shape<ToolValue> = json;
