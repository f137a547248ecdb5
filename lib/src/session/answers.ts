// What is said to calls that wait. Saying it only records it: `continue` drives.

import type { Engine } from "../engine/index.ts";
import type {
  CallerContext,
  Decision,
  PendingToolCall,
  Session,
  SessionStatus,
  ToolOutcome,
  UserMessage,
} from "../model/index.ts";

import { resolveTools } from "../engine/index.ts";
import {
  addMessage,
  answersByReason,
  encodeToolValue,
  messageText,
  MisuseError,
  orThrow,
  parse,
  renderIssue,
  SessionError,
  toolResult,
} from "../model/index.ts";
import { checkStatus, isOpen } from "./preconditions.ts";
import { asking, nextQuestion } from "./project.ts";

/** Gives the result of a call that waits. */
export function submitToolResult<Context extends CallerContext>(
  session: Session<Context>,
  toolCallId: string,
  content: unknown,
): Session<Context> {
  return submitToolResults(session, [[toolCallId, content]]);
}

/** Gives the results of several, or, if one of them cannot be taken, of none. */
export function submitToolResults<Context extends CallerContext>(
  session: Session<Context>,
  results: readonly (readonly [toolCallId: string, content: unknown])[],
): Session<Context> {
  if (results.length === 0) return session;
  checkStatus(session, "submitToolResult", null);
  return results.reduce((before, [id, content]) => {
    const call = pendingCall(before, id, "result");
    return settled(answered(before, call, content), false);
  }, session);
}

/**
 * Consents to a call that waits for it, perhaps with other arguments, or refuses it. Arguments are checked here: what does not fit throws, and
 * the call waits on.
 */
export async function decide<Context extends CallerContext>(
  engine: Engine<Context>,
  session: Session<Context>,
  toolCallId: string,
  decision: DecisionInput,
): Promise<Session<Context>> {
  checkStatus(session, "decide", null);
  const call = pendingCall(session, toolCallId, decision.type);
  if (decision.type === "approve" && decision.arguments !== undefined && decision.arguments !== null) {
    const plain = parse("tool_call", { id: "x", name: "x", arguments: decision.arguments });
    if (!plain.ok)
      throw new MisuseError("invalid_argument", `decide: the arguments are not JSON: ${plain.failure.message}`, {
        path: ["arguments"],
      });
    const tool = resolveTools(engine, {}).find(({ name }) => name === call.name);
    const prepared = tool === undefined ? null : await tool.prepare(decision.arguments);
    if (prepared !== null && !prepared.ok) {
      const where = prepared.issues.map(renderIssue).join("; ");
      throw new MisuseError("invalid_argument", `decide: the arguments for ${call.name} do not fit: ${where}`, {
        path: ["arguments"],
      });
    }
  }
  const whole: Decision =
    decision.type === "approve"
      ? { type: "approve", arguments: decision.arguments ?? null, by: decision.by ?? null }
      : { type: "deny", reason: decision.reason ?? null, by: decision.by ?? null };
  const pendingToolCalls = session.pendingToolCalls.map((one) => (one === call ? { ...one, decision: whole } : one));
  return settled({ ...session, pendingToolCalls }, false);
}

export type DecisionInput =
  | ({ readonly type: "approve" } & Partial<Omit<Extract<Decision, { readonly type: "approve" }>, "type">>)
  | ({ readonly type: "deny" } & Partial<Omit<Extract<Decision, { readonly type: "deny" }>, "type">>);

/** What a user says to a session: the answer to its question, if it has one. */
export function hear<Context extends CallerContext>(session: Session<Context>, said: UserMessage): Session<Context> {
  const asks = session.status === "awaiting_user";
  const asked = asks ? (session.pendingToolCalls.find((call) => isQuestion(session, call)) ?? null) : null;
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
function answered<Context extends CallerContext>(
  session: Session<Context>,
  call: PendingToolCall,
  content: unknown,
): Session<Context> {
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
