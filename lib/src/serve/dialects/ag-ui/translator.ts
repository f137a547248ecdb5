// Translates the events of a turn into events of AG-UI.
//
// Rules of the protocol that shape this file
//   1. A message, a reasoning message, a tool call and a step are opened once and closed before the run finishes. Ids
//      are unique in a run.
//   2. There is no event that takes text back. When an attempt is thrown away (`step_reset`), what is open is closed,
//      and a `MESSAGES_SNAPSHOT` without it replaces the client's conversation. The client keeps its reasoning messages
//      if a snapshot has none, so the snapshot has the reasoning message of that attempt, emptied.
//   3. One reply is one assistant message: its texts, in order. Its reasoning is one reasoning message before it.
//
//   4. The client appends text to a message with the same id. All messages of a turn have ids that begin with the id of
//      the turn, so a client that reads a turn again, after a lost connection, first gets a `MESSAGES_SNAPSHOT` without
//      what it has of that turn.
//
//   5. Ids of calls are unique in the conversation (call-ids.ts).
//
// `TurnView` folds the events of a reply (core/model/turn/turn-view.ts). A reader that joins late gets the text of a
// settled reply with its stored event, without deltas.

import type {
  AssistantMessage,
  Json,
  JsonObject,
  Message,
  PendingToolCall,
  ToolMessage,
  TurnChange,
  TurnEvent,
  UniqueCallIds,
  UserMessage,
} from "../../../core/model/internal.ts";
import type { RuntimeEvent, TurnEnd } from "../../../durable/internal.ts";
import type { AgUiEvent, AgUiInterrupt, AgUiOutcome, AgUiUsage } from "./events.ts";

import { argumentsText, callPath, messageText, normalizeContent, TurnView } from "../../../core/model/internal.ts";
import { approvalIdOf, failureText } from "../ai-sdk-chat/parts.ts";
import { callIdsOf } from "./call-ids.ts";
import { protocolVersion } from "./events.ts";
import { asFields } from "./input.ts";

/** The run that is translated. */
export type AgUiRun = {
  readonly threadId: string;
  readonly runId: string;
  readonly turnId: string;
  /** The conversation of the client before the run, for snapshots. */
  readonly messages: readonly Json[];
};

/** A reply that is being received. */
type OpenReply = {
  readonly messageId: string;
  text: "none" | "open" | "closed";
  reasoning: "none" | "open" | "closed";
  /** Calls whose start was sent. */
  readonly calls: Set<string>;
  /**
   * The arguments that were sent of a call are not those that the client has to have: the provider has changed its own
   * text.
   */
  isChanged: boolean;
};

/** Translates one turn. */
export class AgUiTranslator {
  readonly #run: AgUiRun;
  readonly #ids: UniqueCallIds;
  readonly #view = new TurnView();
  readonly #completed: JsonObject[] = [];
  #reply: OpenReply | null = null;
  #step = 1;
  /** The number of completed messages before the open step; `null`: no step is open. */
  #stepBase: number | null = null;
  #question: AskedQuestion | null = null;
  /** The number of steering messages so far. */
  #inputs = 0;
  /** The client has messages of this turn. */
  readonly #isReadAgain: boolean;
  /** The id of the first reasoning message of this turn that the client has. */
  readonly #staleReasoning: Json;

  constructor(run: AgUiRun) {
    this.#run = { ...run, messages: run.messages.filter((message) => !isMessageOf(message, run.turnId)) };
    this.#ids = callIdsOf(this.#run.messages);
    this.#isReadAgain = this.#run.messages.length < run.messages.length;
    const reasoning = run.messages.find(
      (message) => isMessageOf(message, run.turnId) && asFields(message)?.["role"] === "reasoning",
    );
    this.#staleReasoning = asFields(reasoning ?? null)?.["id"] ?? null;
  }

  /** The first events, with results that the request gave: the turn has no events for them. */
  start(results: readonly SentResult[]): readonly AgUiEvent[] {
    const { threadId, runId, turnId } = this.#run;
    const snapshot = { sessionId: threadId, turnId, status: "running" };
    const withdrawal = this.#isReadAgain ? [this.#snapshot(this.#staleReasoning)] : [];
    this.#completed.push(
      ...results.map(({ messageId, toolCallId, content }) => toolMessage(messageId, toolCallId, content)),
    );
    return [
      { type: "RUN_STARTED", threadId, runId, protocolVersion },
      { type: "STATE_SNAPSHOT", snapshot },
      ...withdrawal,
      ...results.map(resultEvent),
    ];
  }

  readonly add = (runtimeEvent: RuntimeEvent): readonly AgUiEvent[] => {
    const { event } = runtimeEvent;
    const changes = this.#view.add(runtimeEvent);
    // A complete reply is sent in the order of rule 3.
    const ordered =
      event.type === "message_completed" ? changes.toSorted((left, right) => rankOf(left) - rankOf(right)) : changes;
    return [...ordered.flatMap((change) => this.#change(change)), ...this.#translate(event)];
  };

  /** The events for a change of the reply. */
  #change(change: TurnChange): readonly AgUiEvent[] {
    switch (change.type) {
      case "text":
        return [...this.#openStep(), ...this.#text(change.delta)];
      case "reasoning":
        return [...this.#openStep(), ...this.#reasoning(change.delta)];
      case "call_started":
        return change.providerExecuted ? [] : [...this.#openStep(), ...this.#startCall(change.id, change.name)];
      case "arguments": {
        const { id, delta } = change;
        if (this.#reply?.calls.has(id) !== true) return [];
        return [{ type: "TOOL_CALL_ARGS", toolCallId: this.#ids.of(id), delta }];
      }
      case "call":
        if (!change.isReported && !change.providerExecuted) this.#open.isChanged = true;
        return [];
      case "part":
      case "call_changed":
        return [];
      case "reply":
        return [...this.#openStep(), ...this.#settle(change.message)];
      case "discarded":
        return this.#reset(change.callIds, change.reply !== null);
    }
  }

  /** The events for an event that changes more than a reply. */
  #translate(event: TurnEvent): readonly AgUiEvent[] {
    switch (event.type) {
      case "tool_result_encoded":
        return this.#result(event.id, contentText(event.content));
      case "tool_halt":
        return this.#result(event.toolCallId, contentText(event.content));
      case "input_accepted":
        // Input that starts a turn is the user message of the client.
        return event.checkpoint === null ? [] : event.inputs.flatMap(({ message }) => this.#steering(message));
      case "tool_progress":
        return [
          {
            type: "CUSTOM",
            name: "tool_progress",
            value: { toolCallId: this.#ids.of(event.id), progress: event.progress },
          },
        ];
      case "warning":
        return [{ type: "CUSTOM", name: "warning", value: { ...event.warning } }];
      case "compaction_started": {
        const { frameId, from, to } = event;
        return [{ type: "CUSTOM", name: "compaction", value: { frameId, from, to, status: "running" } }];
      }
      case "compaction_ended": {
        const { frameId, from, to, status } = event;
        return [{ type: "CUSTOM", name: "compaction", value: { frameId, from, to, status } }];
      }
      case "step_completed":
        return this.#closeStep();
      case "chat_completed":
        this.#question = askedIn(event.result);
        return [];
      default:
        return [];
    }
  }

  readonly end = (end: TurnEnd): readonly AgUiEvent[] => {
    const { threadId, runId, turnId } = this.#run;
    const { session, failure, outcome } = end;
    const closing = [...this.#closeReply(), ...this.#closeStep()];
    const { status, version, usage, pendingQuestion } = session;
    const snapshot = { sessionId: threadId, turnId, status, version, pendingQuestion, totalCost: usage.totalCost };
    const state: AgUiEvent = { type: "STATE_SNAPSHOT", snapshot };
    if (failure !== null) {
      return [...closing, state, { type: "RUN_ERROR", message: failureText(failure), code: failure.reason }];
    }
    const finished: AgUiEvent = {
      type: "RUN_FINISHED",
      threadId,
      runId,
      outcome:
        outcome.type === "cancelled"
          ? { type: "cancelled" }
          : outcomeOf(turnId, session.pendingToolCalls, this.#question, this.#ids),
      usage: [toAgUiUsage(end)],
    };
    return [...closing, state, finished];
  };

  #openStep(): readonly AgUiEvent[] {
    if (this.#stepBase !== null) return [];
    this.#stepBase = this.#completed.length;
    return [{ type: "STEP_STARTED", stepName: `step ${this.#step}` }];
  }

  #closeStep(): readonly AgUiEvent[] {
    if (this.#stepBase === null) return [];
    this.#stepBase = null;
    const stepName = `step ${this.#step}`;
    this.#step += 1;
    return [{ type: "STEP_FINISHED", stepName }];
  }

  get #open(): OpenReply {
    const messageId = `${this.#run.turnId}/${this.#step}/${this.#completed.length}`;
    this.#reply ??= { messageId, text: "none", reasoning: "none", calls: new Set(), isChanged: false };
    return this.#reply;
  }

  #text(delta: string): readonly AgUiEvent[] {
    const reply = this.#open;
    const { messageId } = reply;
    const before = this.#closeReasoning();
    const start: readonly AgUiEvent[] =
      reply.text === "open" ? [] : [{ type: "TEXT_MESSAGE_START", messageId, role: "assistant" }];
    reply.text = "open";
    return [...before, ...start, { type: "TEXT_MESSAGE_CONTENT", messageId, delta }];
  }

  #reasoning(delta: string): readonly AgUiEvent[] {
    const reply = this.#open;
    // Reasoning between texts has no place of its own in the client's conversation (rule 3).
    if (reply.reasoning === "closed") return [];
    const messageId = `${reply.messageId}/reasoning`;
    const start: readonly AgUiEvent[] =
      reply.reasoning === "open"
        ? []
        : [
            { type: "REASONING_START", messageId },
            { type: "REASONING_MESSAGE_START", messageId, role: "reasoning" },
          ];
    reply.reasoning = "open";
    return [...start, { type: "REASONING_MESSAGE_CONTENT", messageId, delta }];
  }

  #closeReasoning(): readonly AgUiEvent[] {
    if (this.#reply?.reasoning !== "open") return [];
    this.#reply.reasoning = "closed";
    const messageId = `${this.#reply.messageId}/reasoning`;
    return [
      { type: "REASONING_MESSAGE_END", messageId },
      { type: "REASONING_END", messageId },
    ];
  }

  #startCall(callId: string, toolCallName: string): readonly AgUiEvent[] {
    const { calls, messageId } = this.#open;
    calls.add(callId);
    const toolCallId = this.#ids.begin(callId);
    return [
      ...this.#closeReasoning(),
      { type: "TOOL_CALL_START", toolCallId, toolCallName, parentMessageId: messageId },
    ];
  }

  /** The reply is stored, and all of it was sent: everything is closed. */
  #settle(message: AssistantMessage): readonly AgUiEvent[] {
    const { messageId, isChanged } = this.#open;
    const reasoning = reasoningOf(message);
    const events = this.#closeReply();
    if (reasoning !== "") this.#completed.push({ id: `${messageId}/reasoning`, role: "reasoning", content: reasoning });
    this.#completed.push(assistantOf(message, messageId, this.#ids));
    return isChanged ? [...events, this.#snapshot()] : events;
  }

  #closeReply(): readonly AgUiEvent[] {
    const reply = this.#reply;
    if (reply === null) return [];
    const events: AgUiEvent[] = [...this.#closeReasoning()];
    if (reply.text === "open") events.push({ type: "TEXT_MESSAGE_END", messageId: reply.messageId });
    for (const callId of reply.calls) events.push({ type: "TOOL_CALL_END", toolCallId: this.#ids.of(callId) });
    this.#reply = null;
    return events;
  }

  #result(callId: string, content: string): readonly AgUiEvent[] {
    const toolCallId = this.#ids.of(callId);
    const messageId = `${this.#run.turnId}/result/${toolCallId}`;
    this.#completed.push(toolMessage(messageId, toolCallId, content));
    return [{ type: "TOOL_CALL_RESULT", messageId, toolCallId, content, role: "tool" }];
  }

  /** A user message that was added to the open turn. */
  #steering(message: Message): readonly AgUiEvent[] {
    if (message.role !== "user") return [];
    this.#inputs += 1;
    const messageId = `${this.#run.turnId}/input/${this.#inputs}`;
    const content = contentText(message.content);
    this.#completed.push({ id: messageId, role: "user", content });
    return [
      { type: "TEXT_MESSAGE_START", messageId, role: "user" },
      ...(content === "" ? [] : [{ type: "TEXT_MESSAGE_CONTENT", messageId, delta: content } as const]),
      { type: "TEXT_MESSAGE_END", messageId },
    ];
  }

  /** The attempt was thrown away (rule 2); with a restart of the step, also its complete reply and its results. */
  #reset(callIds: readonly string[], isRestart: boolean): readonly AgUiEvent[] {
    const withdrawn = isRestart && this.#stepBase !== null ? this.#completed.splice(this.#stepBase) : [];
    if (this.#reply === null && withdrawn.length === 0) return [];
    const open = this.#reply === null || this.#reply.reasoning === "none" ? null : `${this.#reply.messageId}/reasoning`;
    const closing = this.#closeReply();
    for (const callId of callIds) this.#ids.withdraw(callId);
    return [...closing, this.#snapshot(open ?? withdrawn.find(({ role }) => role === "reasoning")?.["id"])];
  }

  /** The conversation. `emptied`: the id of a reasoning message that the client has to empty. */
  #snapshot(emptied: Json = null): AgUiEvent {
    const reasoning = emptied === null ? [] : [{ id: emptied, role: "reasoning", content: "" }];
    return { type: "MESSAGES_SNAPSHOT", messages: [...this.#run.messages, ...this.#completed, ...reasoning] };
  }
}

/** The result of a call that a request gave: a denial, or the answer to a question. */
export type SentResult = { readonly messageId: string; readonly toolCallId: string; readonly content: string };

/**
 * The result that the answer to an interrupt gives. The id of its message is not that of a message of the turn: it is
 * sent once, and not when the turn is read again.
 */
export function sentResult(interruptId: string, toolCallId: string, content: string): SentResult {
  return { messageId: `${interruptId}/result`, toolCallId, content };
}

/** The event of a result that a request gave. */
export function resultEvent({ messageId, toolCallId, content }: SentResult): AgUiEvent {
  return { type: "TOOL_CALL_RESULT", messageId, toolCallId, content, role: "tool" };
}

function toolMessage(id: string, toolCallId: string, content: string): JsonObject {
  return { id, role: "tool", toolCallId, content };
}

/** Whether the id is that of a message which a run of this turn sent. */
export function isOfTurn(messageId: string, turnId: string | null): boolean {
  return turnId !== null && messageId.startsWith(`${turnId}/`);
}

function isMessageOf(message: Json, turnId: string): boolean {
  const id = asFields(message)?.["id"];
  return typeof id === "string" && isOfTurn(id, turnId);
}

/** The text of the result of a call, or of a user message. Images and files have no place in it. */
function contentText(content: ToolMessage["content"] | UserMessage["content"]): string {
  return normalizeContent(content)
    .map((part) => (part.type === "text" ? part.text : `[${part.type}]`))
    .join("\n");
}

/** The order of the parts of a complete reply. */
function rankOf({ type }: TurnChange): number {
  return type === "reasoning" ? 0 : type === "text" ? 1 : 2;
}

function reasoningOf({ content }: AssistantMessage): string {
  if (typeof content === "string") return "";
  return content.flatMap((part) => (part.type === "reasoning" ? [part.text] : [])).join("");
}

/** A reply as a message of AG-UI. */
function assistantOf(message: AssistantMessage, id: string, ids: UniqueCallIds): JsonObject {
  const text = messageText(message);
  const toolCalls = message.toolCalls.map((call) => ({
    id: ids.of(call.id),
    type: "function",
    function: { name: call.name, arguments: argumentsText(call) },
  }));
  return {
    id,
    role: "assistant",
    ...(text === "" ? {} : { content: text }),
    ...(toolCalls.length === 0 ? {} : { toolCalls }),
  };
}

function toAgUiUsage({ usage: { inputTokens, outputTokens, totalTokens } }: TurnEnd): AgUiUsage {
  return {
    ...(inputTokens === null ? {} : { inputTokens }),
    ...(outputTokens === null ? {} : { outputTokens }),
    ...(totalTokens === null ? {} : { totalTokens }),
  };
}

/** A question whose answer is the next user message. Its call does not wait. */
export type AskedQuestion = { readonly toolCallId: string; readonly question: string };

/** The question of a session, or of the result of a turn, whose answer is the next user message; `null`: none. */
export function askedIn(asked: {
  readonly pendingQuestion: string | null;
  readonly pendingToolCallId: string | null;
}): AskedQuestion | null {
  const { pendingQuestion: question, pendingToolCallId: toolCallId } = asked;
  return question === null || toolCallId === null ? null : { question, toolCallId };
}

/** The id of the interrupt of such a question. */
export function questionIdOf(turnId: string | null, { toolCallId }: AskedQuestion): string {
  return `${turnId ?? ""}:question:${toolCallId}`;
}

/**
 * How the run ended: with interrupts if calls wait for a person, otherwise with the calls that the client has to run.
 */
export function outcomeOf(
  turnId: string | null,
  pending: readonly PendingToolCall[],
  asked: AskedQuestion | null,
  ids: UniqueCallIds,
): AgUiOutcome {
  const open = pending.filter(({ decision }) => decision === null);
  const waits = open.flatMap((call) => interruptOf(turnId, call, ids.of(call.id)));
  const isListed = asked === null || waits.some(({ toolCallId }) => toolCallId === ids.of(asked.toolCallId));
  const interrupts = isListed ? waits : [...waits, questionOf(turnId, asked, ids.of(asked.toolCallId))];
  if (interrupts.length > 0) return { type: "interrupt", interrupts };
  const pendingToolCallIds = open.map(({ id }) => ids.of(id));
  return { type: "success", ...(pendingToolCallIds.length === 0 ? {} : { pendingToolCallIds }) };
}

const answerSchema = {
  type: "object",
  properties: { answer: { type: "string" } },
  required: ["answer"],
};

const approvalSchema = {
  type: "object",
  properties: {
    approved: { type: "boolean" },
    arguments: { type: "object", description: "The arguments to run with, if they were edited." },
    reason: { type: "string", description: "Why the call is denied." },
  },
  required: ["approved"],
  additionalProperties: false,
};

function questionOf(turnId: string | null, asked: AskedQuestion, toolCallId: string): AgUiInterrupt {
  const { question: message } = asked;
  return { id: questionIdOf(turnId, asked), reason: "question", toolCallId, message, responseSchema: answerSchema };
}

function interruptOf(turnId: string | null, call: PendingToolCall, toolCallId: string): readonly AgUiInterrupt[] {
  const { reason, question, opts, shown } = call;
  const id = approvalIdOf(turnId, call);
  const hints = Object.keys(opts).length === 0 ? {} : { opts };
  switch (reason) {
    case "manual":
      return [];
    case "question":
      return [{ id, reason, toolCallId, message: question ?? "", responseSchema: answerSchema, metadata: hints }];
    case "approval":
    case "outcome_unknown": {
      const message =
        reason === "approval"
          ? `May ${callPath(shown)} run?`
          : `${callPath(shown)} was running when its process stopped, and its outcome is unknown. Approve to run it again, deny to leave it.`;
      // What runs, not what the model called: pages show these fields to the person who decides (A1).
      const metadata = { toolName: shown.name, arguments: shown.arguments ?? {}, shown: { ...shown }, ...hints };
      return [{ id, reason, toolCallId, message, responseSchema: approvalSchema, metadata }];
    }
  }
}
