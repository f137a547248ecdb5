// Authentication: maps a request to its caller, by bearer token (RFC 6750) or by a function of the operator.
//
// A caller is a tenant, a name, a context, a list of engines, and whether it operates the server. All of them come from
// the operator's configuration and never from the request, so a request cannot choose another tenant's sessions, the
// name in a decision, or the data that tools receive about its caller.
//
// Identity
//   Sessions belong to callers (access.ts), so each caller of a tenant has an identity, which is stored with the
//   sessions that it starts:
//     its name                        callers with a name. Two keys with one name are one caller, so a token can be
//                                     replaced by a new one
//     `key:` and a digest             API keys without a name: 16 hexadecimal digits of the SHA-256 of the token.
//                                     Another token is another caller
//     the empty string                callers of an `auth` function without a name: they cannot be told apart, and are
//                                     one caller of their tenant
//     none                            operators without a name, operators that name a tenant with a request, and
//                                     `auth: "none"`
//   The audit log names operators too: a key without a name by `key:` and the digest.
//
// Stored keys (keys.ts) have the form of a token that no other token has, so they are looked up first, if the handler
// has the option `keys`.
//
// Failed attempts
//   An address with too many failed attempts in a minute gets 429, and the storage is not asked about the keys that it
//   sends, except about those that were valid in this process before: others that share the address go on to work.
//
// Invariants
//   1. Tokens are compared as SHA-256 digests with a constant-time comparison, and every configured key is compared, so
//      the response time reveals neither a prefix of a token nor which key matched.
//   2. `auth` fails closed: a value of the operator's function that is not a caller rejects the request or throws; no
//      value other than a caller object authenticates.
//   3. No token appears in an error message.

import type { Clock } from "../../core/clock/clock.ts";
import type { JsonObject } from "../../core/model/internal.ts";
import type { Scope } from "../contract/internal.ts";
import type { StoredKey, StoredKeys } from "./keys.ts";

import { FairShare } from "../../core/fair/fair-share.ts";
import { MisuseError } from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { isLimitKey, limitKeyRule, longestCallerName } from "../../durable/internal.ts";
import { scopes } from "../contract/internal.ts";
import { HttpError } from "./failure.ts";

/** The authenticated caller of a request. */
export type Caller = {
  /** The tenant whose sessions the caller reaches. Default: the shared tenant without a name. */
  readonly tenant?: string;
  /**
   * The identity of the caller in its tenant: the sessions that it starts belong to it, and it is recorded with
   * approvals and denials. A request cannot state another one. Up to 256 characters, not beginning with `key:`.
   * Default: an API key without a name is a caller of its own as long as its token is not changed; callers without a
   * name of an `auth` function are one caller of their tenant; and no name is recorded with decisions.
   */
  readonly name?: string;
  /**
   * The context of turns that this caller starts, in sessions of any caller. Tool handlers receive it. Default: `{}`.
   */
  readonly context?: JsonObject;
  /**
   * What the limits per key of the runtime count the caller's turns under, for instance the id of the user
   * (`perLimitKey`). A request cannot choose it. Up to 256 characters. Default: none.
   */
  readonly limitKey?: string;
  /**
   * The names of the engines that the caller may use, also those of `/v1/chat/completions`. A session that is started
   * without an engine has `default` if it is listed, otherwise the first one. Default: all engines.
   */
  readonly engines?: readonly string[];
  /**
   * What the caller may do: `read`, `write` (start, continue, change and delete sessions), `decide` (calls that wait
   * for a decision), `admin` (keys, the audit log, whole tenants; only for operators). A request without its scope gets
   * 403. Default: all, and `admin` for operators only.
   */
  readonly scopes?: readonly Scope[];
  /**
   * `true`: the caller operates the server. It reads all sessions of its tenant and decides in all of them. The
   * inspection routes (`inspect` of the handler) show an operator the instructions of engines, the workers and the sums
   * of its tenant, or of all tenants if it names none, and let it start scenarios. Sessions of other tenants stay out
   * of reach. Default: `false`; `true` with `auth: "none"`.
   */
  readonly operator?: boolean;
};

/** A bearer token and the caller it authenticates. A token has at least 16 characters and no whitespace. */
export type ApiKey = Caller & {
  /** The bearer token. Tokens of one handler must differ. */
  readonly token: string;
};

/**
 * How requests are authenticated: a list of bearer tokens, or a function that returns the caller (`null` rejects
 * the request). `none` accepts every request; use it only for a process that no other machine can reach, or behind
 * a proxy that authenticates.
 */
export type Auth = "none" | readonly ApiKey[] | ((request: Request) => Caller | null | Promise<Caller | null>);

/** Shorter tokens are rejected at start-up because they can be guessed. */
const minTokenLength = 16;

/** The caller of a request, and its identity in its tenant; `null`: it has none. */
export type Authenticated = {
  readonly caller: Caller;
  readonly id: string | null;
  /** Who the audit log names: its name, or `key:` and a digest. `null`: it cannot be told from others. */
  readonly actor: string | null;
  /** The id of its stored key; `null`: it has none. */
  readonly keyId: string | null;
};

/**
 * How long the key of a request is valid. What takes long (streams, waits, runs, bodies that are sent as the client
 * reads them) ends with it, and nothing else looks whether a key has ended.
 */
export type Validity = {
  /** Aborts when the key is not valid any more; the reason is the error for the client. `null`: never. */
  readonly ended: AbortSignal | null;
  /** Watches the key until the returned function is called. */
  readonly watch: () => () => void;
};

/** The validity of callers without a stored key. */
export const alwaysValid: Validity = { ended: null, watch: () => () => undefined };

/** Resolves to the caller of a request, or rejects with 401 (`unauthorized`). */
export type Authenticate = (request: Request) => Promise<Authenticated>;

/** What authentication uses besides `auth`. */
export type AuthContext = {
  /** The stored keys, and the id of the key that a token names; `null`: stored keys are not accepted. */
  readonly stored: {
    readonly idOf: (token: string) => string | null;
    readonly find: StoredKeys["find"];
  } | null;
  /** The address of the client; `null`: it is not known, and its failed attempts are not limited. */
  readonly address: (request: Request) => string | null;
  readonly clock: Clock;
};

/** Builds the authentication step of a handler. Throws `MisuseError` if `auth` is not usable. */
export function authenticator(auth: Auth, { stored, address, clock }: AuthContext): Authenticate {
  const byRules = authenticatorOf(auth);
  if (auth === "none") return byRules;
  const failures = new FailedAttempts(clock);
  /** Keys that were valid here, by id. */
  const validIds = new Set<string>();
  const byKey = async (token: string, id: string, from: string | null): Promise<Authenticated | null> => {
    if (stored === null) return null;
    if (from !== null && failures.isLimited(from) && !validIds.has(id)) return null;
    const key = await stored.find(token);
    if (key === null) return null;
    if (validIds.size >= maxValidIds) validIds.clear();
    validIds.add(id);
    return { caller: callerOf(key), id: key.name, actor: key.name, keyId: id };
  };
  return async (request) => {
    const token = bearerToken(request);
    const id = token === null ? null : (stored?.idOf(token) ?? null);
    const from = address(request);
    try {
      if (token === null || id === null) return await byRules(request);
      const authenticated = await byKey(token, id, from);
      if (authenticated !== null) return authenticated;
      throw invalidKey();
    } catch (error) {
      if (from === null || !(error instanceof HttpError) || error.reason !== "unauthorized") throw error;
      if (!failures.isLimited(from)) {
        failures.count(from);
        throw error;
      }
      const message = "too many failed attempts to authenticate from this address; try again later";
      throw new HttpError("too_many_requests", message, { headers: { "retry-after": `${failures.secondsLeft}` } });
    }
  };
}

/** How many ids of valid keys a process remembers. */
const maxValidIds = 10_000;

function callerOf({ name, tenant, scopes: listed, engines, operator, context }: StoredKey): Caller {
  return {
    name,
    context,
    operator,
    ...(tenant === null ? {} : { tenant }),
    ...(listed === null ? {} : { scopes: listed }),
    ...(engines === null ? {} : { engines }),
  };
}

/** Counts failed attempts by address, in periods of a minute. Its memory is bounded by the number that it counts. */
class FailedAttempts {
  static readonly #capacity = { each: 20, total: 20_000 };
  static readonly #periodMs = 60_000;
  readonly #clock: Clock;
  #counted = new FairShare(FailedAttempts.#capacity);
  #until = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  isLimited(address: string): boolean {
    if (this.#clock.now() >= this.#until) return false;
    return (
      this.#counted.heldBy(address) >= FailedAttempts.#capacity.each ||
      this.#counted.held >= FailedAttempts.#capacity.total
    );
  }

  count(address: string): void {
    const now = this.#clock.now();
    if (now >= this.#until) {
      this.#counted = new FairShare(FailedAttempts.#capacity);
      this.#until = now + FailedAttempts.#periodMs;
    }
    this.#counted.tryTake(address);
  }

  get secondsLeft(): number {
    return Math.max(1, Math.ceil((this.#until - this.#clock.now()) / 1000));
  }
}

function bearerToken(request: Request): string | null {
  return /^Bearer +([^\s]+) *$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? null;
}

/** Authentication by the option `auth`. */
function authenticatorOf(auth: Auth): Authenticate {
  if (auth === "none") return async () => ({ caller: { operator: true }, id: null, actor: null, keyId: null });
  if (typeof auth === "function") {
    return async (request) => {
      const caller: unknown = await auth(request);
      // The function may come from JavaScript without types. `undefined` and `false` reject like `null`; any other
      // value that is not a caller is an error of the program (500), never an authenticated request.
      if (caller === null || caller === undefined || caller === false) {
        throw unauthorized("the request was not authenticated");
      }
      if (!isCaller(caller))
        throw new Error(
          "the auth function must return { tenant?, name?, context?, engines?, scopes?, limitKey?, operator? }, or null to reject the request",
        );
      const name = nameOf(caller);
      return { caller, id: name ?? (caller.operator === true ? null : ""), actor: name, keyId: null };
    };
  }
  checkKeys(auth);
  // The digests are computed by the first request and cached as a value, not as a promise: workerd allows no
  // asynchronous work outside of a request, and forbids a request to await a promise that another request created.
  let digests: readonly Uint8Array[] | null = null;
  return async (request) => {
    const token = bearerToken(request);
    if (token === null) throw unauthorized("a bearer token is required: Authorization: Bearer <token>");
    const presentedDigest = await digestOf(token);
    digests ??= await Promise.all(auth.map((key) => digestOf(key.token)));
    let matchedKey: ApiKey | null = null;
    // No early exit: all keys are compared whether or not one has matched, so that the time does not depend on the
    // match.
    for (const [index, keyDigest] of digests.entries())
      if (constantTimeEqual(presentedDigest, keyDigest)) matchedKey = auth[index] ?? null;
    if (matchedKey === null) throw unauthorized("the bearer token is not valid");
    const name = nameOf(matchedKey);
    const actor = name ?? (await keyIdentity(matchedKey));
    return { caller: matchedKey, id: matchedKey.operator === true ? name : actor, actor, keyId: null };
  };
}

/** The name of a caller; `null`: it has none. */
function nameOf({ name }: Caller): string | null {
  return name === undefined || name === "" ? null : name;
}

/** Identities of keys without a name begin with it; names do not. */
const keyPrefix = "key:";

/**
 * The identity of a key without a name. The digest has a prefix of its own, and is cut off, so that it is no digest
 * with which a token can be looked up.
 */
async function keyIdentity({ token }: ApiKey): Promise<string> {
  const digest = await digestOf(`everturn caller\n${token}`);
  return keyPrefix + Array.from(digest.subarray(0, 8), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The rule for names in words. */
const nameRule = `a string of up to ${longestCallerName} characters that does not begin with "${keyPrefix}"`;

function isName(value: unknown): boolean {
  return typeof value === "string" && value.length <= longestCallerName && !value.startsWith(keyPrefix);
}

/**
 * The context of a turn that the caller starts. Never that of another caller, so a caller without a context has an
 * empty one.
 */
export function contextOf({ context = {} }: Caller): JsonObject {
  return context;
}

/**
 * The engine of a session that the caller starts; `undefined`: the default of the runtime. Throws 403 if the caller may
 * not use it. The error is the same for engines that do not exist.
 */
export function engineOfNew(caller: Caller, named: string | undefined): string | undefined {
  const { engines } = caller;
  if (named === undefined) return engines === undefined || engines.includes("default") ? undefined : engines[0];
  checkEngineOf(caller, named);
  return named;
}

/** Throws 403 if the caller may not use the engine. */
function checkEngineOf({ engines }: Caller, name: string): void {
  if (engines === undefined || engines.includes(name)) return;
  throw new HttpError("forbidden", "this key may not use the engine", { details: { path: ["options", "engine"] } });
}

/** Whether the caller has a scope. */
export function hasScope({ scopes: listed, operator }: Caller, scope: Scope): boolean {
  return listed === undefined ? scope !== "admin" || operator === true : listed.includes(scope);
}

/** Whether the caller reaches the sessions of every tenant: an operator that names none, with the scope `admin`. */
export function reachesTenants(caller: Caller): boolean {
  return caller.operator === true && caller.tenant === undefined && hasScope(caller, "admin");
}

/** Throws 403 if the caller lacks a scope. */
export function checkScope(caller: Caller, scope: Scope): void {
  if (hasScope(caller, scope)) return;
  throw new HttpError("forbidden", `this key lacks the scope "${scope}"`);
}

/** The rule for the fields of a caller in words. */
export const callerRule = `up to ${longestCallerName} characters that do not begin with "${keyPrefix}"; scopes from ${scopes.join(", ")}, with admin for operators only; engines as a list of one or more names; and a context that is an object`;

/** The rule for scopes in words. */
const scopesRule = `a list of one or more of ${scopes.join(", ")}; admin needs operator: true`;

function isScopes(value: unknown, operator: unknown): boolean {
  const known: readonly unknown[] = scopes;
  if (!Array.isArray(value) || value.length === 0 || !value.every((scope) => known.includes(scope))) return false;
  return operator === true || !value.includes("admin");
}

const isOptionalString = (value: unknown) => value === undefined || typeof value === "string";

/** Whether a value has the fields of a caller. */
export function isCaller(value: unknown): value is Caller {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const caller: { readonly [Name in keyof Caller]?: unknown } = value;
  const { tenant, name, context, engines, scopes: listed, limitKey, operator } = caller;
  if (listed !== undefined && !isScopes(listed, operator)) return false;
  if (limitKey !== undefined && !isLimitKey(limitKey)) return false;
  return (
    isOptionalString(tenant) &&
    (name === undefined || isName(name)) &&
    (operator === undefined || typeof operator === "boolean") &&
    (context === undefined || isPlainObject(context)) &&
    (engines === undefined || isNameList(engines))
  );
}

function isNameList(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every((name) => typeof name === "string");
}

function checkKeys(keys: readonly ApiKey[]): void {
  if (!Array.isArray(keys) || keys.length === 0) {
    throw new MisuseError(
      "invalid_argument",
      'auth: must be a list of keys, a function, or "none" to accept every request',
      {
        path: ["auth"],
      },
    );
  }
  for (const [index, { token, name, limitKey, engines, scopes: listed, operator }] of keys.entries()) {
    if (name !== undefined && !isName(name)) {
      const message = `auth: the name of key ${index} must be ${nameRule}`;
      throw new MisuseError("invalid_argument", message, { path: ["auth", index, "name"] });
    }
    if (operator !== undefined && typeof operator !== "boolean") {
      const message = `auth: operator of key ${index} must be true or false`;
      throw new MisuseError("invalid_argument", message, { path: ["auth", index, "operator"] });
    }
    if (limitKey !== undefined && !isLimitKey(limitKey)) {
      const message = `auth: the limitKey of key ${index} must be ${limitKeyRule}`;
      throw new MisuseError("invalid_argument", message, { path: ["auth", index, "limitKey"] });
    }
    if (listed !== undefined && !isScopes(listed, operator)) {
      const message = `auth: scopes of key ${index} must be ${scopesRule}`;
      throw new MisuseError("invalid_argument", message, { path: ["auth", index, "scopes"] });
    }
    const path = ["auth", index, "token"];
    if (engines !== undefined && !isNameList(engines)) {
      const message = `auth: engines of key ${index} must be a list of one or more names of engines`;
      throw new MisuseError("invalid_argument", message, { path: ["auth", index, "engines"] });
    }
    if (typeof token !== "string" || token.length < minTokenLength || /\s/.test(token)) {
      const message = `auth: the token of key ${index} must have at least ${minTokenLength} characters and no whitespace`;
      throw new MisuseError("invalid_argument", message, { path });
    }
    // With two keys of one token the tenant of a request would depend on their order.
    if (keys.findIndex((key) => key.token === token) !== index) {
      throw new MisuseError("invalid_argument", `auth: the token of key ${index} is also the token of another key`, {
        path,
      });
    }
  }
}

/** The error for a stored key that is not valid, or not any more. */
export function invalidKey(): HttpError {
  return unauthorized("the key is not valid: it is unknown, revoked or expired");
}

function unauthorized(message: string): HttpError {
  return new HttpError("unauthorized", message, { headers: { "www-authenticate": 'Bearer realm="everturn"' } });
}

async function digestOf(token: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token)));
}

/**
 * Constant-time comparison: reads every byte of both digests, wherever they first differ. Written by hand because
 * `timingSafeEqual` exists in Node and not in browsers or workers. Comparing digests also hides the length of the
 * token.
 */
function constantTimeEqual(left: Uint8Array, right: Uint8Array): boolean {
  let difference = left.length ^ right.length;
  for (let index = 0; index < left.length; index += 1) difference |= (left[index] ?? 0) ^ (right[index] ?? 0);
  return difference === 0;
}
