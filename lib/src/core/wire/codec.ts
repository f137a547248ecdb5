// The codec contract: how one provider API is translated to and from the library's data.
//
// Theory of operation
//   A codec is a pair of pure translations for one API (OpenAI Responses, OpenAI Chat Completions, Anthropic Messages,
//   Gemini):
//     encode        a `ModelRequest` becomes a path, a JSON body and the headers that the API itself requires
//     decoder       frames of a server-sent event stream become `ModelEvent`s, batch by batch
//     decodeReply   the body of a reply that was not streamed becomes the events of its stream, without the deltas
//     decodeError   a body with an HTTP status of 400 or above becomes an `AdapterFailure`
//   `core/adapters/http-call.ts` calls them: it adds the base URL, the key and the transport. A codec has no host, no
//   key, no clock and no I/O, so a test runs it on strings. `fixtures/wire/<api>/<case>/` holds such tests:
//   request.json -> body.json, stream.txt and reply.json -> events.json.
//
//   A decoder is created for one stream and owns all parsing state of that stream: open blocks, calls whose arguments
//   are incomplete, usage. The caller sees only `push(frames) -> events` and `end() -> events`. All decoders build the
//   message with `ReplyBuilder`, and a whole reply goes through the same builder, which is what makes invariant 3 hold.
//
//   Data that the library does not interpret has two forms:
//     replay data   fields that belong to a part or a call and that the provider requires back: signatures, encrypted
//                   reasoning, item ids. They are stored in `provider` of that part or call, stamped with the route
//                   (provider, endpoint, model).
//     opaque part   a block, item or part of a type that the codec does not know, or that has no counterpart in the
//                   model. It keeps its place in the message and its complete JSON.
//   Unknown events and unknown fields that belong to no block are ignored. `Decoder.counts` counts how events were
//   treated, so that a run over recorded traffic shows what a new version of an API has added.
//
// Failure cases
//   a stream stops early          `end()` returns the error event `interrupted` (E1)
//   an event is no JSON           the error event `interrupted`, which is retryable; keep-alives are ignored
//                                 (damaged-frame.ts)
//   JSON nested too deep to store the field is dropped, or the reply fails as `malformed_event`; see the header of each
//   decoder
//   an error inside a stream      one error event; what follows is ignored
//
// Invariants
//   1. `encode` is total for a valid request. A setting or a part for which the API has no field is left out and listed
//      in `omissions`, with a sentence that reaches the caller as a warning of the reply. Content without which the
//      request makes no sense (an image without a MIME type) throws `AdapterError` (`unsupported_feature`,
//      `invalid_request`).
//   2. W1: decoding never throws on unknown input. W2: the cuts between chunks change no event; the parser of `sse.ts`
//      absorbs them.
//   3. W3: a streamed reply and a whole reply give the same message, finish reason, usage and calls.
//   4. W4: replay data is sent back unchanged, and only to the route it is stamped with (`replayFor`). Data of another
//      route is listed in `omissions` as `foreign_replay`.
//   5. E1: a decoder emits exactly one terminal event, `message_completed` or `error`. Only `usage` and `raw_chunk` may
//      follow it.
//   6. The finish reason is `tool_calls` whenever a reply that ended normally holds complete calls for the program to
//      run, whatever word the provider uses. `rawFinishReason` keeps the provider's word. A refusal is
//      `content_filter`.
//   7. Usage is inclusive (docs/decisions/0009): `inputTokens` includes cached tokens, `outputTokens` includes
//      reasoning tokens. Codecs of APIs that count them separately add them up.
//   8. A message is converted once for a route: encoders cache the result by message identity in a `WeakMap`, and
//      continue the list of a history where the request before left it (`sent-history.ts`). The JSON
//      of earlier messages does not change when messages are appended, because prompt caches of providers match by
//      prefix. Only cache breakpoints of Anthropic (`cache_control`) move; they are not part of the prefix.

import type { AdapterFailure, Json, JsonObject, ModelEvent, ModelRequest, ProviderRoute } from "../model/internal.ts";

/** The APIs that have a codec. The value is part of the endpoint of a route, so it is stored with replay data. */
export type WireApi = "openai-responses" | "openai-chat" | "anthropic-messages" | "gemini";

/**
 * Translates between the library's data and one provider API. Pure: it performs no I/O. Decoding never throws on
 * unknown input (W1).
 */
export type Codec = {
  /** The name of the API. */
  readonly api: WireApi;
  /** Writes the request. Throws `AdapterError` for content that the API cannot take. */
  readonly encode: (request: ModelRequest, context: WireContext) => EncodedRequest;
  /** Creates a decoder for one stream. A decoder is not reused for another stream. */
  readonly decoder: (context: WireContext) => Decoder;
  /** Reads a reply that was not streamed. Returns the events that its stream would give, without the deltas. */
  readonly decodeReply: (body: Json, context: WireContext) => readonly ModelEvent[];
  /** Classifies the body of a response with an HTTP status of 400 or above, or an error sent in place of a reply. */
  readonly decodeError: (response: ErrorResponse, context: WireContext) => AdapterFailure;
  /** Responses that the provider computes without a connection. Absent: the API has none. */
  readonly background?: BackgroundResponses;
  /** The endpoint that counts the input tokens of a request. Absent: the API has none. */
  readonly tokenCounting?: TokenCounting;
};

/** How an API counts the input tokens of a request without generating a reply. */
type TokenCounting = {
  /** The request that counts the tokens of an encoded request. */
  readonly requestFor: (encoded: EncodedRequest, context: WireContext) => Pick<EncodedRequest, "path" | "body">;
  /** Reads the count from the body of the response; `null`: it has none. */
  readonly read: (body: Json) => number | null;
};

/**
 * How an API addresses responses that the provider computes without a connection, so that a client can lose the stream
 * and read the rest, or the whole, later. Paths are relative to the base URL. `include` is the list of optional fields
 * that the request asked for.
 */
export type BackgroundResponses = {
  /** Does this request body start one? */
  readonly isRequested: (body: JsonObject) => boolean;
  readonly decoder: (context: WireContext) => ResumableDecoder;
  /** Reads the id of a response, and whether it is still running, from its complete body. */
  readonly readStatus: (body: Json) => { readonly responseId: string | null; readonly isRunning: boolean };
  /** GET: the events of the response after the event with the sequence number `after`; `null`: all of them. */
  readonly streamPath: (responseId: string, after: number | null, include: readonly string[]) => string;
  /** GET: the response in its present state. */
  readonly statusPath: (responseId: string, include: readonly string[]) => string;
  /** POST: stops the response. */
  readonly cancelPath: (responseId: string) => string;
};

/** What a codec needs besides the request: the route, and how the server deviates from the API. */
export type WireContext = {
  /** Provider, endpoint and requested model. Replay data is stamped with it and compared to it (W4). */
  readonly route: ProviderRoute;
  /** Emit every event of the provider as `raw_chunk` too, before the events that are read from it. */
  readonly rawChunks: boolean;
  /** How the server deviates from the API. `noQuirks` for the provider's own server. */
  readonly quirks: Quirks;
  /**
   * Is this date (ISO 8601) in the past? Resources of the provider that have expired are not named in a request.
   * Absent: none has expired.
   */
  readonly isPast?: (date: string) => boolean;
  /** Start responses in the background unless the options of the request decide. Default: `false`. */
  readonly background?: boolean;
};

/** How a server deviates from the API it implements. Plain data, so that a preset is a list of these. */
export type Quirks = {
  /** The field for the output limit of Chat Completions. Default: `max_completion_tokens`. */
  readonly maxTokensField?: "max_tokens" | "max_completion_tokens";
  /** The field for the seed of Chat Completions. Default: `seed`. */
  readonly seedField?: "seed" | "random_seed";
  /** Requests usage at the end of a stream (`stream_options.include_usage` of Chat Completions). Default: `true`. */
  readonly streamUsage?: boolean;
  /**
   * The role of system messages. Default: `system` for Chat Completions; `developer` for the Responses API, which uses
   * it for system messages after the first other message.
   */
  readonly systemRole?: "system" | "developer";
  /**
   * The server can answer in a JSON Schema. If not, JSON without a schema is requested where the API has that. Default:
   * `true`.
   */
  readonly jsonSchema?: boolean;
  /**
   * Who runs the tools of `custom_tool_call` items of the Responses API. xAI reports calls of its own tools in such
   * items: `provider`. Default: `program`.
   */
  readonly customCalls?: "program" | "provider";
  /** The server takes the field `strict` of tools and schemas. Default: `true`. */
  readonly strict?: boolean;
  /**
   * The audio formats of `input_audio` that the Chat Completions server reads: `wav`, `mp3`, `aac`, `aiff`, `flac`,
   * `m4a`, `ogg`. Default: `wav` and `mp3`.
   */
  readonly audioFormats?: readonly string[];
  /**
   * Names of body fields that are never sent. Each one that would have been sent is listed in `omissions` by Anthropic
   * and Chat Completions.
   */
  readonly without?: readonly string[];
  /**
   * The field of deltas and messages that holds reasoning text, on Chat Completions servers that send it. Both fields
   * are read; this one is preferred. Default: `reasoning_content`.
   */
  readonly reasoningField?: "reasoning" | "reasoning_content";
  /**
   * Fields of replies and of calls that the Chat Completions server requires back, besides reasoning and the fields
   * that are known to carry signatures (`extra_content`, `provider_specific_fields`, `reasoning_opaque`,
   * `thinking_blocks`). Other unknown fields are stored and not sent back. Default: none.
   */
  readonly replayFields?: readonly string[];
  /**
   * Which ids of calls the server accepts. `alphanumeric` allows letters, digits, `_` and `-`; `letters_and_digits`
   * allows no others. Ids that do not fit are replaced by a hash. Default: 64 characters for Anthropic (`alphanumeric`)
   * and the Responses API (`any`), no limit for Chat Completions.
   */
  readonly callIds?: {
    /** Longest id, in characters. */
    readonly maxLength: number;
    /** Characters that an id may have. */
    readonly pattern: "alphanumeric" | "letters_and_digits" | "any";
    /** Ids must have exactly `maxLength` characters. Default: `false`. */
    readonly exact?: boolean;
  };
};

/** No deviations: the server of the provider itself. */
export const noQuirks: Quirks = {};

/** A request as it is sent, apart from the base URL and the key. */
export type EncodedRequest = {
  /** Appended to the base URL. Begins with `/` and may hold a query. */
  readonly path: string;
  readonly body: JsonObject;
  /** Headers that the API requires. Never a key. */
  readonly headers: { readonly [name: string]: string };
  /** What of the request is not in the body, and why. Empty when everything is sent. */
  readonly omissions: readonly Omission[];
  /** Where the schemas that are sent made optional fields nullable (`added-nulls.ts`). Absent: nowhere. */
  readonly addedNulls?: AddedNulls;
};

/**
 * Where `null` stands for an absent field in a reply: in the structured output (`null`: nowhere), and in the arguments
 * of tools, by name.
 */
export type AddedNulls = { readonly output: JsonObject | null; readonly tools: ReadonlyMap<string, JsonObject> };

/**
 * One part of a request that is not sent, or not sent as it is. `foreign_replay`: replay data of another route.
 * `unsupported`: the API, the server or the model has no field for it. `repaired`: the history could not be sent as it
 * is (an unanswered call, an empty message), and was changed.
 */
export type Omission = {
  /** Points into the request: `seed`, `messages[1].content[0]`. */
  readonly path: string;
  readonly reason: "foreign_replay" | "unsupported" | "repaired";
  /**
   * One sentence for the caller: what was not sent, and why. It makes the omission a warning of the reply
   * (`omission.ts`). Absent if the caller need not know: replay data of another route, and repairs that lose nothing,
   * are normal in a history of several providers.
   */
  readonly message?: string;
};

/** One event of a server-sent event stream (WHATWG HTML, section 9.2). */
export type Frame = {
  /** The value of the field `event`; `null` if there is none. */
  readonly event: string | null;
  /** The values of all `data` fields, joined by line feeds. */
  readonly data: string;
};

/** Reads one stream. Its state is private; frames must be pushed in the order of the stream. */
export type Decoder = {
  /** Reads frames and returns the events that became known with them. */
  readonly push: (frames: readonly Frame[]) => readonly ModelEvent[];
  /**
   * The stream is over. Returns nothing if the terminal event was emitted before, otherwise the rest of the reply or
   * the failure `interrupted`.
   */
  readonly end: () => readonly ModelEvent[];
  /** How many events of the provider were understood, kept as opaque parts, and ignored. */
  readonly counts: { readonly understood: number; readonly opaque: number; readonly unknown: number };
};

/**
 * A decoder that outlives its connection: another connection, or the complete response, can continue what it has read.
 */
export type ResumableDecoder = Decoder & {
  /**
   * The response that is being read, and the number of the last event (`null`: events have no numbers); `null` before
   * the response is named.
   */
  readonly position: () => { readonly responseId: string; readonly sequence: number | null } | null;
  /** The next frames come from another connection: those up to the last event that was read are skipped. */
  readonly reattach: () => void;
  /**
   * Ends the reply with the complete response. Text beyond the deltas read so far is emitted as one more delta, so that
   * the deltas add up.
   */
  readonly complete: (body: Json) => readonly ModelEvent[];
};

/**
 * A response without a reply. `body` is JSON, or the text when the text is not JSON. `status` is `null` for an error
 * inside a stream.
 */
export type ErrorResponse = {
  readonly status: number | null;
  readonly body: Json;
  readonly requestId: string | null;
  readonly retryAfterMs: number | null;
};
