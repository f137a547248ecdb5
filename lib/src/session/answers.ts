// What is said to calls that wait. Saying it only records it: `continue` drives.

import type { Engine } from "../engine/internal.ts";
import type { CallAnswer } from "../kernel/internal.ts";
import type {
  CallerContext,
  Decision,
  ForwardedAnswer,
  JsonObject,
  PendingToolCall,
  Session,
  SessionStatus,
  ToolCall,
  ToolFailure,
  ToolOutcome,
  UserMessage,
} from "../model/internal.ts";
import type { Shape } from "../model/parse/reading.ts";

import { resolveTools } from "../engine/internal.ts";
import { callDecision } from "../kernel/internal.ts";
import {
  addMessage,
  answersByReason,
  encodeToolValue,
  messageText,
  MisuseError,
  orThrow,
  renderIssue,
  SessionError,
  toolOutcomeParts,
  toolOutcomeStatus,
  toolResult,
} from "../model/internal.ts";
import {
  decisionShape,
  fallback,
  jsonObject,
  nullable,
  object,
  optional,
  read,
  required,
  string,
} from "../model/parse/reading.ts";
import { checkStatus, isOpen } from "./preconditions.ts";
import { asking, nextQuestion } from "./project.ts";

/**
 * Records the result of a pending call and returns the session. Throws `SessionError` if the call is not pending.
 * `continue` runs the session on.
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
  if (!Array.isArray(results) || results.some((one) => !Array.isArray(one))) {
    throw new MisuseError(
      "invalid_argument",
      "submitToolResults: the results are a list of pairs: [[toolCallId, content]]",
    );
  }
  if (results.length === 0) return session;
  checkStatus(session, "submitToolResult", null);
  return results.reduce((before, [id, content]) => {
    const call = pendingCall(before, id, "result");
    return settled(answered(before, call, content), false);
  }, session);
}

/**
 * Approves or denies a pending call and returns the session. Replaced arguments are validated: invalid ones throw
 * `MisuseError`, and the call stays pending.
 */
export async function decide<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  toolCallId: string,
  given: DecisionInput,
): Promise<Session<Context>> {
  checkStatus(session, "decide", null);
  const decision = wholeDecision(given);
  const call = pendingCall(session, toolCallId, decision.type);
  if (call.path.length > 0) {
    if (decision.type === "approve" && decision.arguments !== null) {
      throw new MisuseError("invalid_argument", "decide: the arguments of a call inside a tool cannot be edited", {
        path: ["arguments"],
      });
    }
    return settled(forwarded(session, call, decision), false);
  }
  if (decision.type === "approve" && decision.arguments !== null) {
    const tool = resolveTools(engine, {}).find(({ name }) => name === call.name);
    const prepared = tool === undefined ? null : await tool.prepare(decision.arguments);
    if (prepared !== null && !prepared.ok) {
      const where = prepared.issues.map(renderIssue).join("; ");
      throw new MisuseError("invalid_argument", `decide: the arguments for ${call.name} do not fit: ${where}`, {
        path: ["arguments"],
      });
    }
  }
  return settled(decidedAs(session, call, decision), false);
}

/** What was decided, with everything it leaves out. What could not be stored is the caller's bug. */
export function wholeDecision(given: unknown): Exclude<Decision, { readonly type: "forward" }> {
  const found = read(decisionShape, given);
  if ("value" in found && found.value.type !== "forward") return found.value;
  // That something is handed on is nobody's to say but the runtime's.
  const isForward = typeof given === "object" && given !== null && "type" in given && given.type === "forward";
  const [first] = "issues" in found && !isForward ? found.issues : [];
  const why =
    first === undefined || first.path[0] === "type" ? "the type has to be approve or deny" : renderIssue(first);
  throw new MisuseError("invalid_argument", `a decision: ${why}`, { path: first?.path ?? ["type"] });
}

function decidedAs<Context extends CallerContext>(
  session: Session<Context>,
  call: PendingToolCall,
  decision: Decision,
): Session<Context> {
  const pendingToolCalls = session.pendingToolCalls.map((one) => (one === call ? { ...one, decision } : one));
  return { ...session, pendingToolCalls };
}

/** What the hints of such a call say of the turn inside it. */
const innerShape: Shape<InnerHints> = object<InnerHints>({
  wait: required(string),
  ran: fallback(nullable(jsonObject), null),
  name: optional(string),
  arguments: optional(nullable(jsonObject)),
});

type InnerHints = {
  /** Which wait of which turn. */
  readonly wait: string;
  /** What the tool ran with, where that is not what the model asked for. */
  readonly ran: JsonObject | null;
  /** The call inside. */
  readonly name?: string;
  readonly arguments?: JsonObject | null;
};

/** What is said to a call inside a tool is kept with the call of the tool: the turn that goes on hands it in (Q10). */
function forwarded<Context extends CallerContext>(
  session: Session<Context>,
  call: PendingToolCall,
  answer: ForwardedAnswer,
): Session<Context> {
  const found = read(innerShape, call.opts["inner"]);
  if (!("value" in found)) {
    throw new MisuseError(
      "invalid_argument",
      `the call "${call.id}" waits for a turn inside it, and does not say which`,
      {
        path: ["opts", "inner"],
      },
    );
  }
  const { wait, ran } = found.value;
  return decidedAs(session, call, { type: "forward", arguments: ran, by: null, wait, answer });
}

/**
 * A decision for {@link decide}: approve with other arguments if given, or deny with a reason that the model
 * reads.
 */
export type DecisionInput =
  | ({ readonly type: "approve" } & Partial<Omit<Extract<Decision, { readonly type: "approve" }>, "type">>)
  | ({ readonly type: "deny" } & Partial<Omit<Extract<Decision, { readonly type: "deny" }>, "type">>);

/** What a user says to a session: the answer to its question, if it has one. */
export function hear<Context extends CallerContext>(session: Session<Context>, said: UserMessage): Session<Context> {
  const asks = session.status === "awaiting_user";
  const asked = asks ? (session.pendingToolCalls.find((call) => isQuestion(session, call)) ?? null) : null;
  if (asked !== null && asked.path.length > 0) {
    return settled(forwarded(session, asked, { type: "answer", text: messageText(said) }), true);
  }
  if (asked?.answerAs === "tool_result") return settled(answered(session, asked, messageText(said)), true);
  const pendingToolCalls = session.pendingToolCalls.filter((call) => call !== asked);
  const thread = addMessage(session.thread, said);
  return settled({ ...session, pendingToolCalls, thread }, asks);
}

/** Is this the call that asked what the session is waiting to hear? */
function isQuestion({ pendingToolCallId }: Session, { reason, id, decision }: PendingToolCall): boolean {
  return reason === "question" && id === pendingToolCallId && decision === null;
}

/** The session with the answer to a call: in its thread, or in the cell that made it. */
/** The session after a call that waited was given up: the model gets a failure, not a result. */
export function failToolCall<Context extends CallerContext>(
  session: Session<Context>,
  toolCallId: string,
  failure: ToolFailure,
): Session<Context> {
  const call = pendingCall(session, toolCallId, "result");
  const outcome: ToolOutcome = { type: "failure", failure };
  if (call.path.length > 0) {
    const value = orThrow(encodeToolValue({ error: failure.message }));
    return settled(forwarded(session, call, { type: "result", value }), false);
  }
  const pendingToolCalls = session.pendingToolCalls.filter((one) => one !== call);
  const cell = session.suspendedCell;
  if (call.cellId !== null && cell !== null) {
    const at = cell.calls.findIndex((one) => one.answer === null && one.call.id === call.id);
    const calls = cell.calls.map((one, index) => (index === at ? { ...one, answer: outcome } : one));
    return settled({ ...session, pendingToolCalls, suspendedCell: { ...cell, calls } }, false);
  }
  const details = { name: call.name, status: toolOutcomeStatus(outcome), code: failure.code };
  const message = toolResult(call.id, toolOutcomeParts(outcome), details);
  return settled({ ...session, pendingToolCalls, thread: addMessage(session.thread, message) }, false);
}

function answered<Context extends CallerContext>(
  session: Session<Context>,
  call: PendingToolCall,
  content: unknown,
): Session<Context> {
  if (call.path.length > 0) {
    return forwarded(session, call, { type: "result", value: orThrow(encodeToolValue(content)) });
  }
  const pendingToolCalls = session.pendingToolCalls.filter((one) => one !== call);
  const cell = session.suspendedCell;
  if (call.cellId !== null && cell !== null) {
    const value = orThrow(encodeToolValue(content));
    const answer: ToolOutcome = { type: "success", value, control: null };
    const at = cell.calls.findIndex(
      (one) => one.answer === null && one.call.id === call.id && one.call.name === call.name,
    );
    const calls = cell.calls.map((one, index) => (index === at ? { ...one, answer } : one));
    return { ...session, pendingToolCalls, suspendedCell: { ...cell, calls } };
  }
  const thread = addMessage(session.thread, toolResult(call.id, content, { name: call.name }));
  return { ...session, pendingToolCalls, thread };
}

/** The session with the status that follows from what still waits. A question that is open stays open until it has been answered. */
function settled<Context extends CallerContext>(
  session: Session<Context>,
  questionAnswered: boolean,
): Session<Context> {
  if (session.status === "awaiting_user" && !questionAnswered) return session;
  const asked = nextQuestion(session.pendingToolCalls);
  if (asked !== null) return asking(session, asked);
  const waits = session.pendingToolCalls.some(isOpen);
  const rests: SessionStatus = session.status === "completed" ? "completed" : "idle";
  return { ...session, status: waits ? "awaiting_tools" : rests, pendingQuestion: null, pendingToolCallId: null };
}

function pendingCall(session: Session, id: string, answer: "result" | "approve" | "deny"): PendingToolCall {
  const call = session.pendingToolCalls.find((one) => one.id === id && isOpen(one));
  if (call === undefined) {
    throw new SessionError("unknown_tool_call_id", {
      message: `no call "${id}" waits in this session`,
      metadata: { toolCallId: id },
    });
  }
  if (!answersByReason[call.reason].some((one) => one === answer)) {
    const allowed = answersByReason[call.reason].join(" or ");
    throw new MisuseError(
      "invalid_argument",
      `the call "${id}" waits as ${call.reason}: it takes ${allowed}, not ${answer}`,
    );
  }
  return call;
}

/** What was decided about calls, for the turn that goes on with them. */
export function decisionsOf({ pendingToolCalls }: Session): readonly CallAnswer[] {
  return pendingToolCalls.flatMap(({ decision, idempotencyKey, ...call }): readonly CallAnswer[] =>
    decision === null ? [] : [callDecision(plainCall(call), decision, idempotencyKey)],
  );
}

/** The call itself, without what is known about its wait. */
function plainCall({ id, name, arguments: args, rawArguments, provider, metadata }: ToolCall): ToolCall {
  return { id, name, arguments: args, rawArguments, provider, metadata };
}
