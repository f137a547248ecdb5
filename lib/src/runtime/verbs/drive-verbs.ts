// The verbs that add to a session and drive it: start, reply, continue, step. What they do to the session is decided by `session/`.

import type { JsonObject, Message, Session, UserMessage } from "../../model/internal.ts";
import type { Verb } from "../../session/internal.ts";
import type { VerbContext } from "../context.ts";
import type { DurableOptions, StartOptions, TurnHandle } from "../types.ts";

import { fromMessages, message as checkedMessage, MisuseError, parse, newSession, user } from "../../model/internal.ts";
import { isPlainObject } from "../../model/parse/reading.ts";
import { addUserMessage, checkStatus } from "../../session/internal.ts";
import { randomText, sha256 } from "../rows/digest.ts";
import { accept, checkFree } from "./accept.ts";
import { storedOptions, storedStartOptions } from "./durable-options.ts";
import { acceptedKey, once } from "./idempotency.ts";
import { found, sessionKey, unused } from "./session-rows.ts";

/** Begins a session with a text, messages or a whole session, and drives it. */
export async function start(
  context: VerbContext,
  input: string | readonly Message[] | Session<JsonObject>,
  options: StartOptions = {},
): Promise<TurnHandle> {
  const stored = storedStartOptions(options);
  const { id = await newSessionId(options.key), engine = "default" } = options;
  const given = sessionOf(input, options);
  checkStatus(given, "start", null);
  const content = ["start", { ...given, id: null }, stored, engine];
  return once(context, sessionKey(context, id), options.key, content, async (rows) => {
    const key = await acceptedKey(options.key, content);
    const session = { ...given, id };
    return accept(context, unused(rows, session, context.clock.now()), {
      session,
      verb: "chat",
      options: stored,
      engine,
      key,
    });
  });
}

/** Derived from the key, if there is one: the same key names the same session. */
async function newSessionId(key: string | undefined): Promise<string> {
  const name = key === undefined ? randomText(10) : (await sha256(JSON.stringify(["start", key]))).slice(0, 20);
  return `session-${name}`;
}

/** Adds a user message and drives the session. If a question is open, the message answers it. */
export async function reply(
  context: VerbContext,
  id: string,
  text: string,
  options: DurableOptions = {},
): Promise<TurnHandle> {
  return withUserMessage(context, id, "reply", user(text), options);
}

/** Drives the session, with a message or without one. */
export async function continueSession(
  context: VerbContext,
  id: string,
  message: Message | null = null,
  options: DurableOptions = {},
): Promise<TurnHandle> {
  if (message?.role === "user") return withUserMessage(context, id, "continue", message, options);
  return driven(context, id, "continue", message, options, "chat", (session) => {
    return message === null
      ? session
      : { ...session, thread: { ...session.thread, messages: [checkedMessage(message)] } };
  });
}

/** Drives the session for one step: one model reply and its tools. */
export async function step(context: VerbContext, id: string, options: DurableOptions = {}): Promise<TurnHandle> {
  return driven(context, id, "step", null, options, "step", (session) => {
    if (session.suspendedCell === null) return session;
    throw new MisuseError("invalid_status", "step: a cell of code is suspended; continue resumes it", {
      path: ["suspendedCell"],
    });
  });
}

async function withUserMessage(
  context: VerbContext,
  id: string,
  verb: Verb,
  message: UserMessage,
  options: DurableOptions,
): Promise<TurnHandle> {
  return driven(context, id, verb, message, options, "chat", (session) =>
    addUserMessage(session, checkedUser(message)),
  );
}

async function driven(
  context: VerbContext,
  id: string,
  verb: Verb,
  message: Message | null,
  options: DurableOptions,
  drives: "chat" | "step",
  change: (session: Session<JsonObject>) => Session<JsonObject>,
): Promise<TurnHandle> {
  const stored = storedOptions(options);
  const content = drivenContent(verb, message, options);
  return once(context, sessionKey(context, id), options.key, content, async (rows) => {
    const before = found(rows);
    checkFree(before, options.version);
    checkStatus(before.head.session, verb, message);
    return accept(context, before, {
      session: change(before.head.session),
      verb: drives,
      options: stored,
      engine: options.engine ?? "default",
      key: await acceptedKey(options.key, content),
    });
  });
}

/** What an idempotency key of these verbs stands for: everything but the version that the caller relies on. */
export function drivenContent(verb: Verb, message: Message | null, options: DurableOptions): readonly unknown[] {
  return [verb, message, storedOptions(options), options.engine ?? "default"];
}

function sessionOf(
  input: string | readonly Message[] | Session<JsonObject>,
  { context, metadata }: Pick<StartOptions, "context" | "metadata">,
): Session<JsonObject> {
  const messages = typeof input === "string" ? [user(input)] : isMessages(input) ? input : null;
  const given: unknown = messages === null ? input : newSession({ thread: fromMessages(messages) });
  // Options of the verb override the session.
  const options = { ...(context === undefined ? {} : { context }), ...(metadata === undefined ? {} : { metadata }) };
  const whole = isPlainObject(given) ? { ...given, ...options } : given;
  // All of it is stored, so all of it has to be JSON.
  const read = parse("session", whole);
  if (read.ok) return read.value;
  const [issue] = read.failure.issues;
  throw new MisuseError("invalid_argument", `start: ${read.failure.message}`, { path: issue?.path ?? [] });
}

function isMessages(input: readonly Message[] | Session<JsonObject>): input is readonly Message[] {
  return Array.isArray(input);
}

function checkedUser(message: UserMessage): UserMessage {
  const read = checkedMessage(message);
  if (read.role === "user") return read;
  throw new MisuseError("invalid_argument", "a reply is a user message");
}
