// The messages of a session as UI messages of the AI SDK. All replies between two user messages form one assistant
// message, with the ids that a stream of the same turns has.
//
// Rules
//   1. An assistant message has the id of the turn that started it. Turns that continued it with answers to its calls
//      extend it.
//   2. Input that was steered into an open turn is a part of the assistant message of that turn.
//   3. An answer that became the result of a call is shown as a user message.
//   4. Calls are shown with their current state: answered, decided or pending.
//   5. A call whose handler has read an answer is shown twice, as in a stream: as it was asked, and with its result
//      after the answer.

import type {
  AssistantMessage,
  JsonObject,
  Message,
  PendingToolCall,
  ToolCall,
  ToolMessage,
  UserMessage,
} from "../../../core/model/internal.ts";
import type { UiMessage, UiPart, UiResult, UiToolPart, UiToolState } from "./parts.ts";

import { isFinalizeNudge, messageText, normalizeContent } from "../../../core/model/internal.ts";
import {
  approvalIdOf,
  approvalOf,
  approvedArguments,
  deniedText,
  fileOf,
  isToolPart,
  pendingInput,
  resultOfMessage,
  userParts,
} from "./parts.ts";

/** The stored state of a conversation. */
export type UiThread = {
  readonly messages: readonly Message[];
  /** The index of the first of these messages in the session. */
  readonly from: number;
  readonly pendingToolCalls: readonly PendingToolCall[];
  /** The turn that left the pending calls. */
  readonly lastTurn: string | null;
  /** The options of the tool that asks the newest question. */
  readonly questionOpts: JsonObject;
};

/** Converts messages, oldest first, in one pass: linear in the number of parts. */
export function uiMessages(thread: UiThread): readonly UiMessage[] {
  return conversationOf(thread).end();
}

function conversationOf({ messages, from, pendingToolCalls, lastTurn, questionOpts }: UiThread): Conversation {
  const conversation = new Conversation(questionOpts);
  for (const [index, message] of messages.entries()) conversation.take(message, from + index);
  conversation.wait(pendingToolCalls, lastTurn, from + messages.length);
  return conversation;
}

/** The newest UI message, and where it is in the session. */
export type NewestUiMessage = {
  readonly message: UiMessage;
  /** The index of the message of the session that starts it. */
  readonly index: number;
  /** The index of the earlier reply whose calls it shows again (rule 5); `null`: there is none. */
  readonly repeats: number | null;
};

/** The newest of these messages as a UI message; `null` if there is none. `count`: the number of all UI messages. */
export function newestUiMessage(thread: UiThread): { readonly newest: NewestUiMessage | null; readonly count: number } {
  const conversation = conversationOf(thread);
  const messages = conversation.end();
  const message = messages.at(-1);
  return {
    newest: message === undefined ? null : { message, index: conversation.newestIndex, repeats: conversation.repeats },
    count: messages.length,
  };
}

/** The turn that wrote a message, from the prefix of the message id; `null` if the id has none. */
function turnOf({ id }: Message): string | null {
  const at = id?.indexOf("/") ?? -1;
  return id === null || at <= 0 ? null : id.slice(0, at);
}

/** An assistant message under construction. */
type Draft = {
  readonly id: string;
  readonly parts: UiPart[];
  /** The newest turn of the message. */
  turn: string | null;
  /** The call whose question ends the message. */
  asked: string | null;
};

/** Where the part of a call is, and the index of the message of the session that made the call. */
type CallPlace = { readonly parts: UiPart[]; readonly at: number; readonly index: number };

/** Collects UI messages while it reads the messages of a session in order. */
class Conversation {
  readonly #finished: { readonly id: string; readonly role: UiMessage["role"]; readonly parts: UiPart[] }[] = [];
  readonly #ids = new Set<string>();
  /** The place of each call's part; the newest call of an id. */
  readonly #calls = new Map<string, CallPlace>();
  #draft: Draft | null = null;
  /** The index of the message of the session that started the newest UI message. */
  newestIndex = 0;
  /** The index of the reply whose calls the newest UI message repeats; `null`: it repeats none. */
  repeats: number | null = null;
  /** The calls whose handlers have read an answer and have not run again yet. */
  readonly #resumed = new Set<string>();
  /** User messages without a reply yet: they become messages of their own, or parts of the reply of the open turn. */
  #unanswered: { readonly message: UserMessage; readonly index: number }[] = [];

  readonly #questionOpts: JsonObject;

  constructor(questionOpts: JsonObject) {
    this.#questionOpts = questionOpts;
  }

  /** Adds the next message. System messages, events and the nudge of a structured call are not shown. */
  take(message: Message, index: number): void {
    if (isFinalizeNudge(message)) return;
    switch (message.role) {
      case "user": {
        const { askUserAnswer, toolCallId } = message.metadata;
        if (askUserAnswer === true && typeof toolCallId === "string") this.#resumed.add(toolCallId);
        this.#unanswered.push({ message, index });
        break;
      }
      case "assistant":
        if (message.metadata["askUser"] === true) this.#question(message, index);
        else this.#reply(message, index);
        break;
      case "tool":
        this.#answer(message, index);
        break;
      case "system":
      case "event":
        break;
    }
  }

  /** Adds pending calls and sets their state. */
  wait(pending: readonly PendingToolCall[], lastTurn: string | null, index: number): void {
    for (const call of pending) {
      if (!this.#calls.has(call.id)) this.#call(call, lastTurn, this.#assistantDraft(lastTurn, index).parts, index);
      this.#setState(call.id, waitingState(call, lastTurn), pendingInput(call));
    }
  }

  /** Ends the conversation. Only the newest question gets its options: those of earlier ones are not stored. */
  end(): readonly UiMessage[] {
    const parts = this.#draft?.parts ?? [];
    const last = parts.at(-1);
    if (last?.type === "data-question" && this.#unanswered.length === 0) {
      parts[parts.length - 1] = { ...last, data: { ...last.data, opts: this.#questionOpts } };
    }
    this.#close();
    return this.#finished;
  }

  /** Ends the open assistant message and adds the unanswered user messages as messages of their own. */
  #close(): void {
    this.#draft = null;
    for (const { message, index } of this.#unanswered) {
      const parts = userParts(message.content);
      this.#add(message.id ?? `message-${index}`, "user", parts.length === 0 ? [...userParts("")] : [...parts], index);
    }
    this.#unanswered = [];
  }

  /**
   * Adds a message. A duplicate id is replaced by the index: the SDK requires unique ids, and a turn may start two
   * messages.
   */
  #add(preferredId: string, role: UiMessage["role"], parts: UiPart[], index: number): string {
    const id = this.#ids.has(preferredId) ? `message-${index}` : preferredId;
    this.#ids.add(id);
    this.#finished.push({ id, role, parts });
    this.newestIndex = index;
    this.repeats = null;
    return id;
  }

  /** The assistant message to extend; starts a new one if there is none or another turn follows a user message. */
  #assistantDraft(turn: string | null, index: number): Draft {
    const draft = this.#draft;
    const isContinued = draft !== null && (this.#unanswered.length === 0 || (turn !== null && draft.turn === turn));
    if (draft !== null && isContinued) {
      for (const { message, index } of this.#unanswered) {
        const id = message.id ?? `message-${index}`;
        draft.parts.push({ type: "data-steering-message", id, data: { parts: userParts(message.content) } });
      }
      this.#unanswered = [];
      draft.turn = turn ?? draft.turn;
      return draft;
    }
    this.#close();
    const parts: UiPart[] = [];
    const id = this.#add(turn ?? `message-${index}`, "assistant", parts, index);
    const started: Draft = { id, parts, turn, asked: null };
    this.#draft = started;
    return started;
  }

  /** A model reply: one step of the assistant message, with its parts in order. */
  #reply(message: AssistantMessage, index: number): void {
    // A reply after a question belongs to a new message.
    if (this.#draft !== null && this.#draft.asked !== null) this.#draft = null;
    const turn = turnOf(message);
    const { parts } = this.#assistantDraft(turn, index);
    parts.push({ type: "step-start" });
    const calls = new Map(message.toolCalls.map((call) => [call.id, call]));
    const prefix = message.id?.replace(/\/reply$/, "") ?? `message-${index}`;
    let reasoningCount = 0;
    for (const part of normalizeContent(message.content)) {
      switch (part.type) {
        case "text":
          if (part.text !== "") parts.push({ type: "text", text: part.text, state: "done" });
          break;
        case "reasoning":
          if (part.text === "") break;
          parts.push({
            type: "reasoning",
            id: `${prefix}/reasoning/${reasoningCount}`,
            text: part.text,
            state: "done",
          });
          reasoningCount += 1;
          break;
        case "image":
        case "file": {
          const file = fileOf(part);
          if (file !== null) parts.push({ type: "file", url: file.url, mediaType: file.mediaType });
          break;
        }
        case "tool_call": {
          const call = part.providerExecuted ?? calls.get(part.toolCallId);
          calls.delete(part.toolCallId);
          if (call !== undefined) this.#call(call, turn, parts, index, part.providerExecuted !== null);
          break;
        }
        case "tool_result": {
          const errorText = typeof part.content === "string" ? part.content : JSON.stringify(part.content);
          const result: UiResult = part.isError
            ? { type: "error", errorText }
            : { type: "output", output: part.content };
          this.#setState(part.toolCallId, settledState(result, ""));
          break;
        }
        case "opaque":
          break;
      }
    }
    for (const call of calls.values()) this.#call(call, turn, parts, index);
  }

  /** Shows the calls that run again in a turn, at the start of its message. */
  #repeatCalls(turn: string | null, index: number): void {
    if (turn === null || this.#resumed.size === 0) return;
    this.#draft = null;
    const { parts } = this.#assistantDraft(turn, index);
    const resumed = [...this.#calls].filter(([id]) => this.#resumed.has(id));
    for (const [id, place] of resumed) {
      const part = this.#partOf(id);
      if (part === null) continue;
      this.#calls.set(id, {
        parts,
        at: parts.push({ ...part, toolMetadata: { turnId: turn } }) - 1,
        index: place.index,
      });
      this.repeats = Math.min(this.repeats ?? place.index, place.index);
    }
    this.#resumed.clear();
  }

  /** A question of a tool. It ends the assistant message. */
  #question(message: AssistantMessage, index: number): void {
    this.#repeatCalls(turnOf(message), index);
    if (this.#draft !== null && this.#draft.asked !== null) this.#draft = null;
    const draft = this.#assistantDraft(turnOf(message), index);
    const { toolCallId: metadataCallId } = message.metadata;
    const toolCallId = typeof metadataCallId === "string" ? metadataCallId : "";
    draft.asked = toolCallId;
    const id = `${turnOf(message) ?? `message-${index}`}/${toolCallId}`;
    const data = { toolCallId, question: messageText(message), opts: {} };
    draft.parts.push({ type: "data-question", id, data });
  }

  /** A tool result: sets the state of its call, and shows the answer to a question as a user message. */
  #answer(message: ToolMessage, index: number): void {
    const { id, toolCallId } = message;
    // Results that a turn wrote have a message id. A result without one is the answer of the user to a question.
    if (id === null && this.#draft?.asked === toolCallId) {
      this.#close();
      this.#add(`message-${index}`, "user", [...userParts(messageText(message))], index);
      return;
    }
    const result = resultOfMessage(message);
    if (result === null) return;
    if (this.#resumed.has(toolCallId)) this.#repeatCalls(turnOf(message), index);
    const turn = turnOf(message) ?? this.#draft?.turn ?? "";
    // A user decides between two turns. A denial in the turn of its call is one of a policy, which a stream shows as an
    // error.
    const isPolicy = result.type === "denied" && this.#partOf(toolCallId)?.toolMetadata?.turnId === turn;
    const shown: UiResult = isPolicy ? { type: "error", errorText: deniedText(result.reason) } : result;
    this.#setState(toolCallId, settledState(shown, `${turn}:denied:${toolCallId}`), approvedArguments(message));
  }

  /** Adds a call and remembers its place, so that its state can be set by later messages. */
  #call(call: ToolCall, turn: string | null, parts: UiPart[], index: number, providerExecuted = false): void {
    const { id, name, arguments: args, rawArguments } = call;
    const part: UiToolPart = {
      type: `tool-${name}`,
      toolCallId: id,
      ...(turn === null ? {} : { toolMetadata: { turnId: turn } }),
      ...(providerExecuted ? { providerExecuted } : {}),
      state: "input-available",
      input: args ?? rawArguments ?? {},
    };
    this.#calls.set(id, { parts, at: parts.push(part) - 1, index });
  }

  /** The part of a call; `null` if the call is not in the loaded messages. */
  #partOf(toolCallId: string): UiToolPart | null {
    const callPlace = this.#calls.get(toolCallId);
    const part = callPlace?.parts[callPlace.at];
    return part !== undefined && isToolPart(part) ? part : null;
  }

  /**
   * Replaces the state of a call, and its input if a hook or the user changed it. A call that is not in the loaded
   * messages is ignored.
   */
  #setState(toolCallId: string, state: UiToolState, editedInput: JsonObject | null = null): void {
    const callPlace = this.#calls.get(toolCallId);
    const part = this.#partOf(toolCallId);
    if (callPlace === undefined || part === null) return;
    const { type, toolMetadata, providerExecuted, input } = part;
    callPlace.parts[callPlace.at] = {
      type,
      toolCallId,
      ...(toolMetadata === undefined ? {} : { toolMetadata }),
      ...(providerExecuted === undefined ? {} : { providerExecuted }),
      input: editedInput ?? input,
      ...state,
    };
  }
}

function settledState(result: UiResult, approvalId: string): UiToolState {
  switch (result.type) {
    case "output":
      return { state: "output-available", output: result.output };
    case "error":
      return { state: "output-error", errorText: result.errorText };
    case "denied":
      return deniedState({ id: approvalId }, result.reason);
  }
}

function deniedState(approval: { readonly id: string }, why: string | null): UiToolState {
  const reason = why === null ? {} : { reason: why };
  return { state: "output-denied", approval: { ...approval, approved: false, ...reason } };
}

/** The state of a pending call: its approval request, or the decision that was recorded and not yet executed. */
function waitingState(call: PendingToolCall, lastTurn: string | null): UiToolState {
  const approval = approvalOf(lastTurn, call);
  const { decision, reason } = call;
  if (decision === null) {
    const needsApproval = reason === "approval" || reason === "outcome_unknown";
    return needsApproval ? { state: "approval-requested", approval } : { state: "input-available" };
  }
  switch (decision.type) {
    case "approve":
      return { state: "approval-responded", approval: { ...approval, approved: true } };
    case "deny":
      return deniedState({ id: approvalIdOf(lastTurn, call) }, decision.reason);
    // The answer is for a call inside of the tool; the tool itself runs again.
    case "forward":
      switch (decision.answer.type) {
        case "approve":
        case "deny":
          return {
            state: "approval-responded",
            approval: { ...approval, approved: decision.answer.type === "approve" },
          };
        case "answer":
        case "result":
          return { state: "input-available" };
      }
  }
}
