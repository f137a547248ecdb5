// A run of AG-UI over a session: the thread is the session, a run is one turn of it. The input of the run is passed to a verb of the runtime under an
// idempotency key that is derived from the message or the wait, so a request that is sent again is accepted once, and reads the same turn.
//
// Invariants
//   1. History comes from the session; of the posted conversation only what is new is read (input.ts).
//   2. An answer is for one wait: the id of an interrupt names the call as it was pending when the run ended. It is checked against the session and submitted
//      for that version (ui/answers.ts).
//   3. All answers of a request are checked before any is submitted.

import type { JsonObject } from "../../model/internal.ts";
import type { DurableOptions, Runtime, SessionView, StartOptions, TurnHandle } from "../../runtime/internal.ts";
import type { UiAnswer } from "../ui/request.ts";
import type { AgUiEvent } from "./events.ts";
import type { AgUiAnswer, AgUiInput, AgUiResult } from "./input.ts";

import { RuntimeError, SessionError } from "../../model/internal.ts";
import { invalid } from "../foreign-fields.ts";
import { chunkStream, turnChunks } from "../turn-chunks.ts";
import {
  acceptedBefore,
  isCallOpen,
  keyedAnswerOf,
  noPendingApproval,
  pendingCallOf,
  submitAnswer,
} from "../ui/answers.ts";
import { approvalIdOf } from "../ui/parts.ts";
import { protocolVersion } from "./events.ts";
import { asFields } from "./input.ts";
import { AgUiTranslator, askedIn, outcomeOf, questionIdOf } from "./translator.ts";

export type AgUiOptions = {
  /** The options of the turn that the run starts. */
  readonly options: Omit<DurableOptions, "key" | "version" | "metadata">;
  /** The context and engine of a session that the run starts. */
  readonly start: Pick<StartOptions, "context" | "engine">;
  /** The name recorded with decisions. */
  readonly by: string | null;
};

/** The turn of a run, and its events. */
export type AgUiStream = { readonly turn: TurnHandle; readonly events: AsyncIterable<AgUiEvent> };

/** Passes the input of a run to the session and streams the turn. Throws for an input that is refused, before anything is started. */
export async function runAgUi(sessions: Runtime, input: AgUiInput, options: AgUiOptions): Promise<AgUiStream> {
  const view = await sessions.get(input.threadId, { messages: 0 });
  switch (input.type) {
    case "message":
      return streamOf(sessions, input, await startOrContinue(sessions, view, input, options), []);
    case "resume":
      return answerInterrupts(sessions, required(view, input), input, options);
    case "results":
      return submitResults(sessions, required(view, input), input, options);
    case "attach": {
      const turnId = view?.openTurn?.turnId ?? null;
      if (turnId !== null) return streamOf(sessions, input, sessions.attach(input.threadId, turnId), []);
      throw new SessionError("invalid_status_for_operation", {
        message: "the input has no new message, no answer and no tool result, and no turn is running",
      });
    }
  }
}

function required(view: SessionView | null, { threadId }: AgUiInput): SessionView {
  if (view !== null) return view;
  throw new RuntimeError("not_found", { message: `there is no session ${JSON.stringify(threadId)}` });
}

/** The message that started the session is sent to `start` again, which finds it by its key. */
async function startOrContinue(
  sessions: Runtime,
  view: SessionView | null,
  { threadId, messageId, message }: Extract<AgUiInput, { readonly type: "message" }>,
  { options, start }: AgUiOptions,
): Promise<TurnHandle> {
  const [first] = view === null ? [] : (await sessions.messages(threadId, { limit: 1 })).items;
  const startsSession = view === null || (first?.role === "user" && first.id === messageId);
  return startsSession
    ? sessions.start([message], { ...options, ...start, id: threadId, key: `ag-ui-start:${messageId}` })
    : sessions.continue(threadId, message, { ...options, key: `ag-ui-message:${messageId}` });
}

/** Answers interrupts: approvals and questions. */
async function answerInterrupts(
  sessions: Runtime,
  view: SessionView,
  input: Extract<AgUiInput, { readonly type: "resume" }>,
  { options, by }: AgUiOptions,
): Promise<AgUiStream> {
  const { threadId } = input;
  const lastTurn = view.session.lastRun?.turnId ?? null;
  const calls = new Map(view.session.pendingToolCalls.map((call) => [approvalIdOf(lastTurn, call), call]));
  const asked = askedIn(view.session);
  const isOpenQuestion = ({ interruptId }: AgUiAnswer): boolean =>
    calls.get(interruptId)?.reason === "question" || (asked !== null && questionIdOf(lastTurn, asked) === interruptId);
  const question = input.answers.find((answer) => isTextAnswer(answer) || isOpenQuestion(answer));
  if (question !== undefined && input.answers.length > 1) {
    throw invalid(["resume"], "must answer a question alone: its answer starts a turn");
  }
  if (question !== undefined) {
    const text = answerText(question);
    // An answer to a wait that is over counts only if it was accepted before, under its key.
    const version = isOpenQuestion(question) ? view.version : -1;
    const key = `ag-ui-answer:${question.interruptId}`;
    return streamOf(sessions, input, await sessions.reply(threadId, text, { ...options, version, key }), []);
  }
  const answers = input.answers.map((answer, index) => decisionOf(answer, index));
  let turn: TurnHandle | null = null;
  const submissions = [];
  for (const answer of answers) {
    const keyed = keyedAnswerOf(answer, by);
    if (pendingCallOf(view, answer) !== null) {
      submissions.push(keyed);
      continue;
    }
    const accepted = isCallOpen(view, answer) ? null : await acceptedBefore(sessions, threadId, keyed, options);
    if (accepted === null) throw noPendingApproval(answer.approvalId);
    turn = accepted;
  }
  for (const keyed of submissions) turn = await submitAnswer(sessions, threadId, keyed, options);
  const denied = answers.flatMap(({ toolCallId, approved, reason }) => (approved ? [] : [{ toolCallId, reason }]));
  return streamOf(sessions, input, handled(turn), denied);
}

/** Submits the results of tools that the client ran. Results of calls that do not wait are part of every posted conversation and are skipped. */
async function submitResults(
  sessions: Runtime,
  view: SessionView,
  input: Extract<AgUiInput, { readonly type: "results" }>,
  { options, by }: AgUiOptions,
): Promise<AgUiStream> {
  const turnId = view.session.lastRun?.turnId ?? null;
  const toAnswer = ({ toolCallId, content }: AgUiResult): readonly UiAnswer[] => {
    const call = view.session.pendingToolCalls.find(({ id, reason }) => id === toolCallId && reason === "manual");
    return call === undefined ? [] : [{ type: "result", toolCallId, toolName: call.name, turnId, content }];
  };
  let turn: TurnHandle | null = null;
  for (const answer of input.results.flatMap(toAnswer)) {
    turn = await submitAnswer(sessions, input.threadId, keyedAnswerOf(answer, by), options);
  }
  return streamOf(sessions, input, handled(turn), []);
}

function handled(turn: TurnHandle | null): TurnHandle {
  if (turn !== null) return turn;
  throw new SessionError("no_pending_tool_call", {
    message: "the input answers no call that waits; read the session again",
  });
}

function isTextAnswer({ payload }: AgUiAnswer): boolean {
  return typeof payload === "string" || typeof asFields(payload)?.["answer"] === "string";
}

/** The answer to a question: a text, or an object with the field `answer`. */
function answerText({ status, payload }: AgUiAnswer): string {
  const answer = typeof payload === "string" ? payload : asFields(payload)?.["answer"];
  if (status === "resolved" && typeof answer === "string" && answer !== "") return answer;
  throw invalid(
    ["resume", 0, "payload"],
    'must be a text or { answer: "…" }; a question can be answered, or another message can be sent',
  );
}

type Decision = Extract<UiAnswer, { readonly type: "decision" }>;

/** The decision of an entry. A cancelled interrupt is a denial. */
function decisionOf({ interruptId, status, payload }: AgUiAnswer, index: number): Decision {
  const place = ["resume", index, "payload"];
  const fields: JsonObject | null = asFields(payload);
  const approved =
    status === "cancelled" ? false : payload === true || payload === false ? payload : fields?.["approved"];
  if (typeof approved !== "boolean") throw invalid(place, "must be true, false or { approved: true or false }");
  const { arguments: edited = null, reason = null } = fields ?? {};
  const input = asFields(edited);
  if (edited !== null && input === null) throw invalid([...place, "arguments"], "must be an object");
  if (reason !== null && typeof reason !== "string") throw invalid([...place, "reason"], "must be a string");
  // The id ends with the id of the call (`approvalIdOf`).
  const toolCallId = interruptId.split(":").slice(2).join(":");
  return { type: "decision", toolCallId, approvalId: interruptId, approved, reason, input };
}

/** The events of the turn of a run. */
async function streamOf(
  sessions: Runtime,
  { threadId, runId, messages }: AgUiInput,
  turn: TurnHandle,
  denied: readonly { readonly toolCallId: string; readonly reason: string | null }[],
): Promise<AgUiStream> {
  const { turnId } = turn;
  if (turnId === null) {
    // Accepted, and other calls still wait.
    const view = await sessions.get(threadId, { messages: 0 });
    const lastTurn = view?.session.lastRun?.turnId ?? null;
    const asked = view === null ? null : askedIn(view.session);
    const outcome = outcomeOf(lastTurn, view?.session.pendingToolCalls ?? [], asked);
    const events: readonly AgUiEvent[] = [
      { type: "RUN_STARTED", threadId, runId, protocolVersion },
      { type: "RUN_FINISHED", threadId, runId, outcome },
    ];
    return { turn, events: chunkStream(events) };
  }
  const translator = new AgUiTranslator({ threadId, runId, turnId, messages });
  const first = [
    ...translator.start(),
    ...denied.flatMap(({ toolCallId, reason }) => translator.denied(toolCallId, reason)),
  ];
  return { turn, events: turnChunks(turn, first, translator) };
}
