// A run of AG-UI over a session: the thread is the session, a run is one turn of it. The input of the run is passed to
// a verb of the runtime under an idempotency key that is derived from the message or the wait, so a request that is
// sent again is accepted once, and reads the same turn.
//
// Invariants
//   1. History comes from the session; of the posted conversation only what is new is read (input.ts).
//   2. An answer is for one wait: the id of an interrupt names the call as it was pending when the run ended. It is
//      checked against the session and submitted for that version (ai-sdk-chat/answers.ts).
//   3. All answers of a request are checked before any is submitted, except edited arguments: the runtime validates
//      those when it accepts them. Edits are submitted first, and an answer that was accepted stays accepted when the
//      request is sent again.
//   4. `HttpAgent` answers all interrupts of a run in one request. Decisions are submitted before answers to questions:
//      while a question waits, a decision starts no turn.
//   5. An input with nothing new reads the newest turn again, so a client that lost its connection gets the rest, also
//      if the turn has ended meanwhile.
//   6. A message continues a session whose last turn failed: it is recovered first (contract/recover-failed.ts).

import type { Json, JsonObject } from "../../../core/model/internal.ts";
import type { DurableOptions, SessionView, StartOptions, TurnHandle } from "../../../durable/internal.ts";
import type { CallerSessions } from "../../http/internal.ts";
import type { KeyedAnswer } from "../ai-sdk-chat/answers.ts";
import type { UiAnswer } from "../ai-sdk-chat/request.ts";
import type { ChunkBatches } from "../shared/turn-chunks.ts";
import type { AgUiEvent } from "./events.ts";
import type { AgUiAnswer, AgUiInput, AgUiResult } from "./input.ts";
import type { SentResult } from "./translator.ts";

import { RuntimeError, SessionError, UniqueCallIds } from "../../../core/model/internal.ts";
import { recoverFailed } from "../../contract/internal.ts";
import {
  acceptedBefore,
  isCallOpen,
  keyedAnswerOf,
  noPendingApproval,
  pendingCallOf,
  submitAnswer,
  withEdit,
} from "../ai-sdk-chat/answers.ts";
import { approvalIdOf } from "../ai-sdk-chat/parts.ts";
import { invalid } from "../shared/foreign-fields.ts";
import { chunkStream, turnChunks } from "../shared/turn-chunks.ts";
import { callIdsOf } from "./call-ids.ts";
import { protocolVersion } from "./events.ts";
import { asFields } from "./input.ts";
import { AgUiTranslator, askedIn, isOfTurn, outcomeOf, questionIdOf, resultEvent, sentResult } from "./translator.ts";

export type AgUiOptions = {
  /** The options of the turn that the run starts. */
  readonly options: Omit<DurableOptions, "key" | "version" | "metadata">;
  /** The context and engine of a session that the run starts. */
  readonly start: Pick<StartOptions, "context" | "engine">;
  /** The name recorded with decisions. */
  readonly by: string | null;
};

/** The turn of a run, and its events. */
export type AgUiStream = { readonly turn: TurnHandle; readonly events: ChunkBatches<AgUiEvent> };

/**
 * Passes the input of a run to the session and streams the turn. Throws for an input that is refused, before anything
 * is started.
 */
export async function runAgUi(sessions: CallerSessions, input: AgUiInput, options: AgUiOptions): Promise<AgUiStream> {
  const view = await sessions.get(input.threadId, { messages: 0 });
  switch (input.type) {
    case "message":
      // A steering message that an earlier run sent is the newest message of a client that lost its connection.
      if (view !== null && isOfTurn(input.messageId, newestTurn(view))) return newestStream(sessions, view, input);
      return streamOf(sessions, input, await startOrContinue(sessions, view, input, options), []);
    case "resume":
      return answerInterrupts(sessions, required(view, input), input, options);
    case "results":
      return submitResults(sessions, required(view, input), input, options);
    case "attach":
      return newestStream(sessions, view, input);
  }
}

function newestTurn({ openTurn, session }: SessionView): string | null {
  return openTurn?.turnId ?? session.lastRun?.turnId ?? null;
}

/** The events of the open turn, or of the last one. */
async function newestStream(sessions: CallerSessions, view: SessionView | null, input: AgUiInput): Promise<AgUiStream> {
  const turnId = view === null ? null : newestTurn(view);
  if (turnId !== null) return streamOf(sessions, input, sessions.attach(input.threadId, turnId), []);
  throw new SessionError("invalid_status_for_operation", {
    message: "the input has no new message, no answer and no tool result, and the session has no turn",
  });
}

function required(view: SessionView | null, { threadId }: AgUiInput): SessionView {
  if (view !== null) return view;
  throw new RuntimeError("not_found", { message: `there is no session ${JSON.stringify(threadId)}` });
}

/** The message that started the session is sent to `start` again, which finds it by its key. */
async function startOrContinue(
  sessions: CallerSessions,
  view: SessionView | null,
  { threadId, messageId, message }: Extract<AgUiInput, { readonly type: "message" }>,
  { options, start }: AgUiOptions,
): Promise<TurnHandle> {
  const [first] = view === null ? [] : (await sessions.messages(threadId, { limit: 1 })).items;
  const startsSession = view === null || (first?.role === "user" && first.id === messageId);
  return startsSession
    ? sessions.start([message], { ...options, ...start, id: threadId, key: `ag-ui-start:${messageId}` })
    : recoverFailed(sessions, threadId, () =>
        sessions.continue(threadId, message, { ...options, key: `ag-ui-message:${messageId}` }),
      );
}

/** Answers interrupts: approvals and questions. */
async function answerInterrupts(
  sessions: CallerSessions,
  view: SessionView,
  input: Extract<AgUiInput, { readonly type: "resume" }>,
  { options, by }: AgUiOptions,
): Promise<AgUiStream> {
  const { threadId } = input;
  const openQuestions = questionsOf(view);
  const questions: Question[] = [];
  const decisions: Decision[] = [];
  for (const [index, answer] of input.answers.entries()) {
    const { interruptId } = answer;
    const call = openQuestions.get(interruptId) ?? null;
    if (call === null && !isTextAnswer(answer)) decisions.push(decisionOf(answer, index));
    else questions.push({ interruptId, text: answerText(answer, index), call });
  }
  const asked = questions.flatMap(({ call }) => (call === null ? [] : [call.toolCallId]));
  await sessions.checkAnswers?.(threadId, [...asked, ...decisions.map(({ toolCallId }) => toolCallId)]);
  let turn: TurnHandle | null = null;
  // An answer to a wait that is over counts only if it was accepted before, under its key.
  for (const { interruptId, text } of questions.filter(({ call }) => call === null)) {
    const key = questionKey(interruptId);
    turn = startedTurn(turn, await sessions.reply(threadId, text, { ...options, version: -1, key }));
  }
  const submissions: KeyedAnswer[] = [];
  /** Approvals of calls inside a handler. */
  const forwarded = new Set<string>();
  for (const answer of decisions) {
    const keyed = keyedAnswerOf(answer, by);
    const call = pendingCallOf(view, answer);
    if (call !== null) {
      submissions.push(withEdit(keyed, call));
      if (call.path.length > 0) forwarded.add(answer.approvalId);
      continue;
    }
    const accepted = isCallOpen(view, answer) ? null : await acceptedBefore(sessions, threadId, keyed, options);
    if (accepted === null) throw noPendingApproval(view, answer);
    turn = startedTurn(turn, accepted);
  }
  for (const keyed of [...submissions.filter(isEdit), ...submissions.filter((keyed) => !isEdit(keyed))]) {
    turn = startedTurn(turn, await submitAnswer(sessions, threadId, keyed, options));
  }
  const open = questions.filter(({ call }) => call !== null);
  if (open.length > 0) turn = startedTurn(turn, await answerQuestions(sessions, threadId, open, options));
  const ids = callIdsOf(input.messages);
  // An answer that is passed to a handler, or to a turn inside it, is no result of the call: the handler runs again.
  const denied = decisions.flatMap(({ approvalId, toolCallId, approved, reason }) =>
    approved || forwarded.has(approvalId)
      ? []
      : [sentResult(approvalId, ids.of(toolCallId), reason === null ? "denied" : `denied: ${reason}`)],
  );
  const answered = open.flatMap(({ interruptId, call, text }) =>
    call === null || call.isForwarded ? [] : [sentResult(interruptId, ids.of(call.toolCallId), text)],
  );
  return streamOf(sessions, input, handled(turn), [...denied, ...answered]);
}

/** Whether an answer has arguments, which the runtime validates. */
function isEdit({ answer }: KeyedAnswer): boolean {
  return answer.type === "decision" && answer.input !== undefined;
}

/** An answer to a question; `call` is `null` if the question does not wait any more. */
type Question = { readonly interruptId: string; readonly text: string; readonly call: QuestionCall | null };

type QuestionCall = { readonly toolCallId: string; readonly isForwarded: boolean };

/** The questions that wait, by the ids of their interrupts. */
function questionsOf({ session }: SessionView): ReadonlyMap<string, QuestionCall> {
  const lastTurn = session.lastRun?.turnId ?? null;
  const questions = new Map<string, QuestionCall>();
  for (const call of session.pendingToolCalls) {
    if (call.reason !== "question" || call.decision !== null) continue;
    questions.set(approvalIdOf(lastTurn, call), { toolCallId: call.id, isForwarded: call.path.length > 0 });
  }
  const asked = askedIn(session);
  const isListed = [...questions.values()].some(({ toolCallId }) => toolCallId === asked?.toolCallId);
  if (asked !== null && !isListed) {
    questions.set(questionIdOf(lastTurn, asked), { toolCallId: asked.toolCallId, isForwarded: false });
  }
  return questions;
}

const questionKey = (interruptId: string) => `ag-ui-answer:${interruptId}`;

/** Answers questions in the order in which the session asks them. */
async function answerQuestions(
  sessions: CallerSessions,
  threadId: string,
  questions: readonly Question[],
  options: AgUiOptions["options"],
): Promise<TurnHandle | null> {
  let turn: TurnHandle | null = null;
  let waiting = questions;
  while (waiting.length > 0) {
    const view = await sessions.get(threadId, { messages: 0 });
    const askedCall = view?.session.pendingToolCallId ?? null;
    const question = waiting.find(({ call }) => call?.toolCallId === askedCall) ?? waiting[0];
    if (question === undefined) break;
    const isAsked = view !== null && questionsOf(view).has(question.interruptId);
    const version = isAsked && question.call?.toolCallId === askedCall ? view.version : -1;
    const key = questionKey(question.interruptId);
    turn = startedTurn(turn, await sessions.reply(threadId, question.text, { ...options, version, key }));
    waiting = waiting.filter((other) => other !== question);
  }
  return turn;
}

/** Of two answers the one that started the turn. */
function startedTurn(before: TurnHandle | null, turn: TurnHandle | null): TurnHandle | null {
  return turn === null || (turn.turnId === null && before !== null) ? before : turn;
}

/**
 * Submits the results of tools that the client ran. Results of calls that do not wait are part of every posted
 * conversation and are skipped.
 */
async function submitResults(
  sessions: CallerSessions,
  view: SessionView,
  input: Extract<AgUiInput, { readonly type: "results" }>,
  { options, by }: AgUiOptions,
): Promise<AgUiStream> {
  const turnId = view.session.lastRun?.turnId ?? null;
  const toAnswer = ({ messageId, toolCallId, content }: AgUiResult): readonly UiAnswer[] => {
    const manual = view.session.pendingToolCalls.filter(({ reason }) => reason === "manual");
    // Results that the server sent are not answers, also if a call that waits has the same id.
    const call = isOfTurn(messageId, turnId) ? undefined : manual.find(({ id }) => UniqueCallIds.isFor(toolCallId, id));
    return call === undefined ? [] : [{ type: "result", toolCallId: call.id, toolName: call.name, turnId, content }];
  };
  let turn: TurnHandle | null = null;
  for (const answer of input.results.flatMap(toAnswer)) {
    turn = await submitAnswer(sessions, input.threadId, keyedAnswerOf(answer, by), options);
  }
  // Nothing waits for the results: the client posts a conversation that ends with results of the server, or sends its
  // own results again.
  return turn === null ? newestStream(sessions, view, input) : streamOf(sessions, input, turn, []);
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

/**
 * The answer to a question: a text, or an object with the field `answer`. `HttpAgent` accepts no other message while a
 * question waits, so a cancelled one is answered too.
 */
function answerText({ status, payload }: AgUiAnswer, index: number): string {
  if (status === "cancelled") return "The user did not answer the question.";
  const answer = typeof payload === "string" ? payload : asFields(payload)?.["answer"];
  if (typeof answer === "string" && answer !== "") return answer;
  throw invalid(["resume", index, "payload"], 'must be a text or { answer: "…" }');
}

type Decision = Extract<UiAnswer, { readonly type: "decision" }>;

/** The decision of an entry. A cancelled interrupt is a denial. */
function decisionOf({ interruptId, status, payload }: AgUiAnswer, index: number): Decision {
  const place = ["resume", index, "payload"];
  const fields: JsonObject | null = asFields(payload);
  const approved =
    status === "cancelled" ? false : payload === true || payload === false ? payload : fields?.["approved"];
  if (typeof approved !== "boolean") throw invalid(place, "must be true, false or { approved: true or false }");
  const { arguments: edited = null, reason = null, approved: _, by: __, ...others } = fields ?? {};
  // A field that is not read could hold what the person changed. `by` has no effect, as in the native route: the name
  // of the key is recorded.
  const [unknown] = Object.keys(others);
  if (unknown !== undefined)
    throw invalid([...place, unknown], "unknown field; the fields are approved, arguments, reason");
  const input = asFields(edited) ?? undefined;
  if (edited !== null && input === undefined) throw invalid([...place, "arguments"], "must be an object");
  if (reason !== null && typeof reason !== "string") throw invalid([...place, "reason"], "must be a string");
  // The id ends with the id of the call (`approvalIdOf`).
  const toolCallId = interruptId.split(":").slice(2).join(":");
  return { type: "decision", toolCallId, approvalId: interruptId, approved, reason, input };
}

/** The events of the turn of a run. `results`: results that this request gave, for which the turn has no event. */
async function streamOf(
  sessions: CallerSessions,
  { threadId, runId, messages }: AgUiInput,
  turn: TurnHandle,
  results: readonly SentResult[],
): Promise<AgUiStream> {
  const { turnId } = turn;
  // A request that is sent again has the results of the first one in its conversation.
  const newResults = results.filter(({ messageId }) => !messages.some((message) => isMessage(message, messageId)));
  if (turnId === null) {
    // Accepted, and other calls still wait.
    const view = await sessions.get(threadId, { messages: 0 });
    const lastTurn = view?.session.lastRun?.turnId ?? null;
    const asked = view === null ? null : askedIn(view.session);
    const outcome = outcomeOf(lastTurn, view?.session.pendingToolCalls ?? [], asked, callIdsOf(messages));
    const events: readonly AgUiEvent[] = [
      { type: "RUN_STARTED", threadId, runId, protocolVersion },
      ...newResults.map(resultEvent),
      { type: "RUN_FINISHED", threadId, runId, outcome },
    ];
    return { turn, events: chunkStream(events) };
  }
  const translator = new AgUiTranslator({ threadId, runId, turnId, messages });
  return { turn, events: turnChunks(turn, chunkStream(translator.start(newResults)), translator) };
}

function isMessage(message: Json, messageId: string): boolean {
  return asFields(message)?.["id"] === messageId;
}
