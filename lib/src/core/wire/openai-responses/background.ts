// Background mode of the OpenAI Responses API. A request with `background: true` starts a response that the provider
// computes without a connection. The response is read by its id: as a stream of numbered events (`sequence_number`),
// which resumes after any number (`starting_after`), or complete (fixtures/wire/openai-responses/background).
// `core/adapters/background.ts` reads it over several connections.
//
// The provider streams a response only for some minutes after its creation, and only if it was created with
// `stream: true`. After that it can be read complete, for about ten minutes, or as long as the provider stores it
// (`store: true`).

import type { BackgroundResponses } from "../codec.ts";

import { asObject, flagAt, textAt } from "../fields.ts";
import { decoder } from "./decode.ts";
import { statusOf } from "./items.ts";

/** Paths and decoder of background responses. */
export const background: BackgroundResponses = {
  isRequested: (body) => flagAt(body, "background") ?? false,
  decoder,
  readStatus: (body) => {
    const response = asObject(body);
    return { responseId: textAt(response, "id"), isRunning: response !== null && statusOf(response) === "open" };
  },
  streamPath: (responseId, after, include) =>
    responsePath(responseId, [
      "stream=true",
      ...(after === null ? [] : [`starting_after=${after}`]),
      ...included(include),
    ]),
  statusPath: (responseId, include) => responsePath(responseId, included(include)),
  cancelPath: (responseId) => `${responsePath(responseId, [])}/cancel`,
};

function responsePath(responseId: string, query: readonly string[]): string {
  const path = `/responses/${encodeURIComponent(responseId)}`;
  return query.length === 0 ? path : `${path}?${query.join("&")}`;
}

function included(include: readonly string[]): readonly string[] {
  return include.map((field) => `include[]=${encodeURIComponent(field)}`);
}
