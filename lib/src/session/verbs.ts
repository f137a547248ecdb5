// Operations on sessions. A session is plain data: each verb takes one and gives back the next. What is checked is checked when the verb is
// called; nothing else happens before somebody reads.

import type { ChatOptions, Engine } from "../engine/internal.ts";
import type {
  CallerContext,
  ChatResult,
  JsonObject,
  Message,
  Session,
  StepResult,
  TurnOutcome,
} from "../model/internal.ts";
import type { Plan, RunInput } from "../run/internal.ts";

import {
  addMessage,
  chatResult,
  fromMessages,
  MisuseError,
  newSession,
  user,
  ValidationError,
} from "../model/internal.ts";
import { planRun, streamPlan, streamStepPlan, TurnStream } from "../run/internal.ts";
import { decisionsOf, hear } from "./answers.ts";
import { checkStatus, isOpen } from "./preconditions.ts";
import { applyChatResult, applyStepResult, asking, nextQuestion } from "./project.ts";
import { StreamReducer } from "./stream-reducer.ts";

/** The input of {@link start}: a session, or the text, messages or thread that a new one starts with. */
export type SessionInput<Context extends CallerContext = CallerContext> = Session<Context> | RunInput;

/** The session after a verb, and the result of its run. */
export type SessionResult<Context extends CallerContext = CallerContext> = {
  readonly session: Session<Context>;
  readonly result: ChatResult;
};

/** The session after a single step, and the result of the step. */
export type SessionStepResult<Context extends CallerContext = CallerContext> = {
  readonly session: Session<Context>;
  readonly result: StepResult;
};

/** Starts a session and streams the events of its first run. Throws like {@link start}. */
export function streamStart<Context extends CallerContext>(
  engine: Engine<Context>,
  input: SessionInput<Context>,
  options: ChatOptions<Context> = {},
): TurnStream<SessionResult<Context>> {
  const session = sessionOf(engine, input);
  checkStatus(session, "start", null);
  return driven(engine, session, options);
}

/**
 * Starts a session from text, messages or a thread, or runs a session that waits for nothing. Throws `MisuseError`
 * if the session waits for something, `SessionError` if its status is `error`.
 */
export async function start<Context extends CallerContext>(
  engine: Engine<Context>,
  input: SessionInput<Context>,
  options: ChatOptions<Context> = {},
): Promise<SessionResult<Context>> {
  const session = sessionOf(engine, input);
  return collected(session, streamStart(engine, session, options));
}

/** Adds a user message, runs the session and streams the events. Throws like {@link reply}. */
export function streamReply<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  text: string,
  options: ChatOptions<Context> = {},
): TurnStream<SessionResult<Context>> {
  checkStatus(session, "reply", null);
  return driven(engine, hear(session, user(text)), options);
}

/**
 * Adds a user message and runs the session. If the session asked a question, the message is the answer. Throws
 * `MisuseError` while calls are pending, `SessionError` if the status is `error`.
 */
export async function reply<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  text: string,
  options: ChatOptions<Context> = {},
): Promise<SessionResult<Context>> {
  return collected(session, streamReply(engine, session, text, options));
}

/** Continues the session and streams the events. Throws like `continue`. */
export function streamContinue<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  message: Message | null = null,
  options: ChatOptions<Context> = {},
): TurnStream<SessionResult<Context>> {
  checkStatus(session, "continue", message);
  if (message?.role === "user") return driven(engine, hear(session, message), options);
  const thread = message === null ? session.thread : addMessage(session.thread, message);
  return driven(engine, { ...session, thread }, options);
}

/**
 * Runs the session on, with a message or without one, for example after pending calls were answered. Throws
 * `MisuseError` while calls are pending, `SessionError` if the status is `error`.
 */
export async function continueSession<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  message: Message | null = null,
  options: ChatOptions<Context> = {},
): Promise<SessionResult<Context>> {
  return collected(session, streamContinue(engine, session, message, options));
}

/** Runs one step of the session and streams its events. Throws like {@link step}. */
export function streamStep<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  options: ChatOptions<Context> = {},
): TurnStream<SessionStepResult<Context>> {
  checkStatus(session, "step", null);
  if (session.suspendedCell !== null) {
    throw new MisuseError("invalid_status", "step: a cell of code waits to go on; continue drives it", {
      path: ["suspendedCell"],
    });
  }
  const plan = planOf(engine, session, options, "step");
  return streamStepPlan(plan).map((result) => ({ session: applyStepResult(session, result), result }));
}

/**
 * Runs one step of the session: a model reply and its tool calls. Throws `MisuseError` if the session waits for
 * something, `SessionError` if its status is `error`.
 */
export async function step<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  options: ChatOptions<Context> = {},
): Promise<SessionStepResult<Context>> {
  const reducer = new StreamReducer(session, { mode: "step" });
  for await (const event of streamStep(engine, session, options)) reducer.add(event);
  return reducer.finalizeStep();
}

/**
 * Makes a session with the status `error` usable again. Pending calls stay pending, and the failure stays in
 * `lastRun`. Other sessions are returned unchanged.
 */
export function recover<Context extends CallerContext>(session: Session<Context>): Session<Context> {
  if (session.status !== "error") return session;
  const { error: _, ...metadata }: JsonObject = session.metadata;
  const asked = nextQuestion(session.pendingToolCalls);
  if (asked !== null) return asking({ ...session, metadata }, asked);
  const waits = session.pendingToolCalls.some(isOpen);
  return { ...session, status: waits ? "awaiting_tools" : "idle", metadata };
}

/** Lets the session's turn happen, if nothing in it waits for anybody any more; otherwise only what was said is kept. */
function driven<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  options: ChatOptions<Context>,
): TurnStream<SessionResult<Context>> {
  const inner = isWaiting(session) ? nothing(session) : streamPlan(planOf(engine, session, options, "chat"));
  return inner.map((result) => ({ session: applyChatResult(session, result), result }));
}

/** The awaitable twin: the stream, folded (R2). */
async function collected<Context extends CallerContext>(
  session: Session<Context>,
  events: TurnStream<SessionResult<Context>>,
): Promise<SessionResult<Context>> {
  const reducer = new StreamReducer(session, { mode: "chat" });
  for await (const event of events) reducer.add(event);
  return reducer.finalize();
}

function planOf<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  options: ChatOptions<Context>,
  verb: "chat" | "step",
): Plan<Context> {
  const { id, thread, context, suspendedCell } = session;
  if (session.pendingToolCalls.some(({ decision }) => decision?.type === "forward")) {
    throw new MisuseError(
      "invalid_status",
      `${verb}: a turn inside a tool waited; only the durable runtime can go on with it`,
      {
        path: ["pendingToolCalls"],
      },
    );
  }
  const said = { ...options, context: options.context ?? context };
  return planRun(engine, thread, said, {
    verb,
    answers: decisionsOf(session),
    cell: suspendedCell,
    spentBefore: session.usage,
    ...(id === null ? {} : { session: { sessionId: id } }),
  });
}

function isWaiting({ status, pendingToolCalls }: Session): boolean {
  return status === "awaiting_user" || pendingToolCalls.some(isOpen);
}

/** A run in which nothing happens, because somebody else has to say something first. */
function nothing(session: Session): TurnStream<ChatResult> {
  const { thread, pendingToolCalls, suspendedCell, pendingQuestion, pendingToolCallId } = session;
  const outcome: TurnOutcome =
    pendingQuestion === null
      ? { type: pendingToolCalls.some(({ reason }) => reason === "manual") ? "manual_tool_calls" : "approval" }
      : { type: "ask_user", question: pendingQuestion, toolCallId: pendingToolCallId ?? "" };
  const result = chatResult(outcome, { thread, pendingToolCalls, suspendedCell, pendingQuestion, pendingToolCallId });
  const begin: ConstructorParameters<typeof TurnStream<ChatResult>>[0] = (outlet) => ({
    result: Promise.resolve(outlet.say([{ type: "chat_completed", result }])).then(() => result),
    stop: () => undefined,
  });
  return new TurnStream(begin, () => "");
}

function sessionOf<Context extends CallerContext>(
  engine: Engine<Context>,
  input: SessionInput<Context>,
): Session<Context> {
  if (typeof input === "object" && input !== null && "status" in input) return input;
  try {
    if (typeof input === "string" || Array.isArray(input)) {
      const messages = typeof input === "string" ? [user(input)] : input;
      return newSession({ thread: fromMessages(messages), context: engine.context });
    }
    if (typeof input === "object" && input !== null && "messages" in input) {
      return newSession({ thread: input, context: engine.context });
    }
  } catch (error) {
    if (!(error instanceof MisuseError)) throw error;
    const issues = [{ path: error.path, code: "invalid_type" as const, message: error.message }];
    throw new ValidationError("invalid_session_input", { issues, cause: error });
  }
  const message = "must be a session, a thread, messages or text";
  const issues = [{ path: ["sessionInput"], code: "invalid_type" as const, message }];
  throw new ValidationError("invalid_session_input", { issues });
}
