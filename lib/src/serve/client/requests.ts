// Parts that both clients use: their checked options, and the requests of operations (serve/contract).

import type { UserMessage } from "../../core/model/internal.ts";
import type {
  CallOptions,
  Operation,
  OperationTable,
  OperationTypes,
  PathValues,
  VerbsOf,
} from "../contract/internal.ts";
import type { ApiRequest, Sender } from "./sender.ts";
import type { ClientOptions, UserInput } from "./types.ts";

import { systemClock } from "../../core/clock/clock.ts";
import { MisuseError } from "../../core/model/internal.ts";
import { isClientVerb } from "../contract/internal.ts";
import { Backoff, checkedRetry } from "./backoff.ts";
import { isNotFound } from "./errors.ts";
import { checkedToken, readJson, readNothing, send } from "./sender.ts";

/** Checks the options and fills in the defaults. */
export function senderOf(options: ClientOptions): Sender {
  const { url, token, headers = {}, retry = {}, silenceMs, clock = systemClock } = options;
  if (typeof token === "string") checkedToken(token);
  if (silenceMs !== undefined && !(silenceMs > 0)) {
    throw new MisuseError("invalid_argument", "silenceMs must be greater than 0", { path: ["silenceMs"] });
  }
  return {
    base: checkedUrl(url),
    token,
    headers,
    // The global is looked up at each call, so that it can be replaced later, and called without a receiver, which
    // browsers require.
    fetch: options.fetch ?? ((address, init) => fetch(address, init)),
    retry: checkedRetry(retry),
    silenceMs: silenceMs ?? 60_000,
    streamSilenceMs: silenceMs ?? 20_000,
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

/** A path with its parameters, each as one percent-encoded segment. */
export function pathOf<Path extends string>(path: Path, values: PathValues<Path>): string {
  const segments = values.map((value) => encodeSegment(typeof value === "number" ? String(value) : value));
  return path.replaceAll(/\{\w+\}/g, () => segments.shift() ?? "");
}

/** Rejects `.` and `..` (path traversal): URL parsers resolve dot segments also when they are percent-encoded. */
function encodeSegment(segment: unknown): string {
  const isEncodable =
    typeof segment === "string" && !["", ".", ".."].includes(segment) && !/\p{Surrogate}/u.test(segment);
  if (isEncodable) return encodeURIComponent(segment);
  throw new MisuseError("invalid_argument", `the id ${JSON.stringify(segment)} cannot be part of a URL path`);
}

/** A query string with the fields that are set, or an empty string. */
export function query(fields: { readonly [name: string]: unknown }): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) parameters.set(name, typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  return parameters.size === 0 ? "" : `?${parameters}`;
}

/** Messages as callers may write them. */
type Sent<T> = T extends UserMessage ? UserInput : T extends readonly UserMessage[] ? readonly UserInput[] : T;

/** The fields of a body. */
export type SentBody<Body> = Body extends object
  ? { readonly [Name in keyof Body]: Sent<Body[Name]> | undefined }
  : unknown;

/** The verbs of the client that follow from a table of the contract. */
export function verbsOf<Table extends OperationTable>(sender: Sender, table: Table): VerbsOf<Table> {
  const verbs = Object.entries<Operation>(table).flatMap(([name, operation]) =>
    isClientVerb(operation) ? [[name, verbOf(sender, operation)] as const] : [],
  );
  // `VerbsOf` pairs each row with the type of its function, which the compiler cannot infer for one name.
  return Object.fromEntries(verbs) as VerbsOf<Table>;
}

/** The verb of an operation: a function of its path parameters, and of the fields of the request with its options. */
function verbOf(sender: Sender, operation: Operation) {
  const { method, path, answers } = operation;
  const { field } = answers;
  const values = path.split("{").length - 1;
  const hasBody = Object.values(answers.responses).some(({ content }) => content !== undefined);
  return async (...args: readonly unknown[]): Promise<unknown> => {
    const request = requestOf(operation, args.slice(0, values), args[values] ?? {});
    const backoff = new Backoff(sender.retry.requests, sender.retry, sender.clock);
    try {
      if (!hasBody) return await send(sender, request, readNothing, backoff);
      const result = await send(sender, request, readJson<{ readonly [name: string]: unknown }>, backoff);
      return field === undefined ? result : result[field];
    } catch (error) {
      // After a retry, `not_found` means that the first attempt removed it and its response was lost.
      if (method === "DELETE" && !hasBody && isNotFound(error) && backoff.used > 0) return undefined;
      throw error;
    }
  };
}

/** Sends the request of an operation. `fields`: those of the query or of the body, and the options of the call. */
export function call<Types extends OperationTypes>(
  sender: Sender,
  operation: Operation<Types>,
  values: PathValues<Types["path"]>,
  fields: (Partial<Types["query"]> & SentBody<Types["body"]> & CallOptions) | undefined,
): Promise<Types["result"]> {
  return send(sender, requestOf(operation, values, fields ?? {}), readJson<Types["result"]>);
}

function requestOf(
  { method, path, body, answers, idempotent }: Operation,
  values: readonly unknown[],
  fields: object,
): ApiRequest {
  const { signal, ...others }: CallOptions = fields;
  const given: { readonly [name: string]: unknown } = others;
  const once = idempotent === "never" || (idempotent === "turn" && given["turnId"] === undefined);
  return {
    method,
    path: pathOf(path, values) + (method === "POST" ? "" : query(given)),
    repeat: once ? "at_most_once" : "idempotent",
    signal: signal ?? null,
    answers: Object.keys(answers.responses).map(Number),
    ...(body === undefined ? {} : { body: given }),
  };
}
