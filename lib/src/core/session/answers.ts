// Answers to pending calls: results, decisions, and user messages that answer a question. These functions only record
// an answer in the session; `continue` runs the session.
//
// An answer goes to one of three places:
//   - the thread, as a tool message (a call of the model);
//   - the suspended cell, as the outcome of its call (`cellId` is set);
//   - a decision of type `forward` on the pending call, if the answer is for a nested turn or for the handler (`path`
//     is not empty). The tool runs again; the durable runtime passes the answer to the nested turn (Q10), and the
//     performer passes it to the handler (`context.answer`).

import type { ChatOptions, CheckableTool, Engine } from "../engine/internal.ts";
import type { CallAnswer } from "../kernel/internal.ts";
import type {
  CallerContext,
  Decision,
  ForwardedAnswer,
  JsonObject,
  Message,
  PendingToolCall,
  Session,
  SessionStatus,
  ToolCall,
  ToolFailure,
  ToolMessage,
  ToolOutcome,
  UserMessage,
} from "../model/internal.ts";
import type { InferOptional, Shape } from "../model/parse/reading.ts";

import { resolveTools } from "../engine/internal.ts";
import { callDecision } from "../kernel/internal.ts";
import {
  addMessage,
  answersByReason,
  blankUserIssues,
  canonicalJson,
  changedParts,
  encodeToolValue,
  EngineError,
  invalidArgument,
  messageText,
  orThrow,
  renderIssue,
  SessionError,
  toolOutcomeParts,
  toolOutcomeStatus,
  toolResult,
  ValidationError,
  withDigest,
} from "../model/internal.ts";
import {
  boolean,
  fallback,
  isPlainObject,
  json,
  jsonObject,
  nullable,
  object,
  optional,
  read,
  readOrNull,
  required,
  string,
  variant,
} from "../model/parse/reading.ts";
import { checkStatus, isOpen } from "./preconditions.ts";
import { withQuestion, nextQuestion } from "./project.ts";

/**
 * Records the result of a pending call and returns the session. Throws `SessionError` if the call is not pending.
 * `continue` then runs the session.
 */
export function submitToolResult<Context extends CallerContext>(
  session: Session<Context>,
  toolCallId: string,
  content: unknown,
): Session<Context> {
  return submitToolResults(session, [[toolCallId, content]]);
}

/**
 * Records the results of several pending calls, or of none if one of them cannot be accepted. Throws
 * `SessionError` if a call is not pending.
 */
export function submitToolResults<Context extends CallerContext>(
  session: Session<Context>,
  results: readonly (readonly [toolCallId: string, content: unknown])[],
): Session<Context> {
  if (!Array.isArray(results) || results.some((pair) => !Array.isArray(pair))) {
    throw invalidArgument("submitToolResults: the results must be a list of pairs: [[toolCallId, content]]");
  }
  if (results.length === 0) return session;
  checkStatus(session, "submitToolResult", null);
  return results.reduce((before, [id, content]) => {
    const call = pendingCall(before, id, "result");
    return withStatus(withAnswer(before, call, content), false);
  }, session);
}

/**
 * Approves or denies a pending call and returns the session. With a `digest`, the decision counts only for the call
 * that the digest was read from: another one throws `SessionError` (`call_changed`). An approval of a call that cannot
 * run throws, and the call stays pending: `EngineError` (`unknown_tool`) if the engine has no such tool, `MisuseError`
 * if the arguments are invalid. A denial is always possible. `options.tools`: tools that the run gets besides those of
 * the engine.
 */
export async function decide<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  toolCallId: string,
  input: DecisionInput,
  options: Pick<ChatOptions<Context>, "tools"> = {},
): Promise<Session<Context>> {
  return decideWith(() => resolveTools(engine, options), session, toolCallId, input);
}

/** Like {@link decide}. `tools` is called for an approval only: a denial needs no engine. */
export async function decideWith<Context extends CallerContext>(
  tools: () => readonly CheckableTool[],
  session: Session<Context>,
  toolCallId: string,
  input: DecisionInput,
): Promise<Session<Context>> {
  checkStatus(session, "decide", null);
  const decision = parseDecision(input);
  const call = pendingCall(session, toolCallId, decision.type);
  checkDigest(call, input.digest);
  if (decision.type === "approve") await checkApprovable(tools, call, decision.arguments);
  return recordDecision(session, toolCallId, decision);
}

/**
 * Records a decision on a pending call. Does not check whether the call can run: a call of a tool that is gone is
 * answered `not_found`.
 */
export function recordDecision<Context extends CallerContext>(
  session: Session<Context>,
  toolCallId: string,
  decision: Exclude<Decision, { readonly type: "forward" }>,
): Session<Context> {
  const call = pendingCall(session, toolCallId, decision.type);
  if (call.path.length > 0) {
    if (decision.type === "approve" && decision.arguments !== null) {
      throw invalidArgument("decide: the arguments of a call of a nested turn cannot be changed", ["arguments"]);
    }
    return withStatus(withForwardedAnswer(session, call, decision), false);
  }
  if (decision.type === "deny") return withStatus(withDecision(session, call, decision), false);
  const { shown } = call;
  const isChanged = shown.arguments !== null && canonicalJson(shown.arguments) !== canonicalJson(call.arguments);
  const { type, arguments: edited, by } = decision;
  const prepared = isChanged ? { prepared: shown.arguments } : {};
  return withStatus(withDecision(session, call, { type, arguments: edited, by, ...prepared }), false);
}

/** Throws `SessionError` (`call_changed`) if the digest is not that of the call. */
function checkDigest(call: PendingToolCall, digest: string | undefined): void {
  const changed = digest === undefined ? null : callChanged(call, digest);
  if (changed !== null) throw changed;
}

/**
 * The error of a decision with a digest that is not that of the pending call; `null`: it is. The metadata names what
 * changed and has the call as it is now.
 */
export function callChanged(pending: PendingToolCall, digest: string): SessionError | null {
  // Computed again: a program may have changed a field of the session and kept the digest.
  const call = withDigest(pending);
  const changed = changedParts(call, digest);
  if (changed.length === 0) return null;
  const { name, arguments: args, parents, replay } = call.shown;
  const message = `the pending call ${JSON.stringify(call.id)} is not the one that was decided about: ${changed.join(", ")} changed; read the session again and decide about ${[...parents, name].join(" → ")} as it is now`;
  const facts = { toolCallId: call.id, changed, digest: call.digest };
  const shown = { name, arguments: args, parents, replay };
  const error = new SessionError("call_changed", { message, metadata: { ...facts, shown } });
  // An error has no metadata that looks like a credential. The arguments may do.
  const isComplete = "changed" in error.failure.metadata;
  return isComplete ? error : new SessionError("call_changed", { message, metadata: facts });
}

/**
 * Throws if a call cannot be approved: like {@link decide}. `edited`: arguments of the person; `null`: those that were
 * shown.
 */
export async function checkApprovable(
  tools: () => readonly CheckableTool[],
  call: PendingToolCall,
  edited: JsonObject | null,
): Promise<void> {
  if (!isRunByProvider(call)) await checkRunnable(tools(), call, edited);
}

/**
 * Throws if an approved call could not run with these arguments (`null`: those that were shown). Of a call of a child
 * agent, the tools are checked as far as they are known: a tool whose handler calls `runChild` itself does not tell its
 * engine.
 */
async function checkRunnable(
  tools: readonly CheckableTool[],
  { shown, name: outerName, path }: PendingToolCall,
  edited: JsonObject | null,
): Promise<void> {
  const isNested = path.length > 0;
  // Rows of older releases name the outermost parent only.
  const names = isNested && shown.parents.length < path.length ? [outerName] : [...shown.parents, shown.name];
  let known = tools;
  for (const [depth, name] of names.entries()) {
    const tool = known.findLast((candidate) => candidate.name === name);
    if (tool === undefined || !tool.hasHandler) {
      throw new EngineError("unknown_tool", {
        message: `decide: there is no tool ${JSON.stringify(name)} any more, so the call cannot run; deny it, cancel the turn, or deploy the tool again`,
        metadata: { tool: name, parents: names.slice(0, depth) },
      });
    }
    if (depth === names.length - 1 && tool.name === shown.name) return checkArguments(tool, edited ?? shown.arguments);
    if (tool.agent === undefined) return;
    known = tool.agent();
  }
}

/**
 * Is the call a request of a provider for permission to run a call of an MCP server itself? The program has no tool for
 * it.
 */
function isRunByProvider({ provider }: PendingToolCall): boolean {
  const item = provider?.data;
  return isPlainObject(item) && item["type"] === "mcp_approval_request";
}

/** Throws `MisuseError` if the tool does not accept the arguments. */
async function checkArguments(tool: CheckableTool, args: JsonObject | null): Promise<void> {
  const prepared = args === null ? null : await tool.prepare(args);
  if (prepared?.ok === true) return;
  const where = prepared === null ? "they are not a JSON object" : prepared.issues.map(renderIssue).join("; ");
  throw invalidArgument(`decide: the arguments for ${tool.name} are invalid: ${where}`, ["arguments"]);
}

const digest = optional(string);

/** What a caller may say. `forward` is a decision that only the runtime builds. */
const decisionInputShape = variant("type", {
  approve: { arguments: fallback(nullable(jsonObject), null), by: fallback(nullable(string), null), digest },
  deny: { reason: fallback(nullable(string), null), by: fallback(nullable(string), null), digest },
});

/** Reads a decision of the caller and fills in defaults. Throws `MisuseError` if it is invalid. */
export function parseDecision(input: unknown): Exclude<Decision, { readonly type: "forward" }> {
  const result = read(decisionInputShape, input);
  if ("value" in result) {
    const { digest: _, ...decision } = result.value;
    return decision;
  }
  const [first] = result.issues;
  const problem =
    first === undefined || first.path[0] === "type" ? "the type must be approve or deny" : renderIssue(first);
  throw invalidArgument(`a decision: ${problem}`, first?.path ?? ["type"]);
}

/**
 * What is recorded of an answer that a call has already, for the error of another one: who decided it, while the
 * session still shows it. `null`: the session shows no answer.
 */
export function recordedAnswer({ pendingToolCalls, thread }: Session, id: string): string | null {
  const decision = pendingToolCalls.find((pending) => pending.id === id && !isOpen(pending))?.decision ?? null;
  if (decision !== null) {
    const word = { approve: "approved", deny: "denied", forward: "answered" }[decision.type];
    return `the call "${id}" was ${word} already${decision.by === null ? "" : ` by ${decision.by}`}`;
  }
  const isAnswered = thread.messages.some((message) => message.role === "tool" && message.toolCallId === id);
  return isAnswered ? `the call "${id}" was answered already` : null;
}

/** Returns the session with a decision recorded on a pending call. */
function withDecision<Context extends CallerContext>(
  session: Session<Context>,
  call: PendingToolCall,
  decision: Decision,
): Session<Context> {
  const pendingToolCalls = session.pendingToolCalls.map((pending) =>
    pending === call ? { ...pending, decision } : pending,
  );
  return { ...session, pendingToolCalls };
}

const nestedWaitFields = {
  /** Identifies the nested turn and the wait in it, or is `handlerWait`. */
  wait: required(string),
  /** The state that a handler stored with its question. */
  state: fallback(json, null),
  /** The arguments the tool ran with, if they differ from those of the call. */
  ran: fallback(nullable(jsonObject), null),
  /** A person approved the call before it waited. */
  approved: optional(boolean),
  /** The name of the nested call. */
  name: optional(string),
  arguments: optional(nullable(jsonObject)),
};

type NestedWait = InferOptional<typeof nestedWaitFields>;

/** Reads `opts.inner` of a pending call, which describes the wait of the nested turn or of the handler. */
const nestedWaitShape: Shape<NestedWait> = object(nestedWaitFields);

/** Records an answer for a nested turn on the pending call of the tool. The turn that continues passes it on (Q10). */
function withForwardedAnswer<Context extends CallerContext>(
  session: Session<Context>,
  call: PendingToolCall,
  answer: ForwardedAnswer,
): Session<Context> {
  const inner = readOrNull(nestedWaitShape, call.opts["inner"]);
  if (inner === null) {
    throw invalidArgument(`the call "${call.id}" waits for a nested turn, but opts.inner does not identify it`, [
      "opts",
      "inner",
    ]);
  }
  const { wait, ran, state, approved } = inner;
  const earlier = approved === true ? ({ approved } as const) : {};
  return withDecision(session, call, { type: "forward", arguments: ran, by: null, wait, answer, state, ...earlier });
}

/**
 * A decision for {@link decide}: approve with other arguments if given, or deny with a reason that the model
 * reads.
 */
export type DecisionInput = (
  | ({ readonly type: "approve" } & Partial<Omit<Extract<Decision, { readonly type: "approve" }>, "type" | "prepared">>)
  | ({ readonly type: "deny" } & Partial<Omit<Extract<Decision, { readonly type: "deny" }>, "type">>)
) & {
  /**
   * `digest` of the pending call that was shown to the person who decides. If the call has changed meanwhile, the
   * decision is refused. Absent: the decision counts for the pending call with this id, whatever it shows.
   */
  readonly digest?: string;
};

/** Throws `ValidationError` if one of the user messages is blank. */
export function checkNotBlank(messages: readonly Message[]): void {
  const issues = blankUserIssues(messages);
  if (issues.length > 0) throw new ValidationError("invalid_message", { issues });
}

/**
 * Adds a user message to a session. If the session waits for an answer to a question, the message is that answer. An
 * answer that a handler or a cell reads is kept in the thread, too, after its question: the model reads what the
 * handler or the cell makes of it, and people who open the conversation read question and answer.
 */
export function addUserMessage<Context extends CallerContext>(
  session: Session<Context>,
  message: UserMessage,
): Session<Context> {
  checkNotBlank([message]);
  const isAnswer = session.status === "awaiting_user";
  const question = isAnswer ? (session.pendingToolCalls.find((call) => isQuestion(session, call)) ?? null) : null;
  if (question !== null && (question.path.length > 0 || question.cellId !== null)) {
    const metadata = { ...message.metadata, askUserAnswer: true, toolCallId: question.id };
    const shown = { ...session, thread: addMessage(session.thread, { ...message, metadata }) };
    const text = messageText(message);
    const answered =
      question.path.length > 0
        ? withForwardedAnswer(shown, question, { type: "answer", text })
        : withAnswer(shown, question, text);
    return withStatus(answered, true);
  }
  if (question?.answerAs === "tool_result")
    return withStatus(withAnswer(session, question, messageText(message)), true);
  const pendingToolCalls = session.pendingToolCalls.filter((call) => call !== question);
  const thread = addMessage(session.thread, message);
  return withStatus({ ...session, pendingToolCalls, thread }, isAnswer);
}

/** Returns whether this call asked the question that the session waits for. */
function isQuestion({ pendingToolCallId }: Session, { reason, id, decision }: PendingToolCall): boolean {
  return reason === "question" && id === pendingToolCallId && decision === null;
}

/** Answers a pending call with a failure, for example when its deadline has passed. */
export function failToolCall<Context extends CallerContext>(
  session: Session<Context>,
  toolCallId: string,
  failure: ToolFailure,
): Session<Context> {
  const call = pendingCall(session, toolCallId, "result");
  const outcome: ToolOutcome = { type: "failure", failure };
  if (call.path.length > 0) {
    const value = orThrow(encodeToolValue({ error: failure.message }));
    return withStatus(withForwardedAnswer(session, call, { type: "result", value }), false);
  }
  const details = { name: call.name, status: toolOutcomeStatus(outcome), code: failure.code };
  const message = () => toolResult(call.id, toolOutcomeParts(outcome), details);
  return withStatus(
    withOutcome(session, call, () => outcome, message),
    false,
  );
}

/**
 * Returns the session with the result of a call: in the thread, in the suspended cell, or forwarded to a nested turn.
 */
function withAnswer<Context extends CallerContext>(
  session: Session<Context>,
  call: PendingToolCall,
  content: unknown,
): Session<Context> {
  if (call.path.length > 0) {
    return withForwardedAnswer(session, call, { type: "result", value: orThrow(encodeToolValue(content)) });
  }
  return withOutcome(
    session,
    call,
    () => ({ type: "success", value: orThrow(encodeToolValue(content)), control: null }),
    () => toolResult(call.id, content, { name: call.name }),
  );
}

/** Returns the session without a pending call: its outcome is in the suspended cell, or its message in the thread. */
function withOutcome<Context extends CallerContext>(
  session: Session<Context>,
  call: PendingToolCall,
  outcome: () => ToolOutcome,
  message: () => ToolMessage,
): Session<Context> {
  const pendingToolCalls = session.pendingToolCalls.filter((pending) => pending !== call);
  const cell = session.suspendedCell;
  if (call.cellId === null || cell === null)
    return { ...session, pendingToolCalls, thread: addMessage(session.thread, message()) };
  const answer = outcome();
  const at = cell.calls.findIndex(
    (cellCall) => cellCall.answer === null && cellCall.call.id === call.id && cellCall.call.name === call.name,
  );
  const calls = cell.calls.map((cellCall, index) => (index === at ? { ...cellCall, answer } : cellCall));
  return { ...session, pendingToolCalls, suspendedCell: { ...cell, calls } };
}

/**
 * Returns the session with the status that follows from its pending calls. The current question stays the current one
 * until it is answered; then the next question, if there is one, becomes current.
 */
function withStatus<Context extends CallerContext>(
  session: Session<Context>,
  questionAnswered: boolean,
): Session<Context> {
  if (session.status === "awaiting_user" && !questionAnswered) return session;
  const question = nextQuestion(session.pendingToolCalls);
  if (question !== null) return withQuestion(session, question);
  const hasOpenCalls = session.pendingToolCalls.some(isOpen);
  const restingStatus: SessionStatus = session.status === "completed" ? "completed" : "idle";
  return {
    ...session,
    status: hasOpenCalls ? "awaiting_tools" : restingStatus,
    pendingQuestion: null,
    pendingToolCallId: null,
  };
}

/**
 * Finds the undecided pending call with this id. Throws if there is none, or if its reason does not accept the kind of
 * answer.
 */
function pendingCall(session: Session, id: string, answer: "result" | "approve" | "deny"): PendingToolCall {
  const call = session.pendingToolCalls.find((pending) => pending.id === id && isOpen(pending));
  if (call === undefined) {
    const recorded = recordedAnswer(session, id);
    throw new SessionError("unknown_tool_call_id", {
      message:
        recorded === null
          ? `no pending call of this session has the id "${id}": it was never asked, or it was answered; read the session again`
          : `${recorded}, and your answer was not recorded: read the session again to see what followed`,
      metadata: { toolCallId: id },
    });
  }
  if (!answersByReason[call.reason].some((kind) => kind === answer)) {
    const allowed = answersByReason[call.reason].join(" or ");
    throw invalidArgument(`the call "${id}" waits for the reason ${call.reason} and accepts ${allowed}, not ${answer}`);
  }
  return call;
}

/** Returns the recorded decisions, for the turn that performs them. */
export function decisionsOf({ pendingToolCalls }: Session): readonly CallAnswer[] {
  return pendingToolCalls.flatMap(({ decision, idempotencyKey, ...call }): readonly CallAnswer[] =>
    decision === null ? [] : [callDecision(plainCall(call), decision, idempotencyKey)],
  );
}

/** Returns the call without the fields of a pending call. */
function plainCall({ id, name, arguments: args, rawArguments, provider, metadata }: ToolCall): ToolCall {
  return { id, name, arguments: args, rawArguments, provider, metadata };
}
