// The verbs that add to a session and start a turn: start, continue, step, and `reply` of a session without an open turn (`send.ts` has the
// other cases). `session/` decides what they do to the session; this file reads the session, checks preconditions and accepts the result.

import type { JsonObject, Message, Session, UserMessage } from "../../core/model/internal.ts";
import type { Verb } from "../../core/session/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { DurableOptions, StartOptions, TurnHandle } from "../drive/types.ts";
import type { TurnStart } from "../rows/values.ts";

import { canonicalJson } from "../../core/kernel/internal.ts";
import {
  fromMessages,
  message as checkedMessage,
  MisuseError,
  newSession,
  parse,
  RuntimeError,
  user,
} from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { addUserMessage, checkStatus } from "../../core/session/internal.ts";
import { storedOptions, storedStartOptions } from "../drive/durable-options.ts";
import { absentSession, engineOfSession, existingSession, lastStart, sessionKey } from "../drive/session-rows.ts";
import { randomText, sha256 } from "../rows/digest.ts";
import { accept, checkFree } from "./accept.ts";
import { acceptedKey, acceptOnce, contextContent } from "./idempotency.ts";

/** Creates a session from text, messages or a complete session, and starts its first turn. */
export async function start(
  context: VerbContext,
  input: string | readonly Message[] | Session<JsonObject>,
  options: StartOptions<unknown> = {},
): Promise<TurnHandle> {
  const stored = storedStartOptions(options);
  const { id = await newSessionId(context, options.key), engine = "default" } = options;
  const initial = sessionOf(input, options);
  checkStatus(initial, "start", null);
  // A key of one caller does not find the session of another.
  const owner = context.caller === null ? [] : [{ owner: context.caller }];
  const content = ["start", { ...initial, id: null }, stored, engine, ...contextContent(options), ...owner];
  return acceptOnce(context, sessionKey(context, id), options.key, content, options, async (rows) => {
    const key = await acceptedKey(options.key, content);
    const session = { ...initial, id };
    const absent = absentSession(rows, session, context.clock.now());
    return accept(
      context,
      { ...absent, head: { ...absent.head, owner: context.caller } },
      {
        session,
        verb: "chat",
        options: { ...outputOptions(initial), ...stored },
        engine,
        context: options.turnContext ?? null,
        key,
      },
    );
  });
}

/** The structured output that a session from memory waits to produce, as options of its next turn. */
function outputOptions({ pendingOutput }: Session): JsonObject {
  if (pendingOutput === null) return {};
  const { schema, repair } = pendingOutput;
  return { output: schema, ...(repair === null ? {} : { repair }) };
}

/** A new session id. It is derived from the idempotency key and the caller if there is a key, so that a repeated `start` finds the same session. */
async function newSessionId({ caller }: VerbContext, key: string | undefined): Promise<string> {
  const named = ["start", key, ...(caller === null ? [] : [caller])];
  const name = key === undefined ? randomText(10) : (await sha256(JSON.stringify(named))).slice(0, 20);
  return `session-${name}`;
}

/** Adds a user message and starts a turn. If a question is open, the message answers it. Rejects with `conflict` if a turn is open. */
export async function replyWhenIdle(
  context: VerbContext,
  id: string,
  message: UserMessage,
  options: DurableOptions<unknown> = {},
): Promise<TurnHandle> {
  return withUserMessage(context, id, "reply", message, options);
}

/** Starts a turn, with one more message or without. */
export async function continueSession(
  context: VerbContext,
  id: string,
  message: Message | null = null,
  options: DurableOptions<unknown> = {},
): Promise<TurnHandle> {
  if (message?.role === "user") return withUserMessage(context, id, "continue", message, options);
  return driveVerb(context, id, "continue", message, options, "chat", (session) => {
    return message === null
      ? session
      : { ...session, thread: { ...session.thread, messages: [checkedMessage(message)] } };
  });
}

/** Starts a turn of one step: one model reply and its tools. */
export async function step(
  context: VerbContext,
  id: string,
  options: DurableOptions<unknown> = {},
): Promise<TurnHandle> {
  return driveVerb(context, id, "step", null, options, "step", (session) => {
    if (session.suspendedCell === null) return session;
    throw new MisuseError("invalid_status", "step: a cell of code is suspended; continue resumes it", {
      path: ["suspendedCell"],
    });
  });
}

/** Starts a turn with a user message. */
async function withUserMessage(
  context: VerbContext,
  id: string,
  verb: Verb,
  message: UserMessage,
  options: DurableOptions<unknown>,
): Promise<TurnHandle> {
  return driveVerb(context, id, verb, message, options, "chat", (session) =>
    addUserMessage(session, checkedUser(message)),
  );
}

/** The common path of these verbs: checks the session, changes it and accepts a turn. */
async function driveVerb(
  context: VerbContext,
  id: string,
  verb: Verb,
  message: Message | null,
  options: DurableOptions<unknown>,
  drives: "chat" | "step",
  change: (session: Session<JsonObject>) => Session<JsonObject>,
): Promise<TurnHandle> {
  const stored = storedOptions(options);
  const content = verbContent(verb, message, options);
  return acceptOnce(context, sessionKey(context, id), options.key, content, options, async (rows) => {
    const before = existingSession(rows);
    checkFree(before, options.version);
    const { session } = before.head;
    checkStatus(session, verb, message);
    const waiting = isWaitingTurn(session) ? await lastStart(context, before) : null;
    return accept(context, before, {
      continues: waiting,
      session: change(session),
      verb: drives,
      options: { ...waiting?.options, ...stored },
      engine: options.engine ?? waiting?.engine ?? (await engineOfSession(context, before)),
      context: contextOfTurn(session, waiting, options.turnContext),
      key: await acceptedKey(options.key, content),
    });
  });
}

/**
 * The context of the next turn; `null`: that of the session. Approved calls that have not run yet run in that turn. They were made for the context of the turn that
 * asked, so an answer to a question keeps that context, and other input with another one is a conflict.
 */
export function contextOfTurn(
  session: Session<JsonObject>,
  last: TurnStart | null,
  turnContext: JsonObject | undefined,
): JsonObject | null {
  const ofLast = last?.context ?? null;
  if (turnContext === undefined) return ofLast;
  const isApproved = session.pendingToolCalls.some(({ decision }) => decision !== null && decision.type !== "deny");
  if (!isApproved || canonicalJson(ofLast ?? session.context) === canonicalJson(turnContext)) return turnContext;
  if (session.status === "awaiting_user") return ofLast;
  throw new RuntimeError("conflict", {
    message:
      "the session has approved calls that have not run, and the input has another context than the turn that made them; continue the session without a message first",
  });
}

/**
 * Returns whether the last turn of the session stopped for an answer, so that the next turn continues it: with its engine and its options, such as
 * the schema of `output`. Also if the answer is recorded and no call is pending any more.
 */
export function isWaitingTurn({ status, pendingToolCalls, lastRun }: Session): boolean {
  if (status === "awaiting_user" || pendingToolCalls.length > 0) return true;
  switch (lastRun?.outcome.type) {
    case "ask_user":
    case "manual_tool_calls":
    case "approval":
    case "outcome_unknown":
      return true;
    default:
      return false;
  }
}

/** What is compared under the idempotency key of these verbs: everything but the expected version. */
export function verbContent(verb: Verb, message: Message | null, options: DurableOptions<unknown>): readonly unknown[] {
  return [verb, message, storedOptions(options), options.engine ?? "default", ...contextContent(options)];
}

/** The initial session of `start`, validated: all of it is stored, so all of it must be JSON. */
function sessionOf(
  input: string | readonly Message[] | Session<JsonObject>,
  { context, metadata }: Pick<StartOptions<unknown>, "context" | "metadata">,
): Session<JsonObject> {
  const messages = typeof input === "string" ? [user(input)] : isMessages(input) ? input : null;
  const base: unknown = messages === null ? input : newSession({ thread: fromMessages(messages) });
  // Options of the verb override fields of the session.
  const options = { ...(context === undefined ? {} : { context }), ...(metadata === undefined ? {} : { metadata }) };
  const combined = isPlainObject(base) ? { ...base, ...options } : base;
  const read = parse("session", combined);
  if (read.ok) return read.value;
  const [issue] = read.failure.issues;
  throw new MisuseError("invalid_argument", `start: ${read.failure.message}`, { path: issue?.path ?? [] });
}

function isMessages(input: readonly Message[] | Session<JsonObject>): input is readonly Message[] {
  return Array.isArray(input);
}

/** Validates the message of `reply` and `send`, also from callers without a compiler. Throws `MisuseError`. */
export function userMessageOf(input: string | UserMessage): UserMessage {
  return typeof input === "string" ? user(input) : checkedUser(input);
}

function checkedUser(message: UserMessage): UserMessage {
  const read = checkedMessage(message);
  if (read.role === "user") return read;
  throw new MisuseError("invalid_argument", "reply: the message must be a user message");
}
