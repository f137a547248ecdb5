// Parts that both clients use: their checked options, paths and queries, and the two kinds of requests that are not streams.

import type { ApiRequest, ReadAnswer, Sender } from "./sender.ts";
import type { CallOptions, ClientOptions } from "./types.ts";

import { systemClock } from "../../core/clock/clock.ts";
import { MisuseError } from "../../core/model/internal.ts";
import { checkedRetry } from "./backoff.ts";
import { checkedToken, send } from "./sender.ts";

/** Checks the options and fills in the defaults. */
export function senderOf(options: ClientOptions): Sender {
  const { url, token, headers = {}, retry = {}, silenceMs = 60_000, clock = systemClock } = options;
  if (typeof token === "string") checkedToken(token);
  if (!(silenceMs > 0)) {
    throw new MisuseError("invalid_argument", "silenceMs must be greater than 0", { path: ["silenceMs"] });
  }
  return {
    base: checkedUrl(url),
    token,
    headers,
    // The global is looked up at each call, so that it can be replaced later, and called without a receiver, which browsers require.
    fetch: options.fetch ?? ((address, init) => fetch(address, init)),
    retry: checkedRetry(retry),
    silenceMs,
    clock,
  };
}

function checkedUrl(url: string): string {
  if (typeof url !== "string" || !(url.startsWith("/") || URL.canParse(url))) {
    throw badUrl('must be a URL like "https://example.com/api/everturn", or a path');
  }
  if (/[?#]/.test(url)) throw badUrl("must not have a query or a fragment");
  if (!url.startsWith("/")) {
    const { protocol, username, password } = new URL(url);
    if (protocol !== "https:" && protocol !== "http:") throw badUrl(`must be http or https, not ${protocol}`);
    if (username !== "" || password !== "") throw badUrl("must not contain a user name or password: use `headers`");
  }
  return url.replace(/\/+$/, "");
}

function badUrl(why: string): MisuseError {
  return new MisuseError("invalid_argument", `url: ${why}`, { path: ["url"] });
}

/** A template tag for paths: percent-encodes each interpolated id as one path segment. */
export function at(texts: TemplateStringsArray, ...segments: readonly string[]): string {
  return texts.map((text, index) => (index < segments.length ? text + encodeSegment(segments[index]) : text)).join("");
}

/** Rejects `.` and `..` (path traversal): URL parsers resolve dot segments also when they are percent-encoded. */
function encodeSegment(segment: string | undefined): string {
  const isEncodable =
    typeof segment === "string" && !["", ".", ".."].includes(segment) && !/\p{Surrogate}/u.test(segment);
  if (isEncodable) return encodeURIComponent(segment);
  throw new MisuseError("invalid_argument", `the id ${JSON.stringify(segment)} cannot be part of a URL path`);
}

/** A query string with the fields that are set, or an empty string. */
export function query(fields: { readonly [name: string]: string | number | undefined }): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) parameters.set(name, `${value}`);
  return parameters.size === 0 ? "" : `?${parameters}`;
}

/** An idempotent request without a body. */
export function ask<T>(
  sender: Sender,
  method: ApiRequest["method"],
  path: string,
  { signal }: CallOptions = {},
  read: ReadAnswer<T>,
): Promise<T> {
  return send(sender, { method, path, repeat: "idempotent", signal: signal ?? null }, read);
}

/** A request with a body. By default it is sent at most once. */
export function post<T>(
  sender: Sender,
  path: string,
  body: unknown,
  { signal }: CallOptions,
  read: ReadAnswer<T>,
  repeat: ApiRequest["repeat"] = "at_most_once",
): Promise<T> {
  return send(sender, { method: "POST", path, body, repeat, signal: signal ?? null }, read);
}
