// Rules of a handler under which every caller of a tenant uses and decides all sessions of the tenant, for tests that
// are not about access.

import type { HttpOptions } from "everturn/http";

export const sharedSessions: Pick<HttpOptions, "owns" | "decide"> = { owns: () => true, decide: "own" };
