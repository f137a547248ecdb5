// The route of the search in messages. Part of the inspection routes (option `inspect`). Callers find messages of their own tenant only.

import type { Route } from "./route.ts";

import { boundedText, checkQuery, queryParameter, wholeNumber } from "../input.ts";
import { jsonAnswer, schemaRef } from "../openapi/schemas.ts";
import { json, route } from "./route.ts";

/** The longest query, in characters. */
const maxQueryLength = 16_384;

/** The routes of the search. */
export const searchRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/search",
    operationId: "searchMessages",
    summary: "Finds messages that contain all words of a query. 404 if the storage cannot search.",
    query: [
      { name: "q", description: "The words. The last one may be the beginning of a word.", schema: { type: "string" } },
      {
        name: "limit",
        description: "The largest number of messages. Default: 20.",
        schema: { type: "integer", minimum: 1, maximum: 100 },
      },
    ],
    answers: { 200: jsonAnswer("The messages, of the newest sessions first.", schemaRef("SearchHitList")) },
    handle: async ({ inspection, url, pageSlot }) => {
      checkQuery(url.searchParams, ["q", "limit"]);
      const text = queryParameter(url.searchParams, "q", boundedText(maxQueryLength)) ?? "";
      const limit = queryParameter(url.searchParams, "limit", wholeNumber) ?? 20;
      await pageSlot();
      return json({ items: await inspection.search(text, { limit }) });
    },
  }),
];
