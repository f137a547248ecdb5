// What a tool returned, as data: JSON in which files and images may stand as leaves.
//
// In a program an attachment is an object made by `attachment()`; stored, it is `{ "$everturn": "attachment", … }`. An object
// that merely has a key of that name (a tool may return anything it found on the web) is stored wrapped, as
// `{ "$everturn": "object", "entries": … }`, so data can never pass itself off as an attachment.

import type { ToolFailure } from "../failure/failure.ts";
import type { Path } from "../failure/issue.ts";
import type { Result } from "../failure/result.ts";
import type { ContentSource } from "../message/content-source.ts";
import type { UserPart } from "../message/message.ts";
import type { Json } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";

import { ToolError } from "../failure/errors.ts";
import { renderPath } from "../failure/issue.ts";
import { failed, ok } from "../failure/result.ts";
import { contentSourceShape } from "../message/content-source.ts";
import { image } from "../message/image.ts";
import { filePart, imagePart, textPart } from "../message/part.ts";
import { describe, isJsonArray, isPlainObject } from "../parse/json.ts";
import {
  construct,
  fallback,
  json,
  maxJsonDepth,
  maxNodes,
  nullable,
  object,
  oneOf,
  read,
  required,
  string,
} from "../parse/shape.ts";

/** A tool's value as it is stored. Made by {@link encodeToolValue}, read by {@link decodeToolValue}. */
export type ToolValue = Json;

/** A tool's value as a program has it: JSON with attachments in it. */
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
  readonly [attachmentMark]: true;
  readonly source: ContentSource;
  readonly mimeType: string | null;
  readonly name: string | null;
};

/** Deepest nesting of a value in its stored form. */
export const maxToolValueDepth: number = maxJsonDepth;

// A symbol, because no JSON from elsewhere can contain one.
const attachmentMark: unique symbol = Symbol.for("everturn.attachment");
const reservedKey = "$everturn";

type StoredAttachment = {
  readonly [reservedKey]: "attachment";
  readonly source: ContentSource;
  readonly mimeType: string | null;
  readonly name: string | null;
};

const attachmentFields = {
  source: required(contentSourceShape),
  mimeType: fallback(nullable(string), null),
  name: fallback(nullable(string), null),
};

const attachmentShape = object<Omit<StoredAttachment, typeof reservedKey>>(attachmentFields);

const storedAttachmentShape: Shape<StoredAttachment> = object<StoredAttachment>({
  [reservedKey]: required(oneOf(["attachment"])),
  ...attachmentFields,
});

/**
 * Builds a file or image that a tool handler returns, alone or anywhere inside an object. The model receives it as
 * a file or an image.
 *
 * @example
 * ```ts
 * import { attachment, imageFromUrl, toolResult } from "everturn/model";
 *
 * const chart = attachment(imageFromUrl("https://example.com/chart.png", "image/png"));
 * const { content } = toolResult("call_1", { chart, trend: "up" });
 * typeof content === "string" ? [] : content.map((part) => part.type); // => ["text", "image", "text"]
 * ```
 */
export function attachment(from: {
  readonly source: ContentSource;
  readonly mimeType?: string | null;
  readonly name?: string | null;
}): Attachment {
  const { source, mimeType = null, name = null } = from;
  return { [attachmentMark]: true, ...construct("attachment", attachmentShape, { source, mimeType, name }) };
}

/** Was this made by `attachment()`? Data that merely looks like one was not. */
export function isAttachment(value: unknown): value is Attachment {
  return typeof value === "object" && value !== null && attachmentMark in value;
}

/**
 * What a tool returned, made storable. What JSON would write is taken (`toJSON` is honoured, so dates become text; keys that
 * are `undefined` vanish); what it would silently lose or mangle is an `encoding_failed` failure with the path.
 */
export function encodeToolValue(value: unknown): Result<ToolValue, ToolFailure> {
  try {
    return ok(new Encoding().encode(value === undefined ? null : value, 0));
  } catch (thrown) {
    // The walk leaves by throwing; a `toJSON` or a getter of the user's may throw as well.
    if (thrown instanceof ToolError) return failed(thrown.failure);
    return failed(refusal([], "reading it threw", thrown).failure);
  }
}

/** One walk through a program's value. */
class Encoding {
  readonly #path: (string | number)[] = [];
  readonly #ancestors: object[] = [];
  #nodes = 0;

  /** `depth` is where the value will stand in its stored form. */
  encode(value: unknown, depth: number): Json {
    this.#nodes += 1;
    if (this.#nodes > maxNodes) throw refusal([], `it has more than ${maxNodes} values in it`);
    if (value === null || typeof value === "string" || typeof value === "boolean") return value;
    if (typeof value === "number") {
      if (Number.isFinite(value)) return value;
      throw refusal(this.#path, `${String(value)} is not a number JSON knows`);
    }
    if (typeof value !== "object") throw refusal(this.#path, `${describe(value)} is not data`);
    if (this.#ancestors.includes(value)) throw refusal(this.#path, "the value contains itself");
    this.#needRoom(depth);
    this.#ancestors.push(value);
    const encoded = this.#object(value, depth);
    this.#ancestors.pop();
    return encoded;
  }

  #needRoom(depth: number): void {
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
    if (escaped) this.#needRoom(depth + 1);
    const entries = Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .map(([key, item]): [string, Json] => [key, this.#at(key, item, depth + (escaped ? 2 : 1))]);
    const plain: Json = Object.fromEntries(entries);
    return escaped ? { [reservedKey]: "object", entries: plain } : plain;
  }

  #attachment(value: Attachment, depth: number): Json {
    this.#needRoom(depth + 1);
    const { source, mimeType, name } = value;
    const read = readAttachment({ source, mimeType, name });
    if (read === null) throw refusal(this.#path, "an attachment without a source");
    return { [reservedKey]: "attachment", ...read };
  }

  #at(key: string | number, item: unknown, depth: number): Json {
    this.#path.push(key);
    const encoded = this.encode(item, depth);
    this.#path.pop();
    return encoded;
  }
}

function readAttachment(fields: unknown): Omit<StoredAttachment, typeof reservedKey> | null {
  const found = read(attachmentShape, fields);
  return "value" in found ? found.value : null;
}

/** An instance of a class counts as its own properties, as JSON has it; one whose content is elsewhere does not. */
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

/** The program's value from its stored form. Malformed marks are a failure: nobody but us writes them. */
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
  const mark = Object.hasOwn(value, reservedKey) ? value[reservedKey] : undefined;
  if (mark === undefined) return decodeEntries(value, path);
  if (mark === "attachment") {
    const stored = read(storedAttachmentShape, value);
    if ("issues" in stored) throw malformed(path, "malformed attachment");
    const { source, mimeType, name } = stored.value;
    return { [attachmentMark]: true, source, mimeType, name };
  }
  if (mark === "object") {
    const entries = Object.keys(value).length === 2 ? value["entries"] : undefined;
    if (!isPlainObject(entries)) throw malformed(path, "malformed escaped object");
    return decodeEntries(entries, path);
  }
  throw malformed(path, `unknown mark under ${reservedKey}`);
}

function decodeEntries(entries: { readonly [key: string]: Json }, path: Path): ProgramValue {
  return Object.fromEntries(
    Object.entries(entries).map(([key, item]): [string, ProgramValue] => [key, decode(item, [...path, key])]),
  );
}

function malformed(path: Path, why: string): ToolError {
  return new ToolError("invalid_return", {
    message: `${renderPath(path)}: ${why} in a stored tool value`,
    metadata: { path: [...path] },
  });
}

/**
 * Renders a tool's value as the parts that the model sees. Text stays text (`"sunny"`), any other value becomes compact JSON
 * (`{"celsius":21}`), and an attachment keeps its position between the text before it and the text after it. The list has at
 * least one part, and no part is empty.
 */
export function toolValueParts(value: ToolValue): readonly UserPart[] {
  if (typeof value === "string") return [textPart(value === "" ? noOutput : value)];
  const decoded = decodeToolValue(value);
  const pieces = new Pieces();
  // A value nobody can read is shown as it is stored: the model can make more of it than of nothing.
  if (decoded.ok) pieces.write(decoded.value);
  else pieces.text(JSON.stringify(value));
  return pieces.parts();
}

const noOutput = "[Tool returned no output]";

class Pieces {
  readonly #done: UserPart[] = [];
  #text = "";

  text(more: string): void {
    this.#text += more;
  }

  write(value: ProgramValue): void {
    if (isAttachment(value)) {
      this.#cut();
      this.#done.push(attachmentPart(value));
    } else if (value === null || typeof value !== "object") {
      this.text(JSON.stringify(value));
    } else if (isProgramList(value)) {
      this.#list("[", value.entries(), "]");
    } else {
      this.#list("{", Object.entries(value), "}");
    }
  }

  parts(): readonly UserPart[] {
    if (this.#done.length === 0) return [textPart(this.#text)];
    this.#cut();
    return this.#done;
  }

  #list(open: string, items: Iterable<[string | number, ProgramValue]>, close: string): void {
    let separator = open;
    for (const [key, item] of items) {
      this.text(typeof key === "string" ? `${separator}${JSON.stringify(key)}:` : separator);
      this.write(item);
      separator = ",";
    }
    this.text(separator === open ? open + close : close);
  }

  #cut(): void {
    if (this.#text !== "") this.#done.push(textPart(this.#text));
    this.#text = "";
  }
}

function isProgramList(value: ProgramValue): value is readonly ProgramValue[] {
  return Array.isArray(value);
}

/** An image is shown as an image, anything else as a file. */
function attachmentPart(from: Attachment): UserPart {
  const { source, mimeType, name } = from;
  if (mimeType?.startsWith("image/") === true) return imagePart(image({ source, mimeType }));
  return filePart(source, { mimeType, name });
}

export const toolValueShape: Shape<ToolValue> = json;
