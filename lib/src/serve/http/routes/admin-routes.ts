// The operations of administrators: keys, the audit log, and all sessions of a tenant or a user. The handler lets
// operators pass that name no tenant and have the scope `admin`.

import type { Runtime } from "../../../durable/internal.ts";
import type { adminOperations } from "../../contract/internal.ts";
import type { StoredKeys } from "../keys.ts";
import type { Implementations } from "./operation-route.ts";

import { HttpError } from "../failure.ts";
import { operatorRuntime } from "./session-routes.ts";

/** The implementations of the operations of administrators. */
export function adminImplementations(keys: StoredKeys, sessions: Runtime): Implementations<typeof adminOperations> {
  return {
    listKeys: async ({ query }) => ({ items: await keys.list(query) }),
    createKey: ({ actor, body }) => keys.create(body, { by: actor }),
    rotateKey: ({ actor, param, body }) => keys.rotate(param("keyId"), { ...body, by: actor }),
    revokeKey: ({ actor, param }) => keys.revoke(param("keyId"), { by: actor }),
    audit: ({ query: { limit = 50, ...query }, limits }) =>
      sessions.audit({ ...query, limit: Math.min(limit, limits.pageSize) }),
    tenants: ({ query: { limit = 50, after } }) =>
      sessions.tenants({ limit, ...(after === undefined ? {} : { after }) }),
    deleteAll: async (request) => {
      const { owner, all = false } = request.query;
      if ((owner === undefined) !== all) {
        throw new HttpError(
          "invalid_body",
          "name a user (`owner`), or confirm the deletion of all sessions (`all=true`)",
        );
      }
      const tenant = request.caller.tenant ?? "";
      const deleted = await operatorRuntime(request).deleteAll(owner === undefined ? {} : { owner });
      const ended = await keys.list({ tenant });
      const revoked = ended.filter(({ name, state }) => state === "valid" && (owner === undefined || name === owner));
      for (const { id } of revoked) await keys.revoke(id, { by: request.actor });
      return { sessions: deleted, keys: revoked.length };
    },
  };
}
