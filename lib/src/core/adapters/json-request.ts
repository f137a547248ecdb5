// One HTTP request to a provider that answers with one JSON object: what the adapters of images, embeddings and
// rerankers share. Chat adapters stream and use `http-adapter.ts`. Failures are redacted like those of chat calls: the
// key, values of headers that the program added, and the redaction hook of the program.

import type { AdapterCall, FetchLike, HttpClient, Timeouts } from "../engine/internal.ts";
import type { Failure, JsonObject } from "../model/internal.ts";
import type { CodecLoader } from "../wire/internal.ts";
import type { KnownServer } from "./base-url.ts";
import type { KeyOwner } from "./credentials.ts";
import type { ProviderOptions } from "./http-adapter.ts";

import {
  defaultLimits,
  failureWithoutKey,
  fetchClient,
  httpClient,
  requestIdOf,
  sendRequest,
  withoutKey,
} from "../engine/internal.ts";
import { adapterFailure, parseJson } from "../model/internal.ts";
import { asObject, noQuirks } from "../wire/internal.ts";
import { resolveBaseURL } from "./base-url.ts";
import { headersOfCall, joinHeaders, keyHeader, lowerCaseNames, secretsIn } from "./call-headers.ts";
import { credentialOf } from "./credentials.ts";
import { resolveTimeouts } from "./http-adapter.ts";
import { refusalOf } from "./http-call.ts";

/** A server as data. */
export type JsonServer = KeyOwner & {
  /** From `resolveBaseURL`; without a trailing slash. */
  readonly baseURL: string;
  readonly options: ProviderOptions;
  /** The codec of the provider, which classifies error responses. */
  readonly codec: CodecLoader;
};

/** A known server with the options of an adapter. Throws `MisuseError` for an invalid base URL. */
export function jsonServer(server: KnownServer, codec: CodecLoader, options: ProviderOptions): JsonServer {
  return { ...server, baseURL: resolveBaseURL(server.provider, options.baseURL, server), options, codec };
}

/** One request. */
export type JsonCall = {
  readonly model: string;
  /** Appended to the base URL. */
  readonly path: string;
  readonly body: JsonCallBody;
  /** The name of the API in the route of a failure, for example `images`. */
  readonly api: string;
  /** The default timeouts. */
  readonly timeouts: Timeouts;
};

/** The body of a request. A form carries bytes. */
export type JsonCallBody =
  | { readonly type: "json"; readonly value: JsonObject }
  | { readonly type: "form"; readonly form: FormData };

/** The answer, or why there is none. `redact` removes the secrets of the request from a text. */
export type JsonAnswer = { readonly redact: (text: string) => string } & (
  | { readonly ok: true; readonly body: JsonObject; readonly requestId: string | null }
  | { readonly ok: false; readonly failure: Failure }
);

/**
 * Sends one request. Does not throw for a failure of the request, an HTTP error, a stream, or a body that is not a JSON
 * object.
 */
export async function requestJson(server: JsonServer, request: JsonCall, call: AdapterCall): Promise<JsonAnswer> {
  const { provider, baseURL, options } = server;
  const { model, path, body, api, timeouts } = request;
  const { key, auth } = await credentialOf(server, options, call);
  const ofCall = headersOfCall(provider, call.options, null);
  const secrets = secretsIn(key, { ...lowerCaseNames(options.headers ?? {}), ...ofCall });
  const redact = (text: string) => withoutKey(text, secrets);
  const failed = (failure: Failure): JsonAnswer => ({
    redact,
    ok: false,
    failure: failureWithoutKey(failure, secrets),
  });
  const answer = await sendRequest({
    url: `${baseURL}${path}`,
    headers: headersOf({ ...server, auth }, body, key, call),
    body: body.type === "json" ? JSON.stringify(body.value) : "",
    provider,
    signal: call.signal,
    client: body.type === "json" ? httpClient(options.fetch) : formClient(options.fetch ?? fetch, body.form),
    timeouts: resolveTimeouts(options.timeouts, timeouts),
    limits: { ...defaultLimits, ...options.limits },
    clock: call.clock,
  });
  switch (answer.type) {
    case "failed":
      return failed(answer.failure);
    case "refused": {
      const route = { provider, endpoint: `${baseURL}#${api}`, model };
      const context = { route, rawChunks: false, quirks: noQuirks };
      const shown = { ...answer, text: redact(answer.text) };
      return failed(refusalOf(await server.codec.load(), context, shown, call.clock.now()));
    }
    case "stream": {
      // The request asked for no stream. Leaving the iterator closes the connection.
      for await (const _ of answer.frames) break;
      const message = `${provider} answered with a stream`;
      const requestId = requestIdOf(answer.headers);
      return failed(adapterFailure("malformed_response", { provider, message, requestId }));
    }
    case "body": {
      const requestId = requestIdOf(answer.headers);
      const object = asObject(parseJson(answer.text)?.value);
      if (object !== null)
        return { redact, ok: true, body: object, requestId: requestId === null ? null : redact(requestId) };
      const message = `${provider} answered with a body that is not a JSON object`;
      return failed(adapterFailure("malformed_response", { provider, requestId, message, raw: answer.text }));
    }
  }
}

/** The transport sends text only. `fetch` sends a form, and writes its `content-type` with the boundary. */
function formClient(send: FetchLike, form: FormData): HttpClient {
  return fetchClient((url, init) => send(url, { ...init, body: form }));
}

/** The headers of a request: standard headers, those of the adapter, then those of the call. Later ones win. */
function headersOf(
  { provider, auth, options }: JsonServer,
  body: JsonCallBody,
  key: string | null,
  call: AdapterCall,
): { readonly [name: string]: string } {
  const ofCall = headersOfCall(provider, call.options, null);
  // `fetch` sets the `content-type` of a form, because it contains the boundary.
  const userHeaders = Object.entries(joinHeaders(lowerCaseNames(options.headers ?? {}), ofCall)).filter(
    ([name]) => body.type === "json" || name !== "content-type",
  );
  return {
    ...(body.type === "json" ? { "content-type": "application/json" } : {}),
    accept: "application/json",
    ...(key === null ? {} : keyHeader(auth, key)),
    ...Object.fromEntries(userHeaders),
  };
}
