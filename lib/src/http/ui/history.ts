// A conversation as a chat shows it: what was said between two messages of the user is one message of the assistant, as it is in a stream, with the
// same ids, as far as a thread knows them.
//
// Rules:
//   1. A message of the assistant has the id of the turn that began it. Turns that went on with answers to its calls added to it.
//   2. What was said to a running turn stands inside the message it was said to.
//   3. An answer that became the result of a call is shown as what it was, a message of the user.
//   4. Calls are shown with what is known of them now: answered, decided, waiting.

import type {
  AssistantMessage,
  JsonObject,
  Message,
  PendingToolCall,
  ToolCall,
  ToolMessage,
  UserMessage,
} from "../../model/internal.ts";
import type { UiMessage, UiPart, UiResult, UiToolPart, UiToolState } from "./parts.ts";

import { messageText, normalizeContent } from "../../model/internal.ts";
import { approvalIdOf, approvalOf, fileOf, isToolPart, resultOfMessage, saidParts } from "./parts.ts";

/** What is known of a conversation. */
export type UiThread = {
  readonly messages: readonly Message[];
  /** The place of the first of them in the whole conversation. */
  readonly from: number;
  readonly pendingToolCalls: readonly PendingToolCall[];
  /** The turn that left them. */
  readonly lastTurn: string | null;
  /** What the tool said for whoever asks the newest question. */
  readonly questionOpts: JsonObject;
};

export function uiMessages({
  messages,
  from,
  pendingToolCalls,
  lastTurn,
  questionOpts,
}: UiThread): readonly UiMessage[] {
  const conversation = new Conversation(questionOpts);
  for (const [index, message] of messages.entries()) conversation.take(message, from + index);
  conversation.wait(pendingToolCalls, lastTurn, from + messages.length);
  return conversation.end();
}

/** The turn that wrote a message, from the id it gave it; `null`: nobody knows. */
function turnOf({ id }: Message): string | null {
  const at = id?.indexOf("/") ?? -1;
  return id === null || at <= 0 ? null : id.slice(0, at);
}

/** A message that is being put together. */
type Draft = {
  readonly id: string;
  readonly parts: UiPart[];
  /** The newest turn in it. */
  turn: string | null;
  /** The call whose question it ends with. */
  asked: string | null;
};

class Conversation {
  readonly #done: { readonly id: string; readonly role: UiMessage["role"]; readonly parts: UiPart[] }[] = [];
  readonly #ids = new Set<string>();
  /** Where each call stands that was made; the newest of an id. */
  readonly #calls = new Map<string, { readonly parts: UiPart[]; readonly at: number }>();
  #draft: Draft | null = null;
  /** Messages of the user that nobody has answered yet. */
  #said: { readonly message: UserMessage; readonly index: number }[] = [];

  readonly #opts: JsonObject;

  constructor(opts: JsonObject) {
    this.#opts = opts;
  }

  take(message: Message, index: number): void {
    switch (message.role) {
      case "user":
        this.#said.push({ message, index });
        break;
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

  /** Calls that wait, or whose decision has not come to anything yet. */
  wait(pending: readonly PendingToolCall[], lastTurn: string | null, index: number): void {
    for (const call of pending) {
      if (!this.#calls.has(call.id)) this.#call(call, lastTurn, this.#begun(lastTurn, index).parts);
      this.#setState(call.id, waitingState(call, lastTurn));
    }
  }

  end(): readonly UiMessage[] {
    const parts = this.#draft?.parts ?? [];
    const last = parts.at(-1);
    if (last?.type === "data-question" && this.#said.length === 0) {
      parts[parts.length - 1] = { ...last, data: { ...last.data, opts: this.#opts } };
    }
    this.#close();
    return this.#done;
  }

  #close(): void {
    this.#draft = null;
    for (const { message, index } of this.#said) {
      const parts = saidParts(message.content);
      this.#add(message.id ?? `message-${index}`, "user", parts.length === 0 ? [...saidParts("")] : [...parts], index);
    }
    this.#said = [];
  }

  #add(wanted: string, role: UiMessage["role"], parts: UiPart[], index: number): string {
    const id = this.#ids.has(wanted) ? `message-${index}` : wanted;
    this.#ids.add(id);
    this.#done.push({ id, role, parts });
    return id;
  }

  /** The message that is being put together; a new one where there is none. */
  #begun(turn: string | null, index: number): Draft {
    const draft = this.#draft;
    const goesOn = draft !== null && (this.#said.length === 0 || (turn !== null && draft.turn === turn));
    if (draft !== null && goesOn) {
      for (const { message, index } of this.#said) {
        const id = message.id ?? `message-${index}`;
        draft.parts.push({ type: "steering-message", id, parts: saidParts(message.content) });
      }
      this.#said = [];
      draft.turn = turn ?? draft.turn;
      return draft;
    }
    this.#close();
    const parts: UiPart[] = [];
    const id = this.#add(turn ?? `message-${index}`, "assistant", parts, index);
    const begun: Draft = { id, parts, turn, asked: null };
    this.#draft = begun;
    return begun;
  }

  #reply(message: AssistantMessage, index: number): void {
    // Whatever answered a question, it is not in the same message.
    if (this.#draft !== null && this.#draft.asked !== null) this.#draft = null;
    const turn = turnOf(message);
    const { parts } = this.#begun(turn, index);
    parts.push({ type: "step-start" });
    const calls = new Map(message.toolCalls.map((call) => [call.id, call]));
    const prefix = message.id?.replace(/\/reply$/, "") ?? `message-${index}`;
    let thoughts = 0;
    for (const part of normalizeContent(message.content)) {
      switch (part.type) {
        case "text":
          if (part.text !== "") parts.push({ type: "text", text: part.text, state: "done" });
          break;
        case "reasoning":
          if (part.text === "") break;
          parts.push({ type: "reasoning", id: `${prefix}/reasoning/${thoughts}`, text: part.text, state: "done" });
          thoughts += 1;
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
          if (call !== undefined) this.#call(call, turn, parts, part.providerExecuted !== null);
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
    for (const call of calls.values()) this.#call(call, turn, parts);
  }

  #question(message: AssistantMessage, index: number): void {
    if (this.#draft !== null && this.#draft.asked !== null) this.#draft = null;
    const draft = this.#begun(turnOf(message), index);
    const { toolCallId: named } = message.metadata;
    const toolCallId = typeof named === "string" ? named : "";
    draft.asked = toolCallId;
    const id = `${turnOf(message) ?? `message-${index}`}/${toolCallId}`;
    const data = { toolCallId, question: messageText(message), opts: {} };
    draft.parts.push({ type: "data-question", id, data });
  }

  #answer(message: ToolMessage, index: number): void {
    const result = resultOfMessage(message);
    const turn = turnOf(message) ?? this.#draft?.turn ?? "";
    if (result !== null)
      this.#setState(message.toolCallId, settledState(result, `${turn}:denied:${message.toolCallId}`));
    // A turn names the answers it gives; one without a name was said by somebody.
    if (message.id !== null || this.#draft?.asked !== message.toolCallId) return;
    this.#close();
    this.#add(`message-${index}`, "user", [...saidParts(messageText(message))], index);
  }

  #call(call: ToolCall, turn: string | null, parts: UiPart[], providerExecuted = false): void {
    const { id, name, arguments: args, rawArguments } = call;
    const part: UiToolPart = {
      type: `tool-${name}`,
      toolCallId: id,
      ...(turn === null ? {} : { toolMetadata: { turnId: turn } }),
      ...(providerExecuted ? { providerExecuted } : {}),
      state: "input-available",
      input: args ?? rawArguments ?? {},
    };
    this.#calls.set(id, { parts, at: parts.push(part) - 1 });
  }

  #setState(toolCallId: string, state: UiToolState): void {
    const place = this.#calls.get(toolCallId);
    const part = place?.parts[place.at];
    if (place === undefined || part === undefined || !isToolPart(part)) return;
    const { type, toolMetadata, providerExecuted, input } = part;
    place.parts[place.at] = {
      type,
      toolCallId,
      ...(toolMetadata === undefined ? {} : { toolMetadata }),
      ...(providerExecuted === undefined ? {} : { providerExecuted }),
      input,
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

function waitingState(call: PendingToolCall, lastTurn: string | null): UiToolState {
  const approval = approvalOf(lastTurn, call);
  const { decision, reason } = call;
  if (decision === null) {
    const asks = reason === "approval" || reason === "outcome_unknown";
    return asks ? { state: "approval-requested", approval } : { state: "input-available" };
  }
  switch (decision.type) {
    case "approve":
      return { state: "approval-responded", approval: { ...approval, approved: true } };
    case "deny":
      return deniedState({ id: approvalIdOf(lastTurn, call) }, decision.reason);
    // What was said is for a call inside; the tool itself is run again.
    case "forward":
      return { state: "approval-responded", approval: { ...approval, approved: decision.answer.type !== "deny" } };
  }
}
