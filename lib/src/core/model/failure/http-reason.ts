// The reasons for which the HTTP handler rejects a request before it reaches the library. The server sends them and the
// client reads them, so they are in the layer that both import.

import { keysOf } from "../parse/json.ts";

/** The HTTP status of each reason. */
export const httpStatuses = {
  invalid_body: 400,
  invalid_query: 400,
  unauthorized: 401,
  forbidden: 403,
  no_such_route: 404,
  method_not_allowed: 405,
  not_acceptable: 406,
  request_timeout: 408,
  body_too_large: 413,
  unsupported_media_type: 415,
  too_many_requests: 429,
  shutting_down: 503,
  internal: 500,
};

/** Why the HTTP handler rejected a request before it reached the library. */
export type HttpReason = keyof typeof httpStatuses;
export const httpReasons = keysOf(httpStatuses);
