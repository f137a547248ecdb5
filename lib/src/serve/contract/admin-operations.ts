// Operations of administrators: keys, the audit log, and all sessions of a tenant or a user. A handler serves them with
// its option `admin`, to operators that name no tenant and have the scope `admin`.

import type { VerbsOf } from "./operation.ts";

import { get, json, post, remove } from "./operation.ts";
import { scopes } from "./operation.ts";
import {
  arraySchema,
  booleanSchema,
  countQuery,
  countSchema,
  enumSchema,
  flagQuery,
  jsonObjectSchema,
  objectSchema,
  optionalField,
  requiredField,
  stringSchema,
  textQuery,
} from "./schema.ts";
import { pageQuery } from "./session-operations.ts";

const admin = { scope: "admin", operator: true } as const;

export const adminOperations = {
  listKeys: get("/keys", {
    client: "own",
    ...admin,
    summary: "Lists the stored API keys, also expired and revoked ones, without their secrets.",
    query: { tenant: textQuery("Only keys of this tenant.", (idLength) => idLength) },
    answers: json("KeyList", { 200: "The keys, the newest first." }),
  }),
  createKey: post("/keys", {
    client: "own",
    ...admin,
    summary: "Creates an API key. The response has its token, which is not shown again.",
    uses: "nothing",
    idempotent: "never",
    body: () =>
      objectSchema({
        name: requiredField(stringSchema, "The identity of the caller: its sessions belong to this name."),
        tenant: optionalField(stringSchema, "The tenant of the caller. Default: the shared one without a name."),
        scopes: optionalField(arraySchema(enumSchema(scopes)), "Default: all, and `admin` for operators only."),
        engines: optionalField(arraySchema(stringSchema), "The engines that the caller may use. Default: all."),
        operator: optionalField(booleanSchema, "Whether the caller operates the server. Default: false."),
        context: optionalField(jsonObjectSchema, "The context that tools receive in turns of the caller."),
        ttlMs: optionalField(countSchema, "How long the key is valid, in milliseconds. Default: until it is revoked."),
      }),
    answers: json("NewKey", { 201: "The key and its token." }),
  }),
  rotateKey: post("/keys/{keyId}/rotate", {
    client: "own",
    ...admin,
    summary: "Creates a key with the same name and rights, and ends the old one.",
    uses: "nothing",
    idempotent: "never",
    body: () =>
      objectSchema({
        graceMs: optionalField(countSchema, "How long the old key stays valid, in milliseconds. Default: 0."),
      }),
    answers: json("NewKey", { 201: "The new key and its token." }),
  }),
  revokeKey: post("/keys/{keyId}/revoke", {
    client: "own",
    ...admin,
    summary: "Revokes a key: its next request is refused by every process.",
    uses: "nothing",
    idempotent: "always",
    answers: json("StoredKey", { 200: "The key." }),
  }),
  /** A page of the audit log, newest first. */
  audit: get("/audit", {
    operationId: "listAudit",
    ...admin,
    summary: "Reads the audit log, newest first: decisions, cancels, deletions, exports and changes of keys.",
    query: {
      ...pageQuery,
      tenant: textQuery("Only rows of this tenant.", (idLength) => idLength),
      session: textQuery("Only rows of this session.", (idLength) => idLength),
      actor: textQuery("Only rows of this actor.", (idLength) => idLength),
      action: textQuery("Only rows of this action.", (idLength) => idLength),
      from: countQuery("Only rows of this time or later, in milliseconds."),
      until: countQuery("Only rows before this time, in milliseconds."),
    },
    answers: json("AuditPage", { 200: "A page of the log." }),
  }),
  /** A page of the tenants that have sessions. Only if `tenants` of {@link ServerView} says so. */
  tenants: get("/tenants", {
    operationId: "listTenants",
    ...admin,
    summary: "Lists the tenants that have sessions.",
    query: {
      after: textQuery("The cursor `next` of the previous page.", (idLength) => idLength),
      limit: countQuery("The maximum number of tenants. Default: 50.", { minimum: 1, maximum: 200 }),
    },
    answers: json("TenantPage", { 200: "A page of names, in order." }),
  }),
  deleteAll: remove("/sessions", {
    client: "own",
    operationId: "deleteSessions",
    ...admin,
    summary:
      "Deletes all sessions of a tenant, or of one user, and revokes their stored keys. The tenant is that of the header `Everturn-Tenant`, otherwise the one without a name.",
    query: {
      owner: textQuery("The user. Without it, `all` is required.", (idLength) => idLength),
      all: flagQuery("`true`: all sessions of the tenant.", { default: false }),
    },
    answers: json("DeletedSessions", { 200: "What was deleted." }),
  }),
};

/** The verbs of the client for administrators. Exported as part of `Inspector`. */
export type AdminVerbs = VerbsOf<typeof adminOperations>;
