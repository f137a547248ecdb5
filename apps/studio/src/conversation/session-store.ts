// The state of a conversation: messages that are committed, in pages, and the open turn, which is built from its
// events. Pure: `use-conversation.ts` reads the server and calls these functions; the tests call them without a
// browser.
//
// Theory of operation
//   Committed messages are addressed by their index in the session, `0` to `length - 1`. Any page of them may be
//   missing and is read when it comes into view. The events of the open turn become items after them: replies, input
//   that was accepted, retries, discarded attempts, failures. The feed folds the events with a `TurnView`; this file
//   places what they changed (`SeenEvent`). When the turn has ended, the head of the session has the new length, and
//   once the messages up to that length are loaded, `settle` drops the items. What the messages do not contain, the
//   discarded text and the durations of tool calls, is kept beside them.
//
// Invariants
//   1. An event changes the state once: the feed hands out events in order, each once.
//   2. The text of a discarded attempt stays visible until the reply that replaces it is complete (`isReplaced`).
//   3. A delta costs the same whatever came before it (open-text.ts).

import type { SeenEvent } from "../data/session-events.ts";
import type { PendingCall, SessionView } from "../data/types.ts";
import type { OpenText } from "./open-text.ts";
import type { Failure, Message, ToolMessage, TurnEvent, Warning } from "everturn";
import type { TurnCall, TurnChange } from "everturn/advanced";

import { appendText, emptyText, wholeText } from "./open-text.ts";

/** A conversation. */
export type ConversationState = {
  readonly sessionId: string;
  /** The session without messages; `null`: not read yet. */
  readonly head: SessionView | null;
  /** The number of committed messages that are shown. It follows `head.length` once the new messages are loaded. */
  readonly length: number;
  /** Loaded messages by their index. A new map is made when messages are added. */
  readonly messages: ReadonlyMap<number, Message>;
  /** The open turn; `null`: none is open. */
  readonly turn: LiveTurn | null;
  /**
   * What is known about calls from events: state, progress, duration, answer, by {@link callKey}. Kept after the turn
   * has ended.
   */
  readonly calls: ReadonlyMap<string, TurnCall>;
  /** Notes by the index of the message that they precede, kept after their turn has ended. */
  readonly notes: ReadonlyMap<number, readonly LiveNote[]>;
  /**
   * Messages of this page that are not part of the conversation yet: the open turn accepts them between steps, or they
   * start a turn.
   */
  readonly steered: readonly Steered[];
};

/** A message that was sent. `isSent`: the server has stored it. */
type Steered = {
  readonly message: Message;
  readonly isSent: boolean;
  /** No turn was open when it was sent: it starts one, and is shown here until it is committed. */
  readonly startsTurn: boolean;
};

/** A turn as its events show it. */
type LiveTurn = {
  readonly turnId: string;
  /** The index of the first message that the turn adds. */
  readonly base: number;
  readonly items: readonly LiveItem[];
  readonly open: OpenReply | null;
  readonly compaction: LiveCompaction;
  readonly hasEnded: boolean;
};

/**
 * What an open turn does so that its requests fit. `running`: the messages that are being summarized, from `from` to
 * before `to`; `null`: none. `ended`: how many compactions of the turn have ended.
 */
type LiveCompaction = {
  readonly running: { readonly from: number; readonly to: number } | null;
  readonly ended: number;
};

/** One row of the open turn. `index` is the index that the message will have. */
export type LiveItem =
  | { readonly type: "message"; readonly index: number; readonly message: Message }
  | { readonly type: "note"; readonly index: number; readonly note: LiveNote };

/** Something that happened between two messages and is not a message. */
export type LiveNote =
  | {
      readonly type: "discarded";
      /**
       * `recovery`: a process died and another one continued. `retry`, `fallback`, `restart`: a new attempt was made.
       */
      readonly reason: "retry" | "fallback" | "recovery" | "restart";
      readonly text: string;
      /** The reply that replaces the text is complete. */
      readonly isReplaced: boolean;
      /** Which processes were involved, in words; `null`: not known. */
      readonly line: string | null;
    }
  | {
      readonly type: "retry";
      readonly failure: Failure;
      /** How long the next attempt had to wait, in milliseconds; `null`: it did not. */
      readonly delayMs: number | null;
      readonly attempt: number | null;
    }
  /** A process died and another one continued; no text was thrown away. */
  | { readonly type: "recovered"; readonly line: string }
  | { readonly type: "failure"; readonly failure: Failure }
  | { readonly type: "warning"; readonly warning: Warning };

/** A reply while it arrives. */
export type OpenReply = { readonly parts: readonly OpenPart[] };

type OpenPart =
  | { readonly type: "text" | "reasoning"; readonly key: string; readonly text: OpenText }
  /** `length`: the number of characters of the arguments that have arrived. */
  | { readonly type: "call"; readonly key: string; readonly name: string; readonly length: number };

/**
 * Identifies a call in the session: the index of the reply and the id of the call. The id alone does not: some
 * providers count calls from zero in each reply.
 */
export function callKey(reply: number, toolCallId: string): string {
  return `${reply}/${toolCallId}`;
}

export function emptyConversation(sessionId: string): ConversationState {
  return {
    sessionId,
    head: null,
    length: 0,
    messages: new Map(),
    turn: null,
    calls: new Map(),
    notes: new Map(),
    steered: [],
  };
}

/** A message is sent to the open turn, or to start one. */
export function withSteered(state: ConversationState, message: Message): ConversationState {
  const startsTurn = state.turn === null;
  return { ...state, steered: [...state.steered, { message, isSent: false, startsTurn }] };
}

/** The server has stored a message that was sent, or (`isSent: false`) has not. */
export function settleSteered(state: ConversationState, message: Message, isSent: boolean): ConversationState {
  const index = state.steered.findIndex((other) => other.message === message);
  if (index === -1) return state;
  const [sent] = state.steered.slice(index, index + 1);
  const steered =
    isSent && sent !== undefined ? state.steered.with(index, { ...sent, isSent }) : state.steered.toSpliced(index, 1);
  return { ...state, steered };
}

/**
 * The newest turn of the session that has ended; `null`: none. A fork of a whole session has the result of the last
 * turn of its original, whose timeline is stored with the original alone.
 */
export function lastTurnOf(head: ConversationState["head"]): string | null {
  if (head === null) return null;
  const { forkedFrom, length, session } = head;
  return forkedFrom !== null && length <= forkedFrom.at ? null : (session.lastRun?.turnId ?? null);
}

/**
 * The head of the session was read. Its first one says how many messages there are; later ones wait for `addMessages`.
 */
export function withHead(state: ConversationState, head: SessionView): ConversationState {
  const isFollowed = head.openTurn === null || head.openTurn.turnId === state.turn?.turnId;
  if (state.head !== null && isFollowed && isSameHead(state.head, head)) return state;
  const next = { ...state, head, length: state.head === null ? head.length : state.length };
  const open = head.openTurn;
  if (open !== null && (state.turn === null || state.turn.turnId !== open.turnId)) {
    // The messages that the turn was started with are committed with it.
    return settle(withOpenCalls({ ...next, turn: newTurn(open.turnId, head.length) }));
  }
  return settle(next);
}

/**
 * Whether nothing has changed between two reads. The version counts the changes of the session; the open turn changes
 * without them.
 */
function isSameHead(left: SessionView, right: SessionView): boolean {
  return (
    left.version === right.version &&
    left.length === right.length &&
    left.openTurn?.turnId === right.openTurn?.turnId &&
    left.openTurn?.status === right.openTurn?.status &&
    left.openTurn?.limitWait?.since === right.openTurn?.limitWait?.since &&
    left.queuedTurns.length === right.queuedTurns.length
  );
}

/** Committed messages were read: those from the index `from` on. */
export function addMessages(state: ConversationState, from: number, page: readonly Message[]): ConversationState {
  if (page.length === 0) return state;
  const messages = new Map(state.messages);
  let { steered } = state;
  for (const [offset, message] of page.entries()) {
    messages.set(from + offset, message);
    // A new message may be one that was shown while it was sent.
    if (from + offset >= state.length) steered = withoutFirst(steered, message);
  }
  return settle(withOpenCalls({ ...state, messages, steered }));
}

/**
 * The committed messages that have to be read before the end of the turn can be shown: the range `from` to `until`;
 * `null`: none.
 */
export function missingAtEnd({
  head,
  length,
}: ConversationState): { readonly from: number; readonly until: number } | null {
  return head === null || head.length <= length ? null : { from: length, until: head.length };
}

/** The index in place of that of a reply that is not loaded yet, see {@link withOpenCalls}. */
const unknownReply = -1;

/**
 * Adds what is known about the calls of the committed reply that the open turn continues: events that arrived before
 * the reply was loaded, and the arguments of approvals, which run in place of those of the model.
 */
function withOpenCalls(state: ConversationState): ConversationState {
  const { head, turn, calls } = state;
  if (turn === null || head === null) return state;
  const reply = replyIndex(state, turn.base, []);
  if (reply === unknownReply) return state;
  const next = new Map(calls);
  for (const [key, call] of calls) {
    const [index, ...id] = key.split("/");
    if (index !== `${unknownReply}`) continue;
    next.delete(key);
    next.set(callKey(reply, id.join("/")), call);
  }
  for (const { id, name, decision } of head.session.pendingToolCalls) {
    const approved = decision?.type === "approve" ? (decision.arguments ?? decision.prepared ?? null) : null;
    if (approved === null) continue;
    const call = next.get(callKey(reply, id)) ?? { ...unanswered, id, name, state: "called" };
    next.set(callKey(reply, id), { ...call, arguments: call.arguments ?? approved });
  }
  return { ...state, calls: next };
}

/**
 * Shows the committed messages instead of the items of the turn, once the turn has ended and its messages are loaded.
 */
function settle(state: ConversationState): ConversationState {
  const { head, turn, messages } = state;
  if (head === null) return state;
  const length = loadedUntil(messages, state.length, head.length);
  const isOver = turn !== null && head.openTurn?.turnId !== turn.turnId;
  if (!isOver || length < head.length) {
    // While a turn is open its messages are not committed, so more messages are those that the turn was started with.
    return turn === null || turn.base <= length ? { ...state, length } : state;
  }
  const notes = new Map(state.notes);
  for (const item of turn.items) {
    if (item.type === "note") {
      notes.set(item.index, [...(notes.get(item.index) ?? []), item.note]);
    }
  }
  const calls = new Map([...state.calls].filter(([key]) => !key.startsWith(`${unknownReply}/`)));
  return { ...state, length, turn: null, notes, calls, steered: [] };
}

function loadedUntil(messages: ReadonlyMap<number, Message>, from: number, until: number): number {
  let index = from;
  while (index < until && messages.has(index)) index += 1;
  return index;
}

function newTurn(turnId: string, base: number): LiveTurn {
  return { turnId, base, items: [], open: null, compaction: { running: null, ended: 0 }, hasEnded: false };
}

/**
 * A turn and the calls while a group of events is applied. Each list is copied at most once for a group, so a group
 * costs the number of its events.
 */
type Draft = {
  items: LiveItem[];
  calls: Map<string, TurnCall>;
  open: OpenReply | null;
  compaction: LiveCompaction;
  hasEnded: boolean;
  steered: readonly Steered[];
};

/** Applies events of a turn, in order. Events of a turn that is not open are ignored. */
export function withEvents(state: ConversationState, turnId: string, events: readonly SeenEvent[]): ConversationState {
  const { turn } = state;
  if (turn === null || turn.turnId !== turnId) return state;
  const isOnlyText = events.every(({ event }) => event.type === "text_delta" || event.type === "reasoning_delta");
  const draft: Draft = {
    ...turn,
    steered: state.steered,
    items: isOnlyText ? [] : [...turn.items],
    calls: isOnlyText ? new Map() : new Map(state.calls),
  };
  for (const { event, changes } of events) {
    if (event.type === "retry_scheduled") discardOpen(turn, draft, "retry");
    for (const change of changes) applyChange(state, turn, draft, change, event);
    if (event.type === "input_accepted") {
      for (const { message } of event.inputs) draft.steered = withoutFirst(draft.steered, message);
    }
    const item = itemOf(event);
    if (item !== null) addItems(turn, draft, item);
    if (event.type === "message_started") draft.open ??= { parts: [] };
    draft.compaction = compactionAfter(draft.compaction, event);
    if (event.type === "chat_completed") [draft.open, draft.hasEnded] = [null, true];
  }
  const { open, hasEnded } = draft;
  if (isOnlyText) return { ...state, turn: { ...turn, open } };
  const { calls, items, steered, compaction } = draft;
  return { ...state, calls, steered, turn: { ...turn, items, open, compaction, hasEnded } };
}

/** What an event changes of the compaction of a turn. */
function compactionAfter(compaction: LiveCompaction, event: TurnEvent): LiveCompaction {
  switch (event.type) {
    case "compaction_started":
      return { ...compaction, running: { from: event.from, to: event.to } };
    case "compaction_ended":
      return { running: null, ended: compaction.ended + 1 };
    case "chat_completed":
      return { ...compaction, running: null };
    default:
      return compaction;
  }
}

/** The messages without the first one that has the content of `accepted`. */
function withoutFirst(steered: readonly Steered[], accepted: Message): readonly Steered[] {
  const text = JSON.stringify(accepted.content);
  const index = steered.findIndex(({ message }) => JSON.stringify(message.content) === text);
  return index === -1 ? steered : steered.toSpliced(index, 1);
}

/** A row without its place. */
type NewItem =
  | { readonly type: "message"; readonly message: Message }
  | { readonly type: "note"; readonly note: LiveNote };

function addItems({ base }: LiveTurn, draft: Draft, items: readonly NewItem[]): void {
  for (const item of items) draft.items.push({ ...item, index: nextIndex(base, draft.items) });
}

/** The rows of an event that is not part of a reply or a call; `null`: it has none. */
function itemOf(event: TurnEvent): readonly NewItem[] | null {
  switch (event.type) {
    case "warning":
      return [{ type: "note", note: { type: "warning", warning: event.warning } }];
    case "error":
      return [{ type: "note", note: { type: "failure", failure: event.error } }];
    case "retry_scheduled": {
      const { error: failure, delayMs, attempt } = event;
      return [{ type: "note", note: { type: "retry", failure, delayMs, attempt: attempt?.n ?? null } }];
    }
    case "input_accepted":
      // Input that a turn was started with is committed with its start.
      return event.checkpoint === null ? null : event.inputs.map(({ message }) => ({ type: "message", message }));
    default:
      return null;
  }
}

function applyChange(
  state: ConversationState,
  turn: LiveTurn,
  draft: Draft,
  change: TurnChange,
  event: TurnEvent,
): void {
  const parts = draft.open?.parts ?? [];
  switch (change.type) {
    case "text":
    case "reasoning": {
      const { type, part: key, delta } = change;
      const position = parts.findIndex((part) => part.key === key);
      const existing = parts[position];
      const text = appendText(existing === undefined || existing.type === "call" ? emptyText : existing.text, delta);
      draft.open = {
        parts: position === -1 ? [...parts, { type, key, text }] : parts.with(position, { type, key, text }),
      };
      return;
    }
    case "call_started":
      draft.open = { parts: [...parts, { type: "call", key: change.id, name: change.name, length: 0 }] };
      return;
    case "arguments": {
      const position = parts.findIndex(({ key }) => key === change.id);
      const part = parts[position];
      if (part?.type !== "call") return;
      draft.open = { parts: parts.with(position, { ...part, length: part.length + change.delta.length }) };
      return;
    }
    case "call":
    case "part":
      return;
    case "reply":
      // The reply replaces the open one, and what was discarded before it.
      draft.open = null;
      draft.items = draft.items.map((item) =>
        item.type === "note" && item.note.type === "discarded" && !item.note.isReplaced
          ? { ...item, note: { ...item.note, isReplaced: true } }
          : item,
      );
      addItems(turn, draft, [{ type: "message", message: change.message }]);
      return;
    case "call_changed":
      draft.calls.set(callKey(replyIndex(state, turn.base, draft.items), change.call.id), change.call);
      return;
    case "discarded": {
      const { reply } = change;
      if (reply !== null) draft.items = draft.items.filter((item) => item.type !== "message" || item.message !== reply);
      if (event.type === "step_reset") discardOpen(turn, draft, event.reason);
      return;
    }
  }
}

/** The text of the open reply is discarded, because another attempt follows. */
function discardOpen(turn: LiveTurn, draft: Draft, reason: Extract<LiveNote, { type: "discarded" }>["reason"]): void {
  const parts = draft.open?.parts ?? [];
  const text = parts.reduce((whole, part) => (part.type === "text" ? whole + wholeText(part.text) : whole), "");
  draft.open = null;
  if (text === "" && reason !== "recovery") return;
  addItems(turn, draft, [{ type: "note", note: { type: "discarded", reason, text, isReplaced: false, line: null } }]);
}

/** The index of the next message of a turn: each reply is followed by one message for each of its calls. */
export function nextIndex(base: number, items: readonly LiveItem[]): number {
  const last = items.findLast((item) => item.type === "message");
  if (last === undefined) return base;
  return last.index + 1 + (last.message.role === "assistant" ? last.message.toolCalls.length : 0);
}

/**
 * The index of the reply whose calls are performed: the last one of the turn, or, in a turn that continues after an
 * answer, the last committed one.
 */
function replyIndex({ messages }: ConversationState, base: number, items: readonly LiveItem[]): number {
  const last = items.findLast((item) => item.type === "message" && item.message.role === "assistant");
  if (last !== undefined) return last.index;
  for (let index = base - 1; index >= 0; index -= 1) {
    const role = messages.get(index)?.role;
    if (role === "assistant") return index;
    if (role === undefined) break;
  }
  return unknownReply;
}

/** A call of which nothing is known but its state. */
export const unanswered: Omit<TurnCall, "id" | "name" | "state"> = {
  progress: null,
  durationMs: null,
  attempts: 0,
  arguments: null,
  answer: null,
};

/**
 * How far the answers of a reply, and the replies of waiting calls, are searched: a question is followed by the answers
 * of the other calls and one message.
 */
const maxSearched = 100;

/**
 * The answer to a call of a committed reply. Tool messages follow the reply; the answer to a question follows the
 * message that asks it. `null`: there is none, or it is not loaded.
 */
export function committedAnswer(
  { messages }: Pick<ConversationState, "messages">,
  reply: number,
  toolCallId: string,
): ToolMessage | null {
  let others = 0;
  for (let index = reply + 1; others < maxSearched; index += 1) {
    const message = messages.get(index);
    if (message === undefined) return null;
    if (message.role === "tool" && message.toolCallId === toolCallId) return message;
    // The calls of a later reply may have the same ids.
    if (message.role === "assistant" && message.toolCalls.length > 0) return null;
    if (message.role !== "tool") others += 1;
  }
  return null;
}

/** The calls that wait for a person and have no decision yet, by id. */
function waitingCalls(head: SessionView | null): ReadonlyMap<string, PendingCall> {
  const pending = head?.session.pendingToolCalls ?? [];
  return new Map(pending.filter(({ decision }) => decision === null).map((call) => [call.id, call]));
}

/** A call that waits, and the reply that made it. */
export type WaitingCall = {
  readonly pending: PendingCall;
  /** The index of the reply; `null`: the call is not one of a reply, for example that of a code cell. */
  readonly reply: number | null;
  /** Whether the reply is the last message, so that the form belongs into its card. */
  readonly isLast: boolean;
};

/** The calls that wait for a person, with their replies. While a turn is open nothing waits. */
export function waitingCallsOf(
  state: Pick<ConversationState, "head" | "messages" | "length" | "turn">,
): readonly WaitingCall[] {
  const { head, messages, length, turn } = state;
  if (turn !== null) return [];
  return [...waitingCalls(head).values()].flatMap((pending): readonly WaitingCall[] => {
    let isLast = true;
    for (let index = length - 1; index >= Math.max(0, length - maxSearched); index -= 1) {
      const message = messages.get(index);
      // The reply is not loaded yet. A form that is shown elsewhere until then would lose what was typed into it.
      if (message === undefined) return [];
      if (message.role === "tool") continue;
      if (message.role === "assistant" && message.toolCalls.some(({ id }) => id === pending.id)) {
        return [{ pending, reply: index, isLast }];
      }
      isLast = false;
    }
    return [{ pending, reply: null, isLast: false }];
  });
}
