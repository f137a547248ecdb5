// The verbs of in-memory sessions. A session is plain data: every verb takes one and returns the next.
//
// Theory of operation
//   Each verb has a streaming form and an awaited form. The awaited form runs the streaming form and collects its
//   events with a `StreamReducer` (R2), so the two cannot differ. Preconditions are checked synchronously, when a verb
//   is called; the run starts when the stream is first read.
//
//   A session that still waits (for an answer to a question, or for undecided calls) is not run: the verb records the
//   input and returns a result with the outcome of the wait.
//
//   A run with `output` that stops for an answer leaves the schema in the session (`pendingOutput`). The verb that
//   continues the session asks for it again, so the structured output is not lost by a question or an approval in
//   between.
//
//   Nothing is stored here. `runtime/` has durable verbs of the same names.

import type { AnySchema, ChatOptions, ChatSettings, Engine, OutputSchema } from "../engine/internal.ts";
import type {
  CallerContext,
  ChatResult,
  Json,
  JsonObject,
  Message,
  Session,
  StepResult,
  TurnOutcome,
  UserMessage,
  WithText,
} from "../model/internal.ts";
import type { Plan, RunInput, WithOutput } from "../run/internal.ts";
import type { OutputOptions } from "./project.ts";

import { isOwnProtocol } from "../engine/internal.ts";
import {
  addMessage,
  chatResult,
  fromMessages,
  handlerWait,
  MisuseError,
  newSession,
  user,
  ValidationError,
  withText,
} from "../model/internal.ts";
import { messagesOf, planRun, streamPlan, streamStepPlan, TurnStream, withOutput } from "../run/internal.ts";
import { decisionsOf, addUserMessage } from "./answers.ts";
import { checkStatus, isOpen } from "./preconditions.ts";
import { applyChatResult, applyStepResult, withPendingOutput, withQuestion, nextQuestion } from "./project.ts";
import { StreamReducer } from "./stream-reducer.ts";

/** The input of {@link start}: a session, or the text, message, messages or thread that a new one starts with. */
export type SessionInput<Context extends CallerContext = CallerContext> = Session<Context> | RunInput;

/** The session after a verb, and the result of its run. */
export type SessionResult<Context extends CallerContext = CallerContext, Result = WithText<ChatResult>> = {
  /** The session after the run. */
  readonly session: Session<Context>;
  /** The result of the run; with the option `output` it has the structured output, typed by the schema. */
  readonly result: Result;
};

/** The session after a single step, and the result of the step. */
export type SessionStepResult<Context extends CallerContext = CallerContext, Result = WithText<StepResult>> = {
  /** The session after the step. */
  readonly session: Session<Context>;
  /** The result of the step; with the option `output` it has the structured output, typed by the schema. */
  readonly result: Result;
};

/** The result of a verb that runs a session, with the structured output. */
type RunWithOutput<Context extends CallerContext, Output> = SessionResult<Context, WithOutput<ChatResult, Output>>;

/** Starts a session and streams the events of its first run. Throws like {@link start}. */
export function streamStart<Context extends CallerContext>(
  engine: Engine<Context>,
  input: SessionInput<Context>,
  options: ChatOptions<Context> = {},
): TurnStream<SessionResult<Context>> {
  const session = initialSession(engine, input);
  checkStatus(session, "start", null);
  return runSession(engine, session, options);
}

/**
 * Starts a session from text, a message, messages or a thread, or runs a session that waits for nothing. Throws
 * `MisuseError` if the session waits for something, `SessionError` if its status is `error`.
 */
export function start<Context extends CallerContext, Output = Json>(
  engine: Engine<Context>,
  input: SessionInput<Context>,
  options: ChatSettings<Context> & { readonly output: OutputSchema<Output> },
): Promise<RunWithOutput<Context, Output>>;
export function start<Context extends CallerContext>(
  engine: Engine<Context>,
  input: SessionInput<Context>,
  options?: ChatOptions<Context>,
): Promise<SessionResult<Context>>;
export async function start<Context extends CallerContext>(
  engine: Engine<Context>,
  input: SessionInput<Context>,
  options: ChatOptions<Context> = {},
): Promise<SessionResult<Context>> {
  const session = initialSession(engine, input);
  return collect(engine, session, options, streamStart(engine, session, options));
}

/** Adds a user message, runs the session and streams the events. Throws like {@link reply}. */
export function streamReply<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  message: string | UserMessage,
  options: ChatOptions<Context> = {},
): TurnStream<SessionResult<Context>> {
  checkStatus(session, "reply", null);
  return runSession(engine, addUserMessage(session, typeof message === "string" ? user(message) : message), options);
}

/**
 * Adds a user message and runs the session. If the session asked a question, the message is the answer. Throws
 * `MisuseError` while calls are pending, `SessionError` if the status is `error`.
 */
export function reply<Context extends CallerContext, Output = Json>(
  engine: Engine<Context>,
  session: Session<Context>,
  message: string | UserMessage,
  options: ChatSettings<Context> & { readonly output: OutputSchema<Output> },
): Promise<RunWithOutput<Context, Output>>;
export function reply<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  message: string | UserMessage,
  options?: ChatOptions<Context>,
): Promise<SessionResult<Context>>;
export async function reply<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  message: string | UserMessage,
  options: ChatOptions<Context> = {},
): Promise<SessionResult<Context>> {
  return collect(engine, session, options, streamReply(engine, session, message, options));
}

/** Continues the session and streams the events. Throws like `continue`. */
export function streamContinue<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  message: Message | null = null,
  options: ChatOptions<Context> = {},
): TurnStream<SessionResult<Context>> {
  checkStatus(session, "continue", message);
  if (message?.role === "user") return runSession(engine, addUserMessage(session, message), options);
  const thread = message === null ? session.thread : addMessage(session.thread, message);
  return runSession(engine, { ...session, thread }, options);
}

/**
 * Continues the session, with a message or without one, for example after pending calls were answered. Throws
 * `MisuseError` while calls are pending, `SessionError` if the status is `error`.
 */
export function continueSession<Context extends CallerContext, Output = Json>(
  engine: Engine<Context>,
  session: Session<Context>,
  message: Message | null,
  options: ChatSettings<Context> & { readonly output: OutputSchema<Output> },
): Promise<RunWithOutput<Context, Output>>;
export function continueSession<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  message?: Message | null,
  options?: ChatOptions<Context>,
): Promise<SessionResult<Context>>;
export async function continueSession<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  message: Message | null = null,
  options: ChatOptions<Context> = {},
): Promise<SessionResult<Context>> {
  return collect(engine, session, options, streamContinue(engine, session, message, options));
}

/** Runs one step of the session and streams its events. Throws like {@link step}. */
export function streamStep<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  options: ChatOptions<Context> = {},
): TurnStream<SessionStepResult<Context>> {
  checkStatus(session, "step", null);
  if (session.suspendedCell !== null) {
    throw new MisuseError("invalid_status", "step: a suspended code cell waits; use continue to resume it", {
      path: ["suspendedCell"],
    });
  }
  const plan = planOf(engine, session, options, "step");
  const before = withPendingOutput(session, options);
  const isOwn = isOwnProtocol(engine.protocol);
  return streamStepPlan(plan).map(({ chat, step: result }) => ({
    // How a step of a protocol of one's own ends the turn does not follow from the reply.
    session: isOwn ? applyChatResult(before, chat) : applyStepResult(before, result),
    result: withText(result, result.response),
  }));
}

/**
 * Runs one step of the session: a model reply and its tool calls. Throws `MisuseError` if the session waits for
 * something, `SessionError` if its status is `error`.
 */
export function step<Context extends CallerContext, Output = Json>(
  engine: Engine<Context>,
  session: Session<Context>,
  options: ChatSettings<Context> & { readonly output: OutputSchema<Output> },
): Promise<SessionStepResult<Context, WithOutput<StepResult, Output>>>;
export function step<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  options?: ChatOptions<Context>,
): Promise<SessionStepResult<Context>>;
export async function step<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  options: ChatOptions<Context> = {},
): Promise<SessionStepResult<Context>> {
  const events = streamStep(engine, session, options);
  const reducer = new StreamReducer(session, { ...outputOptions(options), mode: "step" });
  for await (const event of events) reducer.add(event);
  const { session: after, result } = isOwnProtocol(engine.protocol) ? await events.result : reducer.finalizeStep();
  return { session: after, result: await withOutput(result, result.response, outputSchema(engine, session, options)) };
}

/**
 * Makes a session with the status `error` usable again. Pending calls stay pending, and the failure stays in
 * `lastRun`. Other sessions are returned unchanged.
 */
export function recover<Context extends CallerContext>(session: Session<Context>): Session<Context> {
  if (session.status !== "error") return session;
  const { error: _, ...metadata }: JsonObject = session.metadata;
  const question = nextQuestion(session.pendingToolCalls);
  if (question !== null) return withQuestion({ ...session, metadata }, question);
  const hasOpenCalls = session.pendingToolCalls.some(isOpen);
  return { ...session, status: hasOpenCalls ? "awaiting_tools" : "idle", metadata };
}

/**
 * Runs the session if nothing in it waits. Otherwise the input is kept and the result states what the session waits
 * for.
 */
function runSession<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  options: ChatOptions<Context>,
): TurnStream<SessionResult<Context>> {
  const run = isWaiting(session) ? emptyRun(session) : streamPlan(planOf(engine, session, options, "chat"));
  const before = withPendingOutput(session, options);
  return run.map((result) => ({ session: applyChatResult(before, result), result }));
}

/** Collects the events of a streaming verb into the result of its awaited form (R2). */
async function collect<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  options: ChatOptions<Context>,
  events: TurnStream<SessionResult<Context>>,
): Promise<SessionResult<Context>> {
  const reducer = new StreamReducer(session, { ...outputOptions(options), mode: "chat" });
  for await (const event of events) reducer.add(event);
  const { session: after, result } = reducer.finalize();
  const schema = outputSchema(engine, session, options);
  return { session: after, result: await withOutput(result, result.finalResponse, schema) };
}

function outputOptions<Context extends CallerContext>({ output, repair }: ChatOptions<Context>): OutputOptions {
  return { ...(output === undefined ? {} : { output }), ...(repair === undefined ? {} : { repair }) };
}

/** The schema that the run of a session asks for, in the order of precedence of the plan; `undefined`: none. */
function outputSchema<Context extends CallerContext>(
  engine: Engine<Context>,
  { pendingOutput }: Session<Context>,
  { output }: ChatOptions<Context>,
): AnySchema | undefined {
  return output ?? pendingOutput?.schema ?? engine.options.output;
}

function planOf<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  options: ChatOptions<Context>,
  verb: "chat" | "step",
): Plan<Context> {
  const { id, thread, context, suspendedCell, pendingOutput } = session;
  if (session.pendingToolCalls.some(({ decision }) => decision?.type === "forward" && decision.wait !== handlerWait)) {
    throw new MisuseError(
      "invalid_status",
      `${verb}: a pending call waits in a nested turn; only the durable runtime can continue it`,
      {
        path: ["pendingToolCalls"],
      },
    );
  }
  const runOptions = { ...options, context: options.context ?? context };
  return planRun(engine, thread, runOptions, {
    verb,
    answers: decisionsOf(session),
    cell: suspendedCell,
    spentBefore: session.usage,
    protocolEvents: session.protocolEvents,
    contextWindow: session.contextWindow,
    session: {
      ...(id === null ? {} : { sessionId: id }),
      ...(pendingOutput === null ? {} : { output: pendingOutput.schema }),
      ...(typeof pendingOutput?.repair === "number" ? { repair: pendingOutput.repair } : {}),
    },
  });
}

function isWaiting({ status, pendingToolCalls }: Session): boolean {
  return status === "awaiting_user" || pendingToolCalls.some(isOpen);
}

/** Returns a stream whose only event is a result without steps: the session waits for an answer or a decision. */
function emptyRun(session: Session): TurnStream<WithText<ChatResult>> {
  const { thread, pendingToolCalls, suspendedCell, pendingQuestion, pendingToolCallId } = session;
  const outcome: TurnOutcome =
    pendingQuestion === null
      ? { type: pendingToolCalls.some(({ reason }) => reason === "manual") ? "manual_tool_calls" : "approval" }
      : { type: "ask_user", question: pendingQuestion, toolCallId: pendingToolCallId ?? "" };
  const ended = chatResult(outcome, { thread, pendingToolCalls, suspendedCell, pendingQuestion, pendingToolCallId });
  const begin: ConstructorParameters<typeof TurnStream<WithText<ChatResult>>>[0] = (outlet) => ({
    result: Promise.resolve(outlet.emit([{ type: "chat_completed", result: ended }])).then(() => withText(ended, null)),
    stop: () => undefined,
  });
  return new TurnStream(begin, () => "");
}

function initialSession<Context extends CallerContext>(
  engine: Engine<Context>,
  input: SessionInput<Context>,
): Session<Context> {
  if (typeof input === "object" && input !== null && "status" in input && !("role" in input)) return input;
  try {
    const messages = typeof input === "string" ? [user(input)] : messagesOf(input);
    if (messages !== null) return newSession({ thread: fromMessages(messages), context: engine.context });
    if (typeof input === "object" && input !== null && "messages" in input) {
      return newSession({ thread: input, context: engine.context });
    }
  } catch (error) {
    if (!(error instanceof MisuseError)) throw error;
    const issues = [{ path: error.path, code: "invalid_type" as const, message: error.message }];
    throw new ValidationError("invalid_session_input", { issues, cause: error });
  }
  const message = "must be a session, a thread, messages, a message or text";
  const issues = [{ path: ["sessionInput"], code: "invalid_type" as const, message }];
  throw new ValidationError("invalid_session_input", { issues });
}
