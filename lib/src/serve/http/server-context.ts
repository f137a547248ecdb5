// What the requests of a handler share: the permits of streams, turns and pages, and the budget of unread responses.

import type { Clock } from "../../core/clock/clock.ts";
import type { Caller } from "./auth.ts";
import type { HttpLimits } from "./limits.ts";
import type { ServerContext } from "./routes/route.ts";

import { nextTask } from "../../core/clock/clock.ts";
import { startTimer } from "../../core/clock/timer.ts";
import { FairShare } from "../../core/fair/fair-share.ts";
import { readsAtOnce } from "../../durable/internal.ts";
import { ByteBudget } from "./byte-budget.ts";
import { HttpError } from "./failure.ts";
import { ConcurrencyLimit } from "./limits.ts";
import { jsonHeaders, largeBodyOf } from "./routes/route.ts";
import { completeBody, partsBody, sseBody, sseHeaders } from "./sse.ts";

/** How often a body that waits for memory tries again, in milliseconds. */
const bodyWaitMs = 20;

export function createServerContext(limits: HttpLimits, clock: Clock, shutdown: AbortSignal | null): ServerContext {
  const streams = new ConcurrencyLimit({ total: limits.streams, each: limits.streamsPerTenant }, "open streams");
  const turns = new ConcurrencyLimit({ each: limits.turnsPerTenant }, "open turns");
  const { bufferBytesPerTenant, bufferBytesTotal } = limits;
  const budget = new ByteBudget({ tenant: bufferBytesPerTenant, process: bufferBytesTotal }, clock);
  const pages = new FairShare(readsAtOnce);
  const openAccount = (caller: Caller) => (cut: () => void) => budget.open(tenantKey(caller), cut);
  return {
    clock,
    shutdownSignal: shutdown,
    countBody: async ({ request, caller, validity, pagePermit }, response) => {
      const text = largeBodyOf(response);
      const { status, headers } = response;
      if (text === null || request.method === "HEAD") return response;
      // At most the bodies in page permits wait for memory; the other requests of the tenant wait for a permit, and
      // hold no body.
      await pagePermit();
      const account = budget.open(tenantKey(caller), () => undefined);
      while (account.take(text.length) !== "taken") {
        // A request that has started something must be answered, also if it has to wait.
        const isOver = request.method === "GET" || request.signal.aborted || shutdown?.aborted === true;
        if (isOver || validity.ended?.aborted === true) {
          account.close();
          validity.ended?.throwIfAborted();
          throw new HttpError(
            "too_many_requests",
            "limit reached: bytes of responses that are not read yet; try again later",
            { headers: { "retry-after": "1" } },
          );
        }
        await new Promise<void>((resolve) => startTimer(clock, bodyWaitMs, resolve));
      }
      const openIt = (cut: () => void) => Object.assign(account, { cut });
      const settings = { limits, clock, openAccount: openIt, ended: validity.ended, onClose: validity.watch() };
      return new Response(completeBody(text, settings), { status, headers });
    },
    acquirePage: async ({ request, caller }) => {
      const permit = pages.request(tenantKey(caller));
      const { granted, release } = permit;
      if (permit.state === "waiting") {
        await granted;
        // Rendering a page occupies the event loop, so requests that have arrived meanwhile run before the next page.
        await nextTask();
      }
      if (request.signal.aborted) {
        release();
        throw new HttpError("request_timeout", "the client has disconnected");
      }
      return release;
    },
    acquireTurn: (caller) => turns.acquire(tenantKey(caller)),
    acquireStream: ({ request, caller, validity: { ended, watch } }) => {
      const releasePermit = streams.acquire(tenantKey(caller));
      const unwatch = watch();
      const release = () => {
        unwatch();
        releasePermit();
      };
      return {
        release,
        respond: (source, headers = {}) => {
          const responseHeaders = { ...sseHeaders, ...headers };
          if (request.method !== "HEAD") {
            const settings = { limits, clock, shutdown, ended, onClose: release, openAccount: openAccount(caller) };
            return new Response(sseBody(source, settings), { headers: responseHeaders });
          }
          // A response to HEAD has no body, so the source is closed without being read.
          release();
          source.onClose?.();
          return new Response(null, { headers: responseHeaders });
        },
        respondJson: (parts) => {
          if (request.method !== "HEAD") {
            const settings = { limits, clock, ended, onClose: release, openAccount: openAccount(caller) };
            return new Response(partsBody(parts, settings), { headers: jsonHeaders });
          }
          release();
          parts.return().catch(() => undefined);
          return new Response(null, { headers: jsonHeaders });
        },
      };
    },
  };
}

/** The key of the limits per tenant. Callers without a tenant share one. */
export function tenantKey({ tenant }: Caller): string {
  return tenant ?? "";
}
