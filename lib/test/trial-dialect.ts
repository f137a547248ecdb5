// A dialect whose routes declare nothing about what they use, as a route that was written in a hurry: the handler has
// to bound what they need.

import type { CallerSessions } from "../src/serve/http/internal.ts";
import type { Dialect } from "everturn/http";

import { busyPolicies } from "../src/core/engine/internal.ts";
import { enumSchema } from "../src/serve/contract/internal.ts";
import { get } from "../src/serve/contract/operation.ts";
import { json, route } from "../src/serve/http/internal.ts";
import { routesOf } from "../src/serve/http/routes/operation-route.ts";
import { turnOptions } from "../src/serve/http/routes/turn-options.ts";
import { userMessage } from "../src/serve/http/user-message.ts";

/** The paths of the routes: an operation of the contract, and a route of a dialect. */
export const trialPaths = ["/trial/operation", "/trial/route"] as const;

const answers = { 200: { description: "A page." } };

/** Both routes return `page`. */
export function trialDialect(page: (sessions: CallerSessions) => Promise<object>): Dialect {
  const [operationPath, routePath] = trialPaths;
  const operations = {
    trial: get(operationPath, { scope: "read", summary: "Returns a page.", answers: { responses: answers } }),
  };
  return {
    name: "trial",
    routes: ({ policy }) => [
      ...routesOf(
        operations,
        { message: userMessage(policy), options: turnOptions([]), whenBusy: enumSchema(busyPolicies) },
        { trial: ({ sessions }) => page(sessions) },
      ),
      route({
        method: "GET",
        path: routePath,
        operationId: "trialRoute",
        scope: "read",
        summary: "Returns a page.",
        answers,
        handle: async ({ sessions }) => json(await page(sessions)),
      }),
    ],
  };
}
