// Who is asking. A key opens one tenant's sessions, and says what tools are told about whoever holds it; both come from the operator, never from the request.

import type { JsonObject } from "../model/internal.ts";

import { MisuseError } from "../model/internal.ts";
import { isPlainObject } from "../model/parse/reading.ts";
import { HttpError } from "./failure.ts";

/** The authenticated caller of a request. */
export type Caller = {
  /** The tenant whose sessions the caller reaches. Default: the shared tenant without a name. */
  readonly tenant?: string;
  /** The name recorded with approvals and denials. Without one, a request may state it. */
  readonly name?: string;
  /** The context of sessions that this caller starts. Tool handlers receive it. */
  readonly context?: JsonObject;
};

/** A bearer token and the caller it authenticates. */
export type ApiKey = Caller & { readonly token: string };

/**
 * How requests are authenticated: a list of bearer tokens, or a function that returns the caller (`null` rejects
 * the request). `none` accepts every request; use it only for a process that no other machine can reach, or behind
 * a proxy that authenticates.
 */
export type Auth = "none" | readonly ApiKey[] | ((request: Request) => Caller | null | Promise<Caller | null>);

/** Shorter tokens can be guessed. */
const shortestToken = 16;

export type Authenticate = (request: Request) => Promise<Caller>;

export function authenticator(auth: Auth): Authenticate {
  if (auth === "none") return async () => ({});
  if (typeof auth === "function") {
    return async (request) => {
      const caller: unknown = await auth(request);
      // Also from programs without a compiler: what says no in any way is a no, and what says nothing we know lets nobody in.
      if (caller === null || caller === undefined || caller === false) {
        throw unauthorized("this request is not allowed in");
      }
      if (!isCaller(caller))
        throw new Error("auth has to give { tenant?, name?, context? }, or null to turn a request away");
      return caller;
    };
  }
  checkKeys(auth);
  // Made by the first request that needs them, and kept once they are there: there are places where nothing may be begun before a request, nor waited
  // for that another request has begun.
  let digests: readonly Uint8Array[] | null = null;
  return async (request) => {
    const token = /^Bearer +([^\s]+) *$/i.exec(request.headers.get("authorization") ?? "")?.[1];
    if (token === undefined) throw unauthorized("a bearer token is needed: Authorization: Bearer …");
    const given = await digestOf(token);
    digests ??= await Promise.all(auth.map((key) => digestOf(key.token)));
    let found: ApiKey | null = null;
    // Every key is looked at to its end, so that the time this takes says nothing about them.
    for (const [index, known] of digests.entries()) if (equal(given, known)) found = auth[index] ?? null;
    if (found === null) throw unauthorized("that token is not known here");
    return found;
  };
}

const isText = (value: unknown) => value === undefined || typeof value === "string";

function isCaller(given: unknown): given is Caller {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return false;
  const { tenant, name, context }: { readonly [Name in keyof Caller]?: unknown } = given;
  return isText(tenant) && isText(name) && (context === undefined || isPlainObject(context));
}

function checkKeys(keys: readonly ApiKey[]): void {
  if (!Array.isArray(keys) || keys.length === 0) {
    throw new MisuseError("invalid_argument", 'auth: give it keys, a function, or "none" to let everybody in', {
      path: ["auth"],
    });
  }
  for (const [index, { token }] of keys.entries()) {
    const path = ["auth", index, "token"];
    if (typeof token !== "string" || token.length < shortestToken || /\s/.test(token)) {
      const message = `auth: a token has at least ${shortestToken} characters, and no spaces; the one of key ${index} has not`;
      throw new MisuseError("invalid_argument", message, { path });
    }
    if (keys.findIndex((key) => key.token === token) !== index) {
      throw new MisuseError("invalid_argument", `auth: key ${index} has the token of another`, { path });
    }
  }
}

function unauthorized(message: string): HttpError {
  return new HttpError("unauthorized", message, { headers: { "www-authenticate": 'Bearer realm="everturn"' } });
}

async function digestOf(token: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token)));
}

/** Compares all of it, whatever it finds. */
function equal(one: Uint8Array, other: Uint8Array): boolean {
  let difference = one.length ^ other.length;
  for (let index = 0; index < one.length; index += 1) difference |= (one[index] ?? 0) ^ (other[index] ?? 0);
  return difference === 0;
}
