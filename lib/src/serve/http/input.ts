// Reads the untrusted parts of a request: its body and its query. Every rejection names the place that is invalid, and
// happens before anything is started.
//
// Request limits. A body is counted while it is read, so a request without `Content-Length`, or with a false one,
// cannot exceed the limit; `Content-Length` only rejects a large body before it is sent. Framing of the message (and
// with it request smuggling) is the business of the HTTP server that parsed the connection: this file reads the body of
// a `Request` and parses no bytes of the protocol. Compressed bodies are rejected, so a small body cannot expand to a
// large one (decompression bomb).
//
// Unknown query parameters and unknown body fields are rejected instead of ignored: a misspelt option would otherwise
// have no effect without an error.

import type { Clock } from "../../core/clock/clock.ts";
import type { BodySchema, QueryField } from "../contract/internal.ts";
import type { HttpLimits } from "./limits.ts";

import { startTimer } from "../../core/clock/timer.ts";
import { renderIssue, renderPath } from "../../core/model/internal.ts";
import { read } from "../../core/model/parse/reading.ts";
import { HttpError } from "./failure.ts";

/** A body of more bytes takes milliseconds to parse and to check. */
const largeBodyBytes = 65_536;

/**
 * Reads the body as JSON (RFC 8259: UTF-8), within the limits of its size and of the time until it has arrived. An
 * absent or empty body is `{}`. `turn`: when a large body may be parsed; `null`: at once.
 */
export async function readJson(
  request: Request,
  limits: BodyLimits,
  clock: Clock,
  turn: () => Promise<void> | null = () => null,
): Promise<unknown> {
  const bytes = await readBytes(request, limits, clock);
  if (bytes.length === 0) return {};
  checkMediaType(request);
  if (bytes.length > largeBodyBytes) await turn();
  try {
    // `ignoreBOM: false` removes a byte order mark, which `JSON.parse` would reject.
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes));
  } catch {
    throw new HttpError("invalid_body", "the body is not valid JSON in UTF-8");
  }
}

/**
 * Accepts `application/json` and types that end in `+json`, in UTF-8, uncompressed. Requiring a JSON type is also a
 * CSRF defence: an HTML form cannot send one, and a script of another origin needs a CORS preflight to do so.
 */
function checkMediaType({ headers }: Request): void {
  const [type = "", ...parameters] = (headers.get("content-type") ?? "").toLowerCase().split(";");
  if (!/^application\/(?:[\w.+-]+\+)?json$/.test(type.trim())) {
    throw new HttpError("unsupported_media_type", "the content type of the body must be application/json");
  }
  const charset = parameters
    .map((parameter) => /^\s*charset\s*=\s*"?([\w-]+)"?\s*$/.exec(parameter)?.[1])
    .find(Boolean);
  if (charset !== undefined && charset !== "utf-8" && charset !== "utf8") {
    throw new HttpError("unsupported_media_type", `the charset of the body must be UTF-8, not ${charset}`);
  }
  const encoding = headers.get("content-encoding") ?? "identity";
  if (encoding !== "identity") {
    throw new HttpError("unsupported_media_type", "the body must not be compressed");
  }
}

type BodyLimits = Pick<HttpLimits, "bodyBytes" | "bodyMs">;

/**
 * Reads the body into one array. Stops reading and cancels the body at the first byte above the limit, or when the time
 * is over.
 */
async function readBytes(
  { body, headers }: Request,
  { bodyBytes: maxBytes, bodyMs }: BodyLimits,
  clock: Clock,
): Promise<Uint8Array> {
  if (body === null) return new Uint8Array();
  const tooLarge = () => new HttpError("body_too_large", `the body must have at most ${maxBytes} bytes`);
  if (Number(headers.get("content-length") ?? 0) > maxBytes) throw tooLarge();
  const reader = body.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  const timeout = bodyTimeout(clock, bodyMs);
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read().catch(bodyCutOff), timeout.over]);
      if (done) break;
      size += value.byteLength;
      if (size > maxBytes) throw tooLarge();
      chunks.push(value);
    }
  } catch (error) {
    // Not awaited: a body that has stalled may not settle.
    reader.cancel().catch(() => undefined);
    throw error;
  } finally {
    timeout.stop();
  }
  const bytes = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.byteLength;
  }
  return bytes;
}

/** A promise that rejects when the time for a body is over, and the function that stops its timer. */
function bodyTimeout(clock: Clock, ms: number): { readonly over: Promise<never>; readonly stop: () => void } {
  const timer = new AbortController();
  const over = new Promise<never>((_, reject) => {
    const stop = startTimer(clock, ms, () => {
      // The connection cannot be used again: the rest of the body would be read as the next request.
      const options = { headers: { connection: "close" } };
      reject(new HttpError("request_timeout", `the body did not arrive within ${ms} ms`, options));
    });
    timer.signal.addEventListener("abort", stop, { once: true });
  });
  return { over, stop: () => timer.abort() };
}

/** A body that ends early is an error of the client or of its connection, and none of this server. */
function bodyCutOff(): never {
  throw new HttpError("invalid_body", "the connection was closed before the body was complete");
}

/** Reads a parsed body by its schema. Throws 400 with up to three issues in the message and all of them in `issues`. */
export function readBody<T>({ shape }: BodySchema<T>, input: unknown): T {
  const result = read(shape, input);
  if ("value" in result) return result.value;
  const issues = result.issues.map((issue) => ({ ...issue }));
  const message = result.issues.slice(0, 3).map(renderIssue).join("; ");
  throw new HttpError("invalid_body", message, { details: { issues, path: result.issues[0]?.path ?? [] } });
}

/**
 * Reads the query parameters of an operation. Others are rejected, and so are those that are invalid or appear twice.
 * `undefined`: the operation has none, and its query is ignored.
 */
export function readQuery<Query>(
  query: URLSearchParams,
  fields: { readonly [N in keyof Query]: QueryField<Query[N]> } | undefined,
  idLength: number,
): Partial<Query> {
  const values: Partial<Query> = {};
  if (fields === undefined) return values;
  checkQuery(query, Object.keys(fields));
  for (const name in fields) {
    const field = fields[name];
    const value = queryParameter(
      query,
      name,
      field.maxLength === undefined ? field : bounded(field, field.maxLength(idLength)),
    );
    if (value !== undefined) values[name] = value;
  }
  return values;
}

/** The field for texts of 1 to `most` characters. */
function bounded<T>({ read, expected }: QueryField<T>, most: number): Pick<QueryField<T>, "read" | "expected"> {
  const isInRange = (text: string) => text.length > 0 && text.length <= most;
  return { read: (text) => (isInRange(text) ? read(text) : null), expected: `${expected} of 1 to ${most} characters` };
}

/** Reads a query parameter; `undefined` if it is absent. A parameter that is invalid or appears twice throws 400. */
export function queryParameter<T>(
  query: URLSearchParams,
  name: string,
  { read, expected }: Pick<QueryField<T>, "read" | "expected">,
): T | undefined {
  const [text, ...duplicates] = query.getAll(name);
  if (text === undefined) return undefined;
  const value = duplicates.length > 0 ? null : read(text);
  if (value !== null) return value;
  throw new HttpError("invalid_query", `${renderPath([name])} must be ${expected}, given once`, {
    details: { path: [name] },
  });
}

/**
 * Whether an id can be one segment of a URL path. `.` and `..` are path traversal: URL parsers resolve them, also when
 * they are written as `%2e`, so a session of that id could be created and never be addressed. A lone surrogate has no
 * UTF-8 encoding and cannot be percent-encoded.
 */
export function isPathSegment(id: string): boolean {
  return id !== "." && id !== ".." && !/\p{Surrogate}/u.test(id);
}

/** Rejects query parameters that the route does not have. */
export function checkQuery(query: URLSearchParams, validNames: readonly string[]): void {
  for (const name of query.keys()) {
    if (validNames.includes(name)) continue;
    const hint = validNames.length === 0 ? "this route has none" : `this route has ${validNames.join(", ")}`;
    throw new HttpError("invalid_query", `unknown query parameter ${JSON.stringify(name.slice(0, 80))}; ${hint}`, {
      details: { path: [name.slice(0, 80)] },
    });
  }
}
