// What the client takes and gives. The verbs and their words are the durable runtime's; what goes over the wire has the types of `everturn/model`.

import type { Clock } from "../clock/clock.ts";
import type {
  Cancelled,
  Json,
  JsonObject,
  LedgerSum,
  Message,
  MessageInput,
  ModelName,
  Page,
  PendingReason,
  Recovered,
  ResponseFormat,
  RuntimeEvent,
  SessionSummary,
  SessionView,
  ToolChoice,
  ToolMode,
  TurnEnd,
  Withdrawn,
} from "../model/internal.ts";

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
  /** A stream without data or heartbeat for this many milliseconds counts as cut. Default: 60,000. */
  readonly silenceMs?: number;
  /** Waits, timeouts and the randomness of backoff come from it; its times are in milliseconds. Default: the system clock. */
  readonly clock?: Clock;
};

/** How often and how fast something is tried again. Waits double from `baseMs` to `maxMs`, and vary; what a server asks for in `Retry-After` is waited for. */
export type ClientRetry = {
  /** How often a request is sent again before it is given up: 4. One that might do something twice is not. */
  readonly requests: number;
  /** How often in a row a stream, or a wait for a result, tries to come back without hearing anything: 12, which is about a minute. */
  readonly streams: number;
  readonly baseMs: number;
  readonly maxMs: number;
};

export type CallOptions = {
  /** Ends the request, and whatever is read from it. It ends no turn: `cancel` does. */
  readonly signal?: AbortSignal;
};

/**
 * Options of a turn. `engine`, `version` and `waits` are always accepted, the others if the operator of the server
 * allows them.
 */
export type TurnOptions = {
  /** The name of an engine on the server. */
  readonly engine?: string;
  /** The request is rejected with a conflict unless the session has this version. */
  readonly version?: number;
  /** How long calls may stay pending, by reason. */
  readonly waits?: { readonly [R in PendingReason]?: WaitPolicy };
  readonly model?: ModelName;
  readonly instructions?: string;
  /** A JSON Schema that the answer must conform to. */
  readonly output?: { readonly [keyword: string]: unknown };
  readonly responseFormat?: ResponseFormat;
  readonly repair?: number;
  readonly toolChoice?: ToolChoice;
  readonly parallelToolCalls?: boolean;
  readonly temperature?: number;
  readonly topP?: number;
  readonly maxTokens?: number;
  readonly stopSequences?: readonly string[];
  readonly seed?: number;
  readonly mode?: ToolMode;
  readonly maxTurns?: number;
  readonly budgets?: TurnBudgets;
};

type WaitPolicy = { readonly afterMs: number; readonly onTimeout?: "error_as_result" | "fail_turn" };

type TurnBudgets = {
  readonly steps?: number;
  readonly tokens?: number;
  readonly cost?: number;
  readonly timeMs?: number;
  readonly noProgress?: number;
};

/** For verbs that begin a turn. */
export type DriveOptions = TurnOptions &
  CallOptions & {
    /** What is said under a key is accepted once, however often it is sent. The client makes one up for each call where it is not said, so that it can send again. */
    readonly key?: string;
  };

type BeginOptions = DriveOptions & {
  /** The session's name; one nobody can guess where it is not said. */
  readonly id?: string;
  /** Of the session. */
  readonly metadata?: JsonObject;
};

type AnswerOptions = DriveOptions & {
  /** `false`: only record it. The session goes on with `continue`. */
  readonly continue?: boolean;
};

/** A message of the user's, as `user()` makes one or written by hand: `{ role: "user", content: "hi" }`. */
type UserInput = Extract<MessageInput, { readonly role: "user" }>;

/** Consent, perhaps with other arguments, or refusal, with a reason the model gets to read. */
export type DecisionAnswer =
  | { readonly type: "approve"; readonly arguments?: JsonObject; readonly by?: string }
  | { readonly type: "deny"; readonly reason?: string; readonly by?: string };

/** What somebody who holds a token says to the call it is for. */
type TokenAnswer =
  | { readonly type: "result"; readonly value: Json }
  | { readonly type: "answer"; readonly text: string }
  | { readonly type: "approve"; readonly by?: string }
  | { readonly type: "deny"; readonly reason?: string; readonly by?: string };

/** What became of that. `revoked`: the call no longer waits, or not with those arguments. */
export type Completed = "completed" | "already_completed" | "revoked" | "unknown";

/** Which events to read. */
export type WatchOptions = CallOptions & {
  /** From behind this cursor; from the first event where it is not said. */
  readonly after?: string;
  /** Only those of one turn, until it has ended. */
  readonly turnId?: string;
  /** `false`: what there is by now, and no more. */
  readonly follow?: boolean;
};

type PageOptions = CallOptions & { readonly limit?: number; readonly after?: string };

/** A turn as one JSON value, for a file; `replayTurn` of `everturn/testing` runs it again. */
export type ExportedTurn = { readonly everturn: "turn_record"; readonly version: number; readonly data: JsonObject };

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
export type EverturnClient = {
  // Verbs that drive. Each is sent under a key, so that it happens once however often it had to be sent, and gives back the turn.

  /** Starts a session from text or user messages and runs its first turn. */
  readonly start: (input: string | readonly UserInput[], options?: BeginOptions) => Promise<ClientTurn>;
  /** Adds a user message and runs a turn. If the session asked a question, the message is the answer. */
  readonly reply: (id: string, text: string, options?: DriveOptions) => Promise<ClientTurn>;
  /** Sends a user message: `steer` while a turn is running, `reply` otherwise. */
  readonly send: (id: string, text: string, options?: DriveOptions) => Promise<ClientTurn>;
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

  // What is said to a turn that runs.

  /**
   * Adds input to the running turn at its next checkpoint, or to the next turn if there is none. `transient` input
   * is not kept in the history.
   */
  readonly steer: (
    id: string,
    input: string | UserInput,
    options?: CallOptions & { readonly transient?: boolean; readonly id?: string },
  ) => Promise<{ readonly inputId: string; readonly turnId: string }>;
  /** Withdraws input that was steered and not yet accepted by a turn. */
  readonly withdraw: (id: string, inputId: string, options?: CallOptions) => Promise<Withdrawn>;
  /**
   * Cancels the running turn. `stored` means that no process drives the turn at the moment; the next one ends it.
   * Without a `turnId` the open turn is cancelled, and the request is not retried.
   */
  readonly cancel: (
    id: string,
    options?: CallOptions & { readonly turnId?: string; readonly reason?: string },
  ) => Promise<Cancelled>;

  // Looking at sessions.

  /**
   * Returns the session as of its last committed turn with its newest messages, and its open turn; `null` if there
   * is no such session.
   */
  readonly get: (id: string, options?: CallOptions & { readonly messages?: number }) => Promise<SessionView | null>;
  /**
   * Returns a page of messages, oldest first. `after` is the index of a message, from 0, or `next` of the last
   * page.
   */
  readonly messages: (
    id: string,
    options?: CallOptions & { readonly after?: number | string; readonly limit?: number },
  ) => Promise<Page<Message>>;
  /** Returns a page of sessions, most recently changed first. */
  readonly list: (options?: PageOptions) => Promise<Page<SessionSummary>>;
  /** Deletes a session. */
  readonly delete: (id: string, options?: CallOptions) => Promise<void>;
  /** Creates a session with the messages of this one, or with the first `at` messages, and returns its id. */
  readonly fork: (
    id: string,
    options?: CallOptions & { readonly id?: string; readonly at?: number },
  ) => Promise<string>;
  /**
   * Drives the open turn again, makes a failed session usable, or ends a parked turn. `from: "step"` restarts its
   * open step.
   */
  readonly recover: (id: string, options?: CallOptions & { readonly from?: "step" }) => Promise<Recovered>;
  /** Returns what a session has cost, by kind and by model. */
  readonly usage: (id: string, options?: CallOptions) => Promise<LedgerSum>;

  // Watching.

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
  /** Returns a turn as one JSON value. Only if the server allows it (`records: true`). */
  readonly export: (id: string, turnId: string, options?: CallOptions) => Promise<ExportedTurn>;

  // Completion from outside.

  /** Returns a token that completes this pending call once, while it waits with its current arguments. */
  readonly token: (id: string, toolCallId: string, options?: CallOptions) => Promise<string>;
  /**
   * Completes the call of a token. The first answer counts; for later ones nothing changes, and the result says
   * so.
   */
  readonly complete: (token: string, answer: TokenAnswer, options?: CallOptions) => Promise<Completed>;

  /** Checks that the process responds and its storage answers. */
  readonly health: (options?: CallOptions) => Promise<{ readonly status: "ok" }>;
};
