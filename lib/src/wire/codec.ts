// What an API of a provider looks like from here: a pure pair of writing requests and reading what comes back. No host, no key, no clock, no I/O;
// it runs on a string in a test.
//
// Rules:
//   1. `encode` is total for a valid request: what the API has no place for is left out, and said so in `left`; what cannot be sent at all throws
//      an `AdapterError` (`unsupported_feature`, `invalid_request`).
//   2. W1: decoding never throws on what it does not know. Unknown events, parts and fields are ignored or kept as opaque parts.
//   3. W3: a streamed reply and a whole one give the same message, finish reason, usage and calls.
//   4. W4: what a provider needs back is kept in `provider` of the part or call it belongs to, stamped with provider, endpoint and the model that was
//      asked for, and is sent back to that route alone (`replayFor`). What is not sent back is said in `left` as `foreign_replay`.
//   5. E1: exactly one terminal event, `message_completed` or `error`; only `usage` and `raw_chunk` may follow. A stream that ends without the
//      protocol's own end is a `stream_error` with reason `interrupted`, given by `end()`.
//   6. Finish reasons: `tool_calls` whenever the reply holds whole calls for us to run and ended well, whatever the provider's own word; `rawFinishReason`
//      keeps that word. A refusal is `content_filter`.
//   7. Usage is inclusive (docs/decisions/0009): `inputTokens` counts cached tokens too, `outputTokens` counts reasoning too.

import type { AdapterFailure, Json, JsonObject, ModelEvent, ModelRequest, ProviderRoute } from "../model/internal.ts";

export type WireApi = "openai-responses" | "openai-chat" | "anthropic-messages" | "gemini";

/**
 * Translates between the library's data and one provider API. Pure: it performs no I/O. Decoding never throws on
 * unknown input (W1).
 */
export type Codec = {
  readonly api: WireApi;
  readonly encode: (request: ModelRequest, context: WireContext) => EncodedRequest;
  /** Reads a stream: frames in, events out. One decoder a stream. */
  readonly decoder: (context: WireContext) => Decoder;
  /** Reads a whole reply; the same events as its stream would give, without the deltas in between. */
  readonly decodeReply: (body: Json, context: WireContext) => readonly ModelEvent[];
  /** What the provider says with an HTTP status of 400 and above, or in place of a reply. `body` is JSON, or the text when it is not. */
  readonly decodeError: (answer: ErrorResponse, context: WireContext) => AdapterFailure;
  /** Responses that the provider computes without a connection. Absent: the API has none. */
  readonly background?: BackgroundResponses;
};

/**
 * How an API addresses responses that the provider computes without a connection, so that a client can lose the stream and read the rest, or the whole, later.
 * Paths are relative to the base URL. `include` is the list of optional fields that the request asked for.
 */
export type BackgroundResponses = {
  /** Does this request body start one? */
  readonly isRequested: (body: JsonObject) => boolean;
  readonly decoder: (context: WireContext) => ResumableDecoder;
  /** Reads the state of a response from its whole body. */
  readonly readStatus: (body: Json) => { readonly responseId: string | null; readonly isRunning: boolean };
  /** GET: the events of the response after the one numbered `after`; `null`: all of them. */
  readonly streamPath: (responseId: string, after: number | null, include: readonly string[]) => string;
  /** GET: the response as it is now. */
  readonly statusPath: (responseId: string, include: readonly string[]) => string;
  /** POST: stops the response. */
  readonly cancelPath: (responseId: string) => string;
};

/** What a codec needs besides the request: the route, and the differences of the server. */
export type WireContext = {
  /** Whom we talk to, and which model was asked for: what replay data is stamped with and compared to. */
  readonly route: ProviderRoute;
  /** Give the provider's own events too, as `raw_chunk`. */
  readonly rawChunks: boolean;
  /** How a server that is only compatible differs. */
  readonly quirks: Quirks;
  /** Start responses in the background unless the options of the request decide. Default: `false`. */
  readonly background?: boolean;
};

/** How a server deviates from the API it implements. Plain data, so that a preset is a list of these. */
export type Quirks = {
  /** The field for the output limit; `null`: whatever the API has. */
  readonly maxTokensField?: "max_tokens" | "max_completion_tokens";
  /** Ask for usage at the end of a stream. */
  readonly streamUsage?: boolean;
  /** The role of instructions. */
  readonly systemRole?: "system" | "developer";
  /** Can answer in a JSON Schema. */
  readonly jsonSchema?: boolean;
  /** Takes `strict` for tools and schemas. */
  readonly strict?: boolean;
  /** Fields a request must not have. */
  readonly without?: readonly string[];
  /** Where reasoning text stands in deltas and messages of chat servers that send it. */
  readonly reasoningField?: "reasoning" | "reasoning_content";
  /**
   * Longest id of a call, and the only characters it may have: `alphanumeric` takes `_` and `-` too, `letters_and_digits` does not. `exact`: ids have
   * that length, no other.
   */
  readonly callIds?: {
    readonly maxLength: number;
    readonly pattern: "alphanumeric" | "letters_and_digits" | "any";
    readonly exact?: boolean;
  };
};

/** No deviations: the server of the provider itself. */
export const noQuirks: Quirks = {};

export type EncodedRequest = {
  /** Behind the base URL. */
  readonly path: string;
  readonly body: JsonObject;
  /** Headers the API itself asks for; never a key. */
  readonly headers: { readonly [name: string]: string };
  /** What of the request is not in it, and why: evidence for whoever wonders. */
  readonly omissions: readonly Omission[];
};

export type Omission = { readonly path: string; readonly reason: "foreign_replay" | "unsupported" | "repaired" };

/** One event of a server-sent event stream. */
export type Frame = { readonly event: string | null; readonly data: string };

export type Decoder = {
  readonly push: (frames: readonly Frame[]) => readonly ModelEvent[];
  /** The stream is over. Nothing when its end was heard; otherwise the failure. */
  readonly end: () => readonly ModelEvent[];
  /** What was heard, for a count: events that were understood, kept without being understood, and neither. */
  readonly counts: { readonly understood: number; readonly opaque: number; readonly unknown: number };
};

/** A decoder that outlives its connection: another connection, or the whole response, can continue what it has read. */
export type ResumableDecoder = Decoder & {
  /** The response that is being read, and the number of the last event (`null`: events have no numbers); `null` before the response is named. */
  readonly position: () => { readonly responseId: string; readonly sequence: number | null } | null;
  /** The next frames come from another connection: those up to the last event that was read are skipped. */
  readonly reattach: () => void;
  /** Ends the reply with the whole response. Text beyond the deltas read so far is emitted as one more delta, so that the deltas add up. */
  readonly complete: (body: Json) => readonly ModelEvent[];
};

export type ErrorResponse = {
  readonly status: number | null;
  readonly body: Json;
  readonly requestId: string | null;
  readonly retryAfterMs: number | null;
};
