// The limits of HTTP requests: time, and what a server may send. A file of its own: adapters check the options before
// the first call loads the transport.

/** Time limits of one HTTP request, in milliseconds. A request that exceeds one fails with the reason `timeout`. */
export type Timeouts = {
  /**
   * From the start of the request to the response headers: DNS, TCP, TLS, upload and the server's own delay. Default:
   * 60,000.
   */
  readonly connect: number;
  /**
   * From the response headers to the first bytes of the body. Default: 120,000: a model may reason before it writes.
   */
  readonly firstByte: number;
  /** Between two reads of the body. Default: 60,000. SSE comments (keep-alives) count as reads. */
  readonly betweenChunks: number;
  /** For the whole request. Default: `null`, no limit. */
  readonly total: number | null;
};

export const defaultTimeouts: Timeouts = { connect: 60_000, firstByte: 120_000, betweenChunks: 60_000, total: null };

/**
 * Limits on what a server may send. They protect the process from a faulty or malicious server; no real reply comes
 * near them.
 */
export type TransportLimits = {
  /** Longest body of an error response, in bytes. Default: 64 KiB. A longer one is cut. */
  readonly errorBody: number;
  /** Longest body that is not a stream, in bytes. Default: 64 MiB. A longer one fails the call. */
  readonly body: number;
  /** Longest line or event of a stream, in characters. Default: 16 Mi characters. A longer one fails the call. */
  readonly line: number;
  /** Most events in one stream. Default: 2,000,000. One more fails the call. */
  readonly events: number;
  /** Longest stream, in bytes, comments and blank lines included. Default: 256 MiB. A longer one fails the call. */
  readonly stream: number;
  /**
   * Longest reply, in characters of text, reasoning and arguments. Default: 4 Mi characters, about a million tokens. A
   * longer one fails the call.
   */
  readonly reply: number;
};

export const defaultLimits: TransportLimits = {
  errorBody: 64 * 1024,
  body: 64 * 1024 * 1024,
  line: 16 * 1024 * 1024,
  events: 2_000_000,
  stream: 256 * 1024 * 1024,
  reply: 4 * 1024 * 1024,
};
