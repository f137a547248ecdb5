// What goes wrong between a client and a server before the library behind it is asked: said by the one, read by the other.

/** What goes wrong before the library is asked. */
export type HttpReason = (typeof httpReasons)[number];
export const httpReasons = [
  "invalid_body",
  "invalid_query",
  "unauthorized",
  "forbidden",
  "no_such_route",
  "method_not_allowed",
  "not_acceptable",
  "body_too_large",
  "unsupported_media_type",
  "too_many_requests",
  "shutting_down",
  "internal",
] as const;
