// Steps 3 to 9 of a request (handler.ts): checks, authentication, permits, the body, and its route.

import type { Clock } from "../../core/clock/clock.ts";
import type { Inspection } from "../inspect/internal.ts";
import type { Authenticated, Caller } from "./auth.ts";
import type { HttpOptions } from "./handler.ts";
import type { StoredKeys } from "./keys.ts";
import type { HttpLimits } from "./limits.ts";
import type { Route } from "./routes/route.ts";

import { FairTicks } from "../../core/fair/fair-ticks.ts";
import { checkedRules } from "./access-rules.ts";
import { callerAccess } from "./access.ts";
import { alwaysValid, authenticator } from "./auth.ts";
import { HttpError } from "./failure.ts";
import { readJson } from "./input.ts";
import { keyIdOf, KeyWatch } from "./keys.ts";
import { RequestPermits } from "./limits.ts";
import {
  checkAccess,
  checkedParam,
  checkFetchMetadata,
  checkHost,
  checkOrigin,
  idempotencyKey,
  inNamedTenant,
} from "./request-checks.ts";
import { createServerContext, tenantKey } from "./server-context.ts";

/** What the steps use besides the options of the handler. */
export type StepSettings = {
  readonly base: string;
  readonly limits: HttpLimits;
  readonly clock: Clock;
  readonly inspected: Inspection;
  /** The stored keys; `null`: they are not accepted. */
  readonly keys: StoredKeys | null;
  /** Called when a request was authenticated. */
  readonly onAuthenticated: (request: Request, caller: Caller) => void;
};

/** How many requests of one tenant begin in one tick of the event loop. */
const startsPerTick = 8;

/** Returns the function that executes a request of a route. It rejects with the error of the response. */
export function requestSteps(
  options: HttpOptions,
  settings: StepSettings,
): (matched: Route, request: Request, param: (name: string) => string) => Promise<Response> {
  const { sessions, hosts, shutdown, draining = shutdown, origins = [] } = options;
  const { base, limits, clock, inspected, keys, onAuthenticated } = settings;
  const keyWatch = keys === null ? null : new KeyWatch(keys, clock);
  const addressOf = (request: Request): string | null => options.address?.(request) ?? null;
  const authenticate = authenticator(options.auth, {
    stored: keys === null ? null : { idOf: keyIdOf, find: keys.find },
    address: addressOf,
    clock,
  });
  const rules = checkedRules(options);
  const requestPermits = new RequestPermits(limits);
  const starts = new FairTicks(startsPerTick);
  const largeBodies = new FairTicks(1);
  const server = createServerContext(limits, clock, shutdown ?? null);
  /** The sessions and the inspection that a caller reaches. */
  const reachOf = ({ caller, actor }: Pick<Authenticated, "caller" | "actor">) => {
    // Verbs of other callers name their caller (access.ts).
    const acting = actor === null || caller.operator !== true ? sessions : sessions.actedBy(actor);
    const ofTenant = caller.tenant === undefined ? acting : acting.tenant(caller.tenant);
    return {
      sessions: caller.limitKey === undefined ? ofTenant : ofTenant.limitedBy(caller.limitKey),
      inspection: caller.tenant === undefined ? inspected : inspected.tenant(caller.tenant),
    };
  };
  return async (matched, request, param) => {
    if (draining?.aborted === true || shutdown?.aborted === true) throw shuttingDown();
    checkHost(request, hosts);
    const url = new URL(request.url);
    // Without authentication there is no caller, to which nothing belongs.
    const isOpen = matched.scope === "open";
    const own = isOpen ? { caller: {}, id: null, actor: null, keyId: null } : await authenticate(request);
    if (!isOpen) onAuthenticated(request, own.caller);
    const isRead = request.method === "GET" || request.method === "HEAD";
    if (!isRead) checkOrigin(request, url, origins);
    if (!isRead || !isOpen) checkFetchMetadata(request, origins);
    checkAccess(matched, own.caller);
    const authenticated = isOpen ? own : inNamedTenant(own, request, limits.idLength);
    const { caller } = authenticated;
    const validity = own.keyId === null || keyWatch === null ? alwaysValid : keyWatch.validity(own.keyId);
    // Each open route has its own permits: requests without a key cannot take the permits of authenticated ones.
    const releaseRequestPermit = requestPermits.acquire({
      pool: isOpen ? matched.operationId : matched.pool,
      tenant: isOpen ? null : tenantKey(caller),
      address: addressOf(request),
    });
    let releasePage: () => void = noPage;
    const pagePermit = async (): Promise<void> => {
      if (releasePage === noPage) releasePage = await server.acquirePage({ request, caller });
    };
    const unwatch = validity.watch();
    try {
      const tickKey = isOpen ? JSON.stringify([matched.operationId, addressOf(request)]) : `t${tenantKey(caller)}`;
      await starts.next(tickKey);
      const reach = reachOf(authenticated);
      const input =
        matched.body === null ? null : await readJson(request, limits, clock, () => largeBodies.next(tickKey));
      // A body may take long.
      validity.ended?.throwIfAborted();
      const response = await matched.answer.to({
        server,
        base,
        limits,
        request,
        url,
        caller,
        actor: authenticated.actor,
        validity,
        ...callerAccess(reach.sessions, reach.inspection, authenticated, rules),
        runtime: caller.operator === true ? reach.sessions : null,
        input,
        param: (name) => checkedParam(name, param(name), limits.idLength),
        key: idempotencyKey(request, limits.idLength),
        releaseRequestPermit,
        pagePermit,
      });
      return await server.countBody({ request, caller, validity, pagePermit }, response);
    } finally {
      unwatch();
      releasePage();
      releaseRequestPermit();
    }
  };
}

/** Releases the page permit of a request that has taken none. */
function noPage(): void {}

/**
 * The client closes its connection, so that its next attempt can reach another process. HTTP/2 has no such header, and
 * servers drop it there.
 */
function shuttingDown(): HttpError {
  const message = "this process is shutting down; try again";
  return new HttpError("shutting_down", message, { headers: { connection: "close" } });
}
