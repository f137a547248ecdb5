// The route of the overview: sums over ended turns. Part of the inspection routes (option `inspect`).
//
// The sums are those of all callers of all tenants, so only operators read them. A key that lists engines sees no sums of other engines by name.

import type { Overview } from "../../../core/model/internal.ts";
import type { Inspection } from "../../inspect/internal.ts";
import type { Caller } from "../auth.ts";
import type { Parameter, Route } from "./route.ts";

import { checkQuery, queryParameter, wholeNumber } from "../input.ts";
import { jsonAnswer, schemaRef } from "../openapi/schemas.ts";
import { json, operatorRoute } from "./route.ts";

const fromParameter: Parameter = {
  name: "from",
  description:
    "The beginning of the period, in milliseconds since 1970-01-01 UTC. Default: 24 hours before `until`. At most 90 days before it.",
  schema: { type: "integer", minimum: 0 },
};
const untilParameter: Parameter = {
  name: "until",
  description: "The end of the period, in milliseconds since 1970-01-01 UTC. Default: now.",
  schema: { type: "integer", minimum: 0 },
};

/** The routes of the overview. */
export const overviewRoutes = (inspection: Inspection): readonly Route[] => [
  operatorRoute({
    method: "GET",
    path: "/overview",
    operationId: "getOverview",
    summary:
      "Sums up the turns that ended in a period, by time, engine, tool and tenant, of all tenants. Only for operators.",
    query: [fromParameter, untilParameter],
    answers: { 200: jsonAnswer("The sums.", schemaRef("Overview")) },
    handle: async ({ caller, url, pageSlot }) => {
      checkQuery(url.searchParams, ["from", "until"]);
      const from = queryParameter(url.searchParams, "from", wholeNumber);
      const until = queryParameter(url.searchParams, "until", wholeNumber);
      await pageSlot();
      const overview = await inspection.overview({
        ...(from === undefined ? {} : { from }),
        ...(until === undefined ? {} : { until }),
        allTenants: true,
      });
      return json(visibleTo(caller, overview));
    },
  }),
];

/** The overview without the names of engines that the caller may not use. */
function visibleTo({ engines: allowed }: Caller, overview: Overview): Overview {
  if (allowed === undefined) return overview;
  return { ...overview, engines: overview.engines.filter(({ name }) => allowed.includes(name)) };
}
