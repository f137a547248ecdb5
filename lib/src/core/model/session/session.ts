// Sessions as data: a thread, a status, pending calls, usage, and a summary of the last run.
//
// The verbs that run a session are in `session/` (in memory) and `runtime/` (durable); each returns a new session. The
// helpers below change the thread only.
//
// Invariant (S2): every call in the thread is either answered in the thread or listed in `pendingToolCalls`.
// `validateSession` checks it.

import type { Usage } from "../call/usage.ts";
import type { Failure } from "../failure/failure.ts";
import type { Message, MessageInput } from "../message/message.ts";
import type { ThreadInput } from "../message/thread.ts";
import type { JsonObject } from "../parse/json.ts";
import type { Infer, Shape } from "../parse/shape.ts";
import type { PendingToolCall, PendingToolCallInput } from "../tool/pending.ts";
import type { Budget } from "../turn/outcome.ts";
import type { SessionStatus } from "./session-status.ts";

import { noUsage, usageShape } from "../call/usage.ts";
import { failureShape } from "../failure/failure.ts";
import { invalidArgument } from "../failure/misuse.ts";
import { assistantMessageShape, user } from "../message/message.ts";
import { addMessage, thread, threadShape } from "../message/thread.ts";
import { emptyObject, ownValue } from "../parse/json.ts";
import {
  array,
  construct,
  count,
  fallback,
  jsonObject,
  nullable,
  object,
  oneOf,
  readOrNull,
  required,
  settings,
  string,
} from "../parse/shape.ts";
import { pendingToolCallShape } from "../tool/pending.ts";
import { toolResult } from "../tool/tool-result.ts";
import { suspendedCellShape } from "../turn/environment.ts";
import { budgets, haltedReasonShape, outcomeShape } from "../turn/outcome.ts";
import { protocolEventShape } from "../turn/protocol-event.ts";
import { chatMetadataShape } from "../turn/run-results.ts";
import { contextWindowShape } from "./context-window.ts";
import { sessionStatuses } from "./session-status.ts";

/**
 * What the caller passes to tool handlers, such as a user id or a database handle. The library does not inspect
 * it.
 */
export type CallerContext = object;

const lastRunFields = {
  /** The id of the durable turn; `null` for a run in memory. */
  turnId: fallback(nullable(string), null),
  haltedReason: required(haltedReasonShape),
  outcome: required(outcomeShape),
  steps: required(count),
  usage: fallback(usageShape, noUsage),
  /** The budget that was used up; `null` if none was. */
  budget: fallback(nullable(oneOf<Budget>(budgets)), null),
  metadata: fallback(chatMetadataShape, {}),
  /** The part of a reply that was received before the run was cancelled. It is not in the thread. */
  partial: fallback(nullable(assistantMessageShape), null),
};

/** A summary of the latest run of a session. */
export type LastRun = Infer<typeof lastRunFields>;

const lastRunShape: Shape<LastRun> = object(lastRunFields);

const pendingOutputShape = object({ schema: required(jsonObject), repair: fallback(nullable(count), null) });

/** The fields of a session except its context. */
const sharedFields = {
  /** The id of the session; `null` for a session without one. */
  id: fallback(nullable(string), null),
  /** The conversation. */
  thread: fallback(threadShape, thread()),
  /** What the session waits for. */
  status: fallback(oneOf<SessionStatus>(sessionStatuses), "idle"),
  /** The calls that wait. Every call of the thread is answered or listed here (S2). */
  pendingToolCalls: fallback(array(pendingToolCallShape), []),
  /** The question that a tool asked the user; `null` if there is none. */
  pendingQuestion: fallback(nullable(string), null),
  /** The call that asked the pending question. */
  pendingToolCallId: fallback(nullable(string), null),
  /** The code cell that waits for some of the pending calls. */
  suspendedCell: fallback(nullable(suspendedCellShape), null),
  /**
   * The structured output of a run that waits for an answer: the JSON Schema of `output`, and `repair` (`null`: that of
   * the engine). The run that continues the session asks for it, unless the call has an `output` of its own. `null` if
   * no output is pending. The durable runtime stores the options with the turn instead.
   */
  pendingOutput: fallback(nullable(pendingOutputShape), null),
  /**
   * The records that protocols of one's own appended in all runs of this session; the next run passes them to its
   * protocol. Empty with the built-in protocols. They are stored with the session and written whenever it changes, so
   * records should be small.
   */
  protocolEvents: fallback(array(protocolEventShape), []),
  /**
   * What requests leave out of the thread: the newest frame, and which tool results are shortened. `null`: nothing. It
   * changes only with an engine that has a `contextPolicy`; engines without one send the whole thread.
   */
  contextWindow: fallback(nullable(contextWindowShape), null),
  /** The sum of the usage of all runs of this session. */
  usage: fallback(usageShape, noUsage),
  /** The result of the latest run; `null` before the first. */
  lastRun: fallback(nullable(lastRunShape), null),
  /** Metadata of the caller. In the status `error`, `metadata.error` holds the failure: see {@link sessionError}. */
  metadata: fallback(settings, emptyObject),
};

/**
 * A conversation with a status, pending calls and accumulated usage. Plain data: the verbs of the value `session`
 * return a new one. `Context` is the type of the caller's context: any object in memory, JSON once it was stored.
 */
export type Session<Context extends CallerContext = CallerContext> = Infer<typeof sharedFields> & {
  /** The caller's context, passed to tool handlers. Only a JSON context can be stored. */
  readonly context: Context;
};

/** The shape of a stored session. Its context must be JSON; reading it copies and checks the context. */
export const sessionShape: Shape<Session<JsonObject>> = object({
  ...sharedFields,
  context: fallback(settings, emptyObject),
});

/** The fields of a session in memory except the context, which may be any object and is not inspected. */
const liveFields = object(sharedFields);

/** The fields of a session that {@link newSession} accepts. */
export type SessionFields = Partial<Omit<Session, "pendingToolCalls" | "thread" | "usage" | "context">> & {
  /** The thread, in the loose form. The default is an empty thread. */
  readonly thread?: ThreadInput;
  /** The usage so far. Missing numbers are unknown. */
  readonly usage?: Partial<Usage>;
  /** The pending calls, in the loose form. The default is none. */
  readonly pendingToolCalls?: readonly PendingToolCallInput[];
};

/**
 * Builds a session and fills in defaults: no messages, the status `idle`. A pending call without a reason is
 * `manual`. Throws `MisuseError` for an unknown field or a wrong type.
 *
 * @example
 * ```ts
 * import { fromMessages, newSession } from "everturn";
 *
 * newSession({ id: "s1", thread: fromMessages([{ role: "user", content: "hi" }]) }).status; // => "idle"
 * ```
 */
export function newSession<Context extends CallerContext>(
  fields: SessionFields & { readonly context: Context },
): Session<Context>;
export function newSession(fields?: SessionFields): Session<JsonObject>;
export function newSession(fields: SessionFields & { readonly context?: CallerContext } = {}): Session {
  const { context = emptyObject, ...storedFields } = fields;
  if (typeof context !== "object") throw invalidArgument("session: context must be an object");
  return { ...construct("session", liveFields, storedFields), context };
}

// Helpers. They change the thread only; the verbs that run a session change its status and pending calls.

/**
 * Returns the session with a message added to its thread. Status and pending calls are unchanged: after a message
 * with tool calls the session is invalid until every call is answered.
 */
export function append<Context extends CallerContext>(
  session: Session<Context>,
  added: MessageInput,
): Session<Context> {
  return { ...session, thread: addMessage(session.thread, added) };
}

/** Returns the session with a user message added to its thread. Status and pending calls are unchanged. */
export function appendUser<Context extends CallerContext>(session: Session<Context>, text: string): Session<Context> {
  return append(session, user(text));
}

/**
 * Returns the session with the answer to a call added to its thread. Status and pending calls are unchanged;
 * `validateSession` checks that the call exists.
 */
export function appendToolResult<Context extends CallerContext>(
  session: Session<Context>,
  toolCallId: string,
  content: unknown,
): Session<Context> {
  return append(session, toolResult(toolCallId, content));
}

/** Returns the messages of a session. */
export function messages(session: Session): readonly Message[] {
  return session.thread.messages;
}

/** Returns the calls of a session that wait for a result, an answer or a decision. */
export function pendingToolCalls(session: Session): readonly PendingToolCall[] {
  return session.pendingToolCalls;
}

/** Returns the failure that put a session into the status `error`, or `null`. */
export function sessionError(session: Session): Failure | null {
  return readOrNull(failureShape, ownValue(session.metadata, "error"));
}
