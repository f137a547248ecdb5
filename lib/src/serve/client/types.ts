// The public types of the client. The verbs have the names and meanings of the durable runtime; values on the wire have
// the types of the model.

import type { Clock } from "../../core/clock/clock.ts";
import type {
  Json,
  JsonObject,
  LedgerSum,
  MessageInput,
  RuntimeEvent,
  SessionSummary,
  SessionView,
  TurnEnd,
} from "../../core/model/internal.ts";
import type {
  CallOptions,
  Completed,
  ProcessVerbs,
  RecordVerbs,
  SessionVerbs,
  TurnOptions,
  TurnVerbs,
  WhenBusy,
} from "../contract/internal.ts";

/** Options of {@link createClient}. `url` is required. */
export type ClientOptions = {
  /**
   * The base URL of the API with its mount path: `https://example.com/api/everturn`. In a browser a path is
   * enough.
   */
  readonly url: string;
  /**
   * The bearer token, or a function that returns one, called before every request. It appears in no error and no
   * URL.
   */
  readonly token?: string | (() => string | Promise<string>);
  /** The fetch implementation. Default: the global `fetch`. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** Headers sent with every request. */
  readonly headers?: { readonly [name: string]: string };
  /** Retry counts and delays. Delays double from `baseMs` to `maxMs` with jitter; `Retry-After` is respected. */
  readonly retry?: Partial<ClientRetry>;
  /**
   * A stream without data or heartbeat for this many milliseconds counts as cut, and so does a request without a
   * response. Default: 20,000 for streams, 60,000 for responses. A server writes a heartbeat every 15 seconds
   * (`limits.heartbeatMs`).
   */
  readonly silenceMs?: number;
  /**
   * Waits, timeouts and the randomness of backoff come from it; its times are in milliseconds. Default: the system
   * clock.
   */
  readonly clock?: Clock;
};

/**
 * Retry with exponential backoff and jitter: the delay doubles from `baseMs` to `maxMs`, of which a random half to
 * whole is waited. `Retry-After` of the server is respected up to 60 seconds; a longer one fails the request.
 */
export type ClientRetry = {
  /**
   * How often a request is sent again before it fails. Default: 4. A request that is not idempotent is not repeated
   * once the server may have processed it.
   */
  readonly requests: number;
  /**
   * How often in a row a stream, or a wait for a result, reconnects without receiving data. Default: 12, which is about
   * a minute.
   */
  readonly streams: number;
  /** The first delay, in milliseconds. Default: 200. */
  readonly baseMs: number;
  /** The longest delay, in milliseconds. Default: 10,000. */
  readonly maxMs: number;
};

/** Options of verbs that start a turn. */
export type DriveOptions = TurnOptions &
  CallOptions & {
    /**
     * The idempotency key: requests with the same key start one turn. Default: a random key for each call, which the
     * client uses for its own retries.
     */
    readonly key?: string;
  };

/** Options of `reply` and `send`. */
type MessageOptions = DriveOptions & {
  /**
   * What to do with the message while a turn is open: `"steer"` adds it to the turn, `"queue"` makes it the next turn,
   * `"interrupt"` cancels the turn and makes it the next turn, `"reject"` rejects with `conflict`. Default: the policy
   * of the engine on the server, otherwise `"reject"` for `reply` and `"steer"` for `send`.
   */
  readonly whenBusy?: WhenBusy;
};

/** Options of `start`. */
type BeginOptions = DriveOptions & {
  /** The id of the session. Default: a random id. */
  readonly id?: string;
  /** The metadata of the session. */
  readonly metadata?: JsonObject;
};

/** Options of verbs that answer pending calls. */
type AnswerOptions = DriveOptions & {
  /** `false`: only record the answer; `continue` starts the turn. Default: true. */
  readonly continue?: boolean;
};

/** A user message: the value of `user()`, or an object such as `{ role: "user", content: "hi" }`. */
export type UserInput = Extract<MessageInput, { readonly role: "user" }>;

/** A chat of the AI SDK. The id of the chat is the id of its first session. */
export type ClientChat = {
  readonly id: string;
  /** The session that holds the current branch of the chat. */
  readonly sessionId: string;
  /** UI messages of the AI SDK, oldest first. */
  readonly messages: readonly JsonObject[];
  readonly status: SessionSummary["status"];
  readonly version: number;
  /** The open turn; `null`: none is open. */
  readonly turnId: string | null;
  /** The failure of a session in status `error`; otherwise `null`. */
  readonly error: string | null;
};

/** Approval, optionally with other arguments, or denial with a reason that the model reads. */
export type ClientDecision =
  | { readonly type: "approve"; readonly arguments?: JsonObject }
  | { readonly type: "deny"; readonly reason?: string };

/** A decision about a call. */
export type DecisionAnswer = ClientDecision & {
  /**
   * `digest` of the pending call that was shown to the person who decides. If the call has changed meanwhile, the
   * decision is refused (`call_changed`).
   */
  readonly digest: string;
};

/** The answer to the pending call of a token. */
type TokenAnswer =
  | { readonly type: "result"; readonly value: Json }
  | { readonly type: "answer"; readonly text: string }
  | { readonly type: "approve" }
  | { readonly type: "deny"; readonly reason?: string };

/** Which events to read. */
export type WatchOptions = CallOptions & {
  /** The cursor to start after. Default: from the first event. */
  readonly after?: string;
  /** Reads the events of this turn only, until it ends. */
  readonly turnId?: string;
  /** `false`: returns the stored events and ends. Default: true. */
  readonly follow?: boolean;
  /**
   * Called with `null` when a connection is open, and with the cause when it was cut. The iteration then connects again
   * and goes on.
   */
  readonly onConnection?: (cut: Error | null) => void;
};

/** An accepted turn on the server: its events and its result. */
export type ClientTurn = {
  /** The id of the session. */
  readonly sessionId: string;
  /** The id of the turn; `null` if none was started because calls are still pending. */
  readonly turnId: string | null;
  /**
   * The events of the turn from its start, with backpressure. A cut connection is resumed without losing or
   * repeating an event. Leaving the iteration detaches the reader and does not affect the turn. It can be iterated
   * several times.
   */
  readonly events: AsyncIterable<RuntimeEvent>;
  /**
   * The result of the turn, whether or not the events are read. Rejects if the server rejects the request or
   * cannot be reached, or if the signal aborts.
   */
  readonly result: Promise<TurnEnd>;
};

/** The verbs of the durable runtime over HTTP. */
export type EverturnClient = SessionVerbs & TurnVerbs & RecordVerbs & ProcessVerbs & OwnVerbs;

/** The verbs that do not follow from a row of serve/contract. Exported as part of `EverturnClient`. */
type OwnVerbs = {
  // Verbs that start a turn. Each carries an idempotency key, so retries start one turn.

  /** Starts a session from text or user messages and runs its first turn. */
  readonly start: (input: string | UserInput | readonly UserInput[], options?: BeginOptions) => Promise<ClientTurn>;
  /**
   * Adds a user message, a text or a message with images and files, and runs a turn. If the session asked a question,
   * the message is the answer. While a turn is open, `whenBusy` decides; by default the call rejects with `conflict`.
   */
  readonly reply: (id: string, message: string | UserInput, options?: MessageOptions) => Promise<ClientTurn>;
  /** Sends a user message like `reply`, but steers an open turn by default. */
  readonly send: (id: string, message: string | UserInput, options?: MessageOptions) => Promise<ClientTurn>;
  /** Runs the next turn, with a message or without one. */
  readonly continue: (id: string, message?: UserInput | null, options?: DriveOptions) => Promise<ClientTurn>;
  /** Runs a turn of one step: a model reply and its tool calls. */
  readonly step: (id: string, options?: DriveOptions) => Promise<ClientTurn>;
  /**
   * Records the results of pending calls. The answer to the last pending call starts a turn, unless `continue` is
   * `false`.
   */
  readonly submitToolResults: (
    id: string,
    results: readonly (readonly [toolCallId: string, content: Json])[],
    options?: AnswerOptions,
  ) => Promise<ClientTurn>;
  /**
   * Approves or denies a pending call, with other arguments if given. The answer to the last pending call starts a
   * turn.
   */
  readonly decide: (
    id: string,
    toolCallId: string,
    decision: DecisionAnswer,
    options?: AnswerOptions,
  ) => Promise<ClientTurn>;

  // Verbs on the open turn.

  /**
   * Adds input to the open turn at its next checkpoint, or to the next turn if there is none. `transient` input
   * is not kept in the history.
   */
  readonly steer: (
    id: string,
    input: string | UserInput,
    options?: CallOptions & { readonly transient?: boolean; readonly id?: string },
  ) => Promise<{ readonly inputId: string; readonly turnId: string }>;
  // Reading and managing sessions.

  /**
   * Returns the session as of its last committed turn with its newest messages, and its open turn; `null` if there
   * is no such session.
   */
  readonly get: (id: string, options?: CallOptions & { readonly messages?: number }) => Promise<SessionView | null>;
  /**
   * Returns a chat for `useChat` of the AI SDK: all its messages, as UI messages, and its open turn. The server sends
   * them in pages, which are read one after the other. The handler of the server needs the dialect `aiSdkChat()`;
   * otherwise this rejects with `no_such_route`.
   */
  readonly chat: (id: string, options?: CallOptions) => Promise<ClientChat>;
  /**
   * Returns what a session has cost, by kind and by model. `null`: what the tenant's chat completions have cost, which
   * belong to no session.
   */
  readonly usage: (id: string | null, options?: CallOptions) => Promise<LedgerSum>;

  // Events and results.

  /**
   * Reads the events of a session or of one turn, from the first one or after a cursor. A cut connection is
   * resumed.
   */
  readonly events: (id: string, options?: WatchOptions) => AsyncIterable<RuntimeEvent>;
  /**
   * Returns a handle on a turn that was started elsewhere or before a page reload. No request is sent before it is
   * read.
   */
  readonly attach: (id: string, turnId: string, options?: CallOptions) => ClientTurn;
  /**
   * Completes the call of a token. The first answer counts; for later ones nothing changes, and the result says
   * so.
   */
  readonly complete: (token: string, answer: TokenAnswer, options?: CallOptions) => Promise<Completed>;
};
