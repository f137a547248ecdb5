// The verbs that add to a session and start a turn: start, reply, send, continue and step. `core/session/` decides what
// they do to the session; this file parses the arguments of a call, once, and decides from the rows that `accept` has
// read.
//
// `reply` and `send` have a busy policy (`whenBusy`) that applies while a turn is open:
//   no turn is open   the message starts a turn, whatever the policy. If a question is open, the message answers it
//   reject            the call fails with `conflict`
//   steer             the message waits in the inbox for the next checkpoint of the turn (`steer.ts`)
//   queue             the message waits in the inbox until the turn has ended, then it starts a turn (`queue.ts`)
//   interrupt         as `queue`, and the open turn is cancelled in the same batch (`queue.ts`)
// One idempotency key covers all ways: a message is accepted once, whichever policy applied to the first call and
// whichever of the two verbs repeats it.

import type { WhenBusy } from "../../core/engine/internal.ts";
import type { JsonObject, Message, Session, UserMessage } from "../../core/model/internal.ts";
import type { Verb } from "../../core/session/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { ExistingSession } from "../drive/session-rows.ts";
import type { DurableOptions, MessageOptions, StartOptions, TurnHandle } from "../drive/types.ts";
import type { TurnDecision } from "./accept.ts";

import {
  fromMessages,
  message as checkedMessage,
  MisuseError,
  newSession,
  parse,
  user,
} from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { addUserMessage, checkNotBlank, checkStatus } from "../../core/session/internal.ts";
import { storedMessageOptions, storedOptions, storedStartOptions } from "../drive/durable-options.ts";
import { absentSession, engineOfSession, existingSession, lastStart, sessionKey } from "../drive/session-rows.ts";
import { randomText, sha256 } from "../rows/digest.ts";
import { accept, acceptedKey, checkFree, checkVersion, contextContent, openTurnConflict } from "./accept.ts";
import { contextOfTurn, isWaitingTurn } from "./continued-turn.ts";
import { readOpenTurn } from "./open-turn.ts";
import { queueMessage } from "./queue.ts";
import { inboxEntry, inputContent, newInputId, steerOpenTurn } from "./steer.ts";

/** Creates a session from text, a user message, messages or a complete session, and starts its first turn. */
export async function start(
  context: VerbContext,
  input: string | UserMessage | readonly Message[] | Session<JsonObject>,
  options: StartOptions<unknown> = {},
): Promise<TurnHandle> {
  const stored = storedStartOptions(options);
  const { id = await newSessionId(context, options.key), engine = "default" } = options;
  const initial = initialSession(input, options);
  checkStatus(initial, "start", null);
  // A key of one caller does not find the session of another.
  const owner = context.caller === null ? [] : [{ owner: context.caller }];
  const content = ["start", { ...initial, id: null }, stored, engine, ...contextContent(options), ...owner];
  return accept(context, {
    session: sessionKey(context, id),
    options,
    contents: [content],
    decide: async (rows) => {
      const session = { ...initial, id };
      const absent = absentSession(rows, session, context.clock.now());
      return {
        type: "turn",
        before: { ...absent, head: { ...absent.head, owner: context.caller } },
        session,
        verb: "chat",
        options: { ...outputOptions(initial), ...stored },
        engine,
        context: options.turnContext ?? null,
        key: await acceptedKey(options.key, content),
      };
    },
  });
}

/** The structured output that a session from memory waits to produce, as options of its next turn. */
function outputOptions({ pendingOutput }: Session): JsonObject {
  if (pendingOutput === null) return {};
  const { schema, repair } = pendingOutput;
  return { output: schema, ...(repair === null ? {} : { repair }) };
}

/**
 * A new session id. It is derived from the idempotency key and the caller if there is a key, so that a repeated `start`
 * finds the same session.
 */
async function newSessionId({ caller }: VerbContext, key: string | undefined): Promise<string> {
  const named = ["start", key, ...(caller === null ? [] : [caller])];
  const name = key === undefined ? randomText(10) : (await sha256(JSON.stringify(named))).slice(0, 20);
  return `session-${name}`;
}

/**
 * Sends a user message: `reply` and `send`. `verbPolicy`: the busy policy if neither the call nor the engine of the
 * open turn has one.
 */
export async function sendMessage(
  context: VerbContext,
  verbPolicy: WhenBusy,
  id: string,
  input: string | UserMessage,
  options: MessageOptions<unknown> = {},
): Promise<TurnHandle> {
  const message = typeof input === "string" ? user(input) : checkedUser(input);
  const stored = storedMessageOptions(options);
  const content = verbContent("reply", message, stored, options);
  const asInput = { type: "message", message } as const;
  return accept(context, {
    session: sessionKey(context, id),
    options,
    contents: [content, inputContent(asInput, options)],
    decide: async (rows) => {
      const session = existingSession(rows);
      const { turn } = session.head;
      if (turn === null) {
        return nextTurn(context, session, options, { verb: "reply", message, stored, content });
      }
      checkVersion(session, options.version);
      checkNotBlank([message]);
      const engines = Object.values(context.engines);
      const own = options.whenBusy ?? (engines.every(({ whenBusy }) => whenBusy === null) ? verbPolicy : null);
      if (own === "reject") throw openTurnConflict(session, turn);
      // A message that is only queued neither joins nor replaces input that waits.
      const open = await readOpenTurn(context, session, turn, { withInbox: own !== "queue" });
      if (open === null) return null;
      const { engine } = open.start;
      const ofEngine = Object.hasOwn(context.engines, engine) ? context.engines[engine]?.whenBusy : null;
      const policy = own ?? ofEngine ?? verbPolicy;
      switch (policy) {
        case "reject":
          throw openTurnConflict(session, turn);
        case "steer":
          return steerOpenTurn(context, open, inboxEntry(context, options.key ?? newInputId(), asInput), options);
        case "queue":
        case "interrupt": {
          const interrupts = policy === "interrupt";
          return queueMessage(context, open, { message, options, stored, content }, { interrupts });
        }
      }
    },
  });
}

/** Starts a turn: `continue`, with one more message or without, and `step`, a turn of one model reply and its tools. */
export async function continueSession(
  context: VerbContext,
  verb: "continue" | "step",
  id: string,
  message: Message | null = null,
  options: DurableOptions<unknown> = {},
): Promise<TurnHandle> {
  const stored = storedOptions(options);
  // The message is compared as it was given: so digests of rows that older releases have stored stay valid.
  const content = verbContent(verb, message, stored, options);
  const addition = { verb, message: message === null ? null : checkedMessage(message), stored, content };
  return accept(context, {
    session: sessionKey(context, id),
    options,
    contents: [content],
    decide: (rows) => nextTurn(context, existingSession(rows), options, addition),
  });
}

/** What a verb adds to a session, parsed. `content`: what is compared under the idempotency key. */
type Addition = {
  readonly verb: "reply" | "continue" | "step";
  readonly message: Message | null;
  readonly stored: JsonObject;
  readonly content: unknown;
};

/** Decides about a verb that starts the next turn of a session. Throws `conflict` if a turn is open. */
async function nextTurn(
  context: VerbContext,
  before: ExistingSession,
  options: DurableOptions<unknown>,
  { verb, message, stored, content }: Addition,
): Promise<TurnDecision> {
  checkFree(before, options.version);
  const { session } = before.head;
  checkStatus(session, verb, message);
  if (verb === "step" && session.suspendedCell !== null) {
    throw new MisuseError("invalid_status", "step: a cell of code is suspended; continue resumes it", {
      path: ["suspendedCell"],
    });
  }
  const waiting = isWaitingTurn(session) ? await lastStart(context, before) : null;
  return {
    type: "turn",
    before,
    continues: waiting,
    session: withMessage(session, message),
    verb: verb === "step" ? "step" : "chat",
    options: { ...waiting?.options, ...stored },
    engine: options.engine ?? waiting?.engine ?? (await engineOfSession(context, before)),
    context: contextOfTurn(session, waiting, options.turnContext),
    key: await acceptedKey(options.key, content),
  };
}

/** The session with one more message; its thread holds new messages only. A user message answers an open question. */
function withMessage(session: Session<JsonObject>, message: Message | null): Session<JsonObject> {
  if (message === null) return session;
  if (message.role === "user") return addUserMessage(session, message);
  return { ...session, thread: { ...session.thread, messages: [message] } };
}

/** What is compared under the idempotency key of these verbs: everything but the expected version. */
function verbContent(
  verb: Verb,
  message: Message | null,
  stored: JsonObject,
  options: DurableOptions<unknown>,
): readonly unknown[] {
  return [verb, message, stored, options.engine ?? "default", ...contextContent(options)];
}

/** The initial session of `start`, validated: all of it is stored, so all of it must be JSON. */
function initialSession(
  input: string | UserMessage | readonly Message[] | Session<JsonObject>,
  { context, metadata }: Pick<StartOptions<unknown>, "context" | "metadata">,
): Session<JsonObject> {
  const messages = givenMessages(input);
  const base: unknown = messages === null ? input : newSession({ thread: fromMessages(messages) });
  // Options of the verb override fields of the session.
  const options = { ...(context === undefined ? {} : { context }), ...(metadata === undefined ? {} : { metadata }) };
  const combined = isPlainObject(base) ? { ...base, ...options } : base;
  const read = parse("session", combined);
  if (read.ok) return read.value;
  const [issue] = read.failure.issues;
  throw new MisuseError("invalid_argument", `start: ${read.failure.message}`, { path: issue?.path ?? [] });
}

function givenMessages(
  input: string | UserMessage | readonly Message[] | Session<JsonObject>,
): readonly Message[] | null {
  if (typeof input === "string") return [user(input)];
  if (isMessages(input)) return input;
  return isPlainObject(input) && "role" in input ? [input] : null;
}

function isMessages(input: UserMessage | readonly Message[] | Session<JsonObject>): input is readonly Message[] {
  return Array.isArray(input);
}

function checkedUser(message: UserMessage): UserMessage {
  const checked = checkedMessage(message);
  if (checked.role === "user") return checked;
  throw new MisuseError("invalid_argument", "reply: the message must be a user message");
}
