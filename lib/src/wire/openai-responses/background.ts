// Background mode of the OpenAI Responses API: a request with `background: true` starts a response that the provider computes by itself. It is read by its
// id: as a stream of numbered events (`sequence_number`) that can be resumed after any of them, or whole.
//
// The provider streams a response only for some minutes after it was created, and only if it was created with `stream: true`. After that the
// status is what can be read, for about ten minutes, or as long as responses are stored (`store: true`).

import type { BackgroundResponses } from "../codec.ts";

import { asObject, flagAt, textAt } from "../fields.ts";
import { decoder } from "./decode.ts";
import { statusOf } from "./items.ts";

export const background: BackgroundResponses = {
  isRequested: (body) => flagAt(body, "background") ?? false,
  decoder,
  readStatus: (body) => {
    const response = asObject(body);
    return { responseId: textAt(response, "id"), isRunning: response !== null && statusOf(response) === "open" };
  },
  streamPath: (responseId, after, include) =>
    pathOf(responseId, ["stream=true", ...(after === null ? [] : [`starting_after=${after}`]), ...included(include)]),
  statusPath: (responseId, include) => pathOf(responseId, included(include)),
  cancelPath: (responseId) => `${pathOf(responseId, [])}/cancel`,
};

function pathOf(responseId: string, query: readonly string[]): string {
  const path = `/responses/${encodeURIComponent(responseId)}`;
  return query.length === 0 ? path : `${path}?${query.join("&")}`;
}

function included(include: readonly string[]): readonly string[] {
  return include.map((field) => `include[]=${encodeURIComponent(field)}`);
}
