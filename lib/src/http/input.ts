// Reads what a request brings: its body, its query, its headers. Whatever is wrong with it is said with its place, and nothing is done.

import type { Described } from "./openapi/described.ts";

import { renderIssue, renderPath } from "../model/internal.ts";
import { read } from "../model/parse/reading.ts";
import { HttpError } from "./failure.ts";

/** The JSON of a body; an absent one is `{}`. */
export async function readJson(request: Request, mostBytes: number): Promise<unknown> {
  const bytes = await readBytes(request, mostBytes);
  if (bytes.length === 0) return {};
  checkMediaType(request);
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes));
  } catch {
    throw new HttpError("invalid_body", "the body is not JSON in UTF-8");
  }
}

function checkMediaType({ headers }: Request): void {
  const [type = "", ...parameters] = (headers.get("content-type") ?? "").toLowerCase().split(";");
  if (!/^application\/(?:[\w.+-]+\+)?json$/.test(type.trim())) {
    throw new HttpError("unsupported_media_type", "the body has to be application/json");
  }
  const charset = parameters.map((one) => /^\s*charset\s*=\s*"?([\w-]+)"?\s*$/.exec(one)?.[1]).find(Boolean);
  if (charset !== undefined && charset !== "utf-8" && charset !== "utf8") {
    throw new HttpError("unsupported_media_type", `the body has to be in UTF-8, not ${charset}`);
  }
  const encoding = headers.get("content-encoding") ?? "identity";
  if (encoding !== "identity") {
    throw new HttpError("unsupported_media_type", "the body may not be compressed");
  }
}

async function readBytes({ body, headers }: Request, most: number): Promise<Uint8Array> {
  if (body === null) return new Uint8Array();
  const tooLarge = () => new HttpError("body_too_large", `a body has at most ${most} bytes`);
  if (Number(headers.get("content-length") ?? 0) > most) throw tooLarge();
  const reader = body.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.byteLength;
    if (size > most) {
      await reader.cancel().catch(() => undefined);
      throw tooLarge();
    }
    chunks.push(value);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.byteLength;
  }
  return whole;
}

/** A body as what it has to be. */
export function readBody<T>({ shape }: Described<T>, input: unknown): T {
  const found = read(shape, input);
  if ("value" in found) return found.value;
  const issues = found.issues.map((issue) => ({ ...issue }));
  const words = found.issues.slice(0, 3).map(renderIssue).join("; ");
  throw new HttpError("invalid_body", words, { details: { issues, path: found.issues[0]?.path ?? [] } });
}

/** A parameter of the query: how it is read, and how it is described. */
export type QueryField<T> = { readonly read: (text: string) => T | null; readonly what: string };

export const wholeNumber: QueryField<number> = {
  read: (text) => (/^\d{1,15}$/.test(text) ? Number(text) : null),
  what: "a whole number",
};

export const yesOrNo: QueryField<boolean> = {
  read: (text) => (text === "true" ? true : text === "false" ? false : null),
  what: "true or false",
};

/** A parameter of the query; `undefined`: it is not there. */
export function queryOf<T>(query: URLSearchParams, name: string, { read, what }: QueryField<T>): T | undefined {
  const [text, ...more] = query.getAll(name);
  if (text === undefined) return undefined;
  const value = more.length > 0 ? null : read(text);
  if (value !== null) return value;
  throw new HttpError("invalid_query", `${renderPath([name])} has to be ${what}, once`, { details: { path: [name] } });
}

/** A parameter that is a name or a place: any text that is not endless. */
export function shortText(most: number): QueryField<string> {
  return { read: (text) => (text.length > 0 && text.length <= most ? text : null), what: `1 to ${most} characters` };
}

/** Can that be one part of a path, and be found by it? */
export function canBeInPath(id: string): boolean {
  return id !== "." && id !== ".." && !/\p{Surrogate}/u.test(id);
}

/** Refuses parameters nobody reads: a misspelt one would silently do nothing. */
export function checkQuery(query: URLSearchParams, known: readonly string[]): void {
  for (const name of query.keys()) {
    if (known.includes(name)) continue;
    const names = known.length === 0 ? "there are none" : `known are ${known.join(", ")}`;
    throw new HttpError("invalid_query", `there is no parameter ${JSON.stringify(name.slice(0, 80))}; ${names}`, {
      details: { path: [name.slice(0, 80)] },
    });
  }
}
