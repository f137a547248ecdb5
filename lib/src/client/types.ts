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
  /** Where the API is, with the path it is mounted at: `https://example.com/api/everturn`. In a browser a path is enough. */
  readonly url: string;
  /** The bearer token, or what gives one; asked before every request. In no error and no address. */
  readonly token?: string | (() => string | Promise<string>);
  /** What makes requests; the platform's `fetch` where it is not said. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** Sent with every request. */
  readonly headers?: { readonly [name: string]: string };
  readonly retry?: Partial<ClientRetry>;
  /** A stream on which nothing came for this long, not even that it is still there, counts as cut. 60,000 where it is not said. */
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
  /** The name of an engine of the server's. */
  readonly engine?: string;
  /** What the session's version has to be. */
  readonly version?: number;
  /** How long calls may wait for somebody, by the reason they do. */
  readonly waits?: { readonly [R in PendingReason]?: WaitPolicy };
  readonly model?: ModelName;
  readonly instructions?: string;
  /** A JSON Schema that the answer has to fit. */
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
  readonly sessionId: string;
  /** `null`: nothing was begun, because somebody still has to say something. */
  readonly turnId: string | null;
  /**
   * What happens in it, from its beginning, taken at the reader's pace. A connection that is cut is made again, and goes on where it was: nothing is lost and
   * nothing comes twice. Leaving only detaches; it can be read as often as one likes.
   */
  readonly events: AsyncIterable<RuntimeEvent>;
  /** What it comes to, whether or not anybody reads the events. Rejects when the server says no, cannot be reached any more, or the signal says stop. */
  readonly result: Promise<TurnEnd>;
};

/** The verbs of the durable runtime over HTTP. */
export type EverturnClient = {
  // Verbs that drive. Each is sent under a key, so that it happens once however often it had to be sent, and gives back the turn.

  /** Begins a session with words or messages of the user's. */
  readonly start: (input: string | readonly UserInput[], options?: BeginOptions) => Promise<ClientTurn>;
  /** Says something to a session and lets it answer: its question, if it has one, or whatever comes next. */
  readonly reply: (id: string, text: string, options?: DriveOptions) => Promise<ClientTurn>;
  /** Says something: `reply`, or, while a turn runs, `steer`. */
  readonly send: (id: string, text: string, options?: DriveOptions) => Promise<ClientTurn>;
  /** Goes on, with a message or without one. */
  readonly continue: (id: string, message?: UserInput | null, options?: DriveOptions) => Promise<ClientTurn>;
  /** One reply and its tools. */
  readonly step: (id: string, options?: DriveOptions) => Promise<ClientTurn>;
  /** Gives results of calls that wait. The one that answers the last of them lets the session go on, unless `continue` is `false`. */
  readonly submitToolResults: (
    id: string,
    results: readonly (readonly [toolCallId: string, content: Json])[],
    options?: AnswerOptions,
  ) => Promise<ClientTurn>;
  /** Consents to a call that waits for it, perhaps with other arguments, or refuses it. The last answer lets the session go on. */
  readonly decide: (
    id: string,
    toolCallId: string,
    decision: DecisionAnswer,
    options?: AnswerOptions,
  ) => Promise<ClientTurn>;

  // What is said to a turn that runs.

  /** Says something to the turn that runs, at its next checkpoint, or else to the next one. `transient`: history does not keep it. */
  readonly steer: (
    id: string,
    input: string | UserInput,
    options?: CallOptions & { readonly transient?: boolean; readonly id?: string },
  ) => Promise<{ readonly inputId: string; readonly turnId: string }>;
  /** Takes back what was said to a turn, if nobody has taken it in. */
  readonly withdraw: (id: string, inputId: string, options?: CallOptions) => Promise<Withdrawn>;
  /** Ends the turn that runs, for good, and says who won; `stored`: nobody drives it at the moment, and whoever does next will end it. Without a `turnId` it is whichever is open, and is not sent twice. */
  readonly cancel: (
    id: string,
    options?: CallOptions & { readonly turnId?: string; readonly reason?: string },
  ) => Promise<Cancelled | "stored">;

  // Looking at sessions.

  /** The session at its last boundary with its newest messages, and the turn that is open; `null` when there is none of that name. */
  readonly get: (id: string, options?: CallOptions & { readonly messages?: number }) => Promise<SessionView | null>;
  /** Messages of a session, oldest first: from behind the one of that number, counted from 0, or from where the last page's `next` said. */
  readonly messages: (
    id: string,
    options?: CallOptions & { readonly after?: number | string; readonly limit?: number },
  ) => Promise<Page<Message>>;
  /** Sessions, those that changed last first. */
  readonly list: (options?: PageOptions) => Promise<Page<SessionSummary>>;
  /** Ends a session and forgets it. */
  readonly delete: (id: string, options?: CallOptions) => Promise<void>;
  /** A session of its own that begins like this one: with all its messages, or with the first so many. Returns its id. */
  readonly fork: (
    id: string,
    options?: CallOptions & { readonly id?: string; readonly at?: number },
  ) => Promise<string>;
  /** Drives the open turn again, makes a failed session usable, or ends a parked turn; `from: "step"` starts its open step again. */
  readonly recover: (id: string, options?: CallOptions & { readonly from?: "step" }) => Promise<Recovered>;
  /** What a session has cost, by what it was paid for and by model. */
  readonly usage: (id: string, options?: CallOptions) => Promise<LedgerSum>;

  // Watching.

  /** What happens in a session, or in one turn, from its first event or from behind a cursor. Comes back by itself when it is cut. */
  readonly events: (id: string, options?: WatchOptions) => AsyncIterable<RuntimeEvent>;
  /** A turn that was begun elsewhere, or before a reload. Nothing is asked before somebody reads. */
  readonly attach: (id: string, turnId: string, options?: CallOptions) => ClientTurn;
  /** A turn as one JSON value. Only where the server gives them out (`records: true`). */
  readonly export: (id: string, turnId: string, options?: CallOptions) => Promise<ExportedTurn>;

  // Completion from outside.

  /** A token that completes this one call, or answers this one question, once, and only while it waits as it does now. */
  readonly token: (id: string, toolCallId: string, options?: CallOptions) => Promise<string>;
  /** Completes the call a token is for. Whoever is first has answered; later ones are told so, and nothing changes. */
  readonly complete: (token: string, answer: TokenAnswer, options?: CallOptions) => Promise<Completed>;

  /** Is the process there, and does its storage answer? */
  readonly health: (options?: CallOptions) => Promise<{ readonly status: "ok" }>;
};
