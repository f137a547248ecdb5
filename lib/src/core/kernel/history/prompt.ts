// Renders a history as the messages of a request. The history does not change: this is a view, computed for each
// request, and deterministic (K6). A message that needs no change is passed through as the same object, so that codecs
// can cache encodings by identity.
//
//   - System messages with an origin (written by the runtime) get the prefix "Runtime note:", messages with the role
//     `event` become user messages with "Runtime event:". System messages of the caller get no prefix; their parts are
//     joined as paragraphs.
//   - Pruned content is replaced by the marker that the pruning left.
//   - Reasoning is sent only with the provider's replay data (signature, encrypted content), never as plain text (W4).
//   - Tool results are placed directly after their reply, in call order, wherever they are in the history (Q4):
//     providers reject other orders.
//   - A question whose answer became the result of its call (`answerAs: "tool_result"`) is left out. The result is
//     placed before it, so the request would end with the question, and the model would continue it.
//   - A view (`HistoryView`) begins after the messages that a frame stands for, and contains long tool results
//     shortened to their head and tail.
//
// Cost: each message is rendered once (`renderCache`), and a growing history is rendered incrementally
// (`renderedPrefixes`), so a step costs what is new in it (H5).

import type {
  AssistantMessage,
  Message,
  Part,
  PruneState,
  SystemMessage,
  TextPart,
  ToolMessage,
  ToolResultPart,
  UserMessage,
  UserPart,
} from "../../model/internal.ts";
import type { SharedList } from "./shared-list.ts";

import { system, textPart, toolResultPart, truncateMiddle, user, textOrPlaceholder } from "../../model/internal.ts";

/**
 * Returns the messages of a request from the messages of a history: late tool results are moved to their calls,
 * and pruned parts are rendered as their replacement.
 */
export function renderPrompt(history: readonly Message[]): readonly Message[] {
  const messages: Message[] = [];
  for (const message of areResultsInPlace(history) ? history : placeResults(history)) {
    const rendered = renderOnce(message);
    if (rendered !== null) messages.push(rendered);
  }
  return messages;
}

/** Which part of a history a request contains, and which results it contains shortened. */
export type HistoryView = {
  /** The position of the first message. No result from here on may answer a call before it. */
  readonly from: number;
  /** Results before this position have at most `keep` characters. */
  readonly prunedBefore: number;
  readonly keep: number;
  /** The greatest length of any other result, in characters. */
  readonly longest: number;
};

/** All of a history, as it is. */
export const wholeView: HistoryView = { from: 0, prunedBefore: 0, keep: 0, longest: Number.POSITIVE_INFINITY };

/**
 * Like {@link renderPrompt} for an append-only list, at the cost of the new messages: the rendered prefix is cached by
 * the shared array, for one view. A list with a result that is not directly after its reply is rendered as a whole.
 */
export function renderHistory(
  { entries, length }: SharedList<Message>,
  view: HistoryView = wholeView,
): readonly Message[] {
  const cached = renderedPrefixes.get(entries);
  const isUsable = cached !== undefined && isSameView(cached.view, view);
  const prefix = isUsable ? cached : { view, upTo: view.from, messages: [] };
  if (prefix.upTo > length) return renderPrompt(viewedMessages(entries, length, view));
  let { upTo } = prefix;
  while (upTo < length) {
    const next = endOfExchange(entries, upTo, length);
    if (next === null) return renderPrompt(viewedMessages(entries, length, view));
    for (; upTo < next; upTo += 1) {
      const message = entries[upTo];
      const rendered = message === undefined ? null : renderOnce(viewed(message, upTo, view));
      if (rendered !== null) prefix.messages.push(rendered);
    }
    prefix.upTo = upTo;
  }
  renderedPrefixes.set(entries, prefix);
  return prefix.messages;
}

// By the array that versions of a list share: items before the end of a list never change.
const renderedPrefixes = new WeakMap<
  readonly Message[],
  { readonly view: HistoryView; upTo: number; readonly messages: Message[] }
>();

function isSameView(left: HistoryView, right: HistoryView): boolean {
  return (
    left === right ||
    (left.from === right.from &&
      left.prunedBefore === right.prunedBefore &&
      left.keep === right.keep &&
      left.longest === right.longest)
  );
}

/** The messages of a view, each with the length of its results that the view allows. */
export function viewedMessages(entries: readonly Message[], length: number, view: HistoryView): readonly Message[] {
  return entries.slice(view.from, length).map((message, index) => viewed(message, view.from + index, view));
}

/** A message as a view contains it. */
export function viewed(message: Message, index: number, { prunedBefore, keep, longest }: HistoryView): Message {
  if (message.role !== "tool") return message;
  return shortenedResult(message, index < prunedBefore ? Math.min(keep, longest) : longest);
}

// The newest shortened form of each result. A message that is sent again is the same object.
const shortenedResults = new WeakMap<ToolMessage, { readonly limit: number; readonly result: ToolMessage }>();

/**
 * The head and the tail of a result with more than `limit` characters; media of a result that is shortened are left
 * out. The result itself if it is short enough.
 */
function shortenedResult(message: ToolMessage, limit: number): ToolMessage {
  if (limit === Number.POSITIVE_INFINITY) return message;
  const { content } = message;
  if (typeof content === "string" && content.length <= limit) return message;
  const cached = shortenedResults.get(message);
  if (cached?.limit === limit) return cached.result;
  const shortContent = typeof content === "string" ? truncateMiddle(content, limit) : shortenedParts(content, limit);
  const result = shortContent === content ? message : { ...message, content: shortContent };
  shortenedResults.set(message, { limit, result });
  return result;
}

function shortenedParts(parts: readonly UserPart[], limit: number): readonly UserPart[] {
  const length = parts.reduce((sum, part) => sum + (part.type === "text" ? part.text.length : mediaLength), 0);
  if (length <= limit) return parts;
  const share = Math.max(1, Math.floor(limit / parts.length));
  return parts.map((part) =>
    part.type === "text" ? { ...part, text: truncateMiddle(part.text, share) } : textPart(`[${part.type} left out]`),
  );
}

/** The length that an image or a file counts as, in characters. */
const mediaLength = 6_000;

/**
 * The index after a message and the answers to its calls; `null` if the answers do not follow directly, in call order.
 */
function endOfExchange(entries: readonly Message[], index: number, length: number): number | null {
  const message = entries[index];
  if (message?.role === "tool") return null;
  if (message?.role !== "assistant") return index + 1;
  const end = index + 1 + message.toolCalls.length;
  if (end > length) return null;
  const inOrder = message.toolCalls.every(({ id }, slot) => {
    const answer = entries[index + 1 + slot];
    return answer?.role === "tool" && answer.toolCallId === id;
  });
  return inOrder ? end : null;
}

/** Does every result follow its reply directly, in call order? This is the common case, and nothing has to be moved. */
function areResultsInPlace(history: readonly Message[]): boolean {
  for (let index = 0; index < history.length; index += 1) {
    const message = history[index];
    if (message?.role === "tool") return false;
    if (message?.role !== "assistant") continue;
    for (const { id } of message.toolCalls) {
      const answer = history[index + 1];
      if (answer?.role !== "tool" || answer.toolCallId !== id) return false;
      index += 1;
    }
  }
  return true;
}

/** Does the model read anything of the message? True for the messages that {@link renderPrompt} keeps. */
export function isShown({ role, content }: UserMessage | SystemMessage): boolean {
  if (typeof content === "string") return content.trim() !== "";
  const parts: readonly Part[] = content;
  return parts.some((part) => isPruned(part) || (role === "user" ? isVisible(part) : !isBlank(part)));
}

// The rendered form of each message. A request contains the whole history at every step; without the cache a turn would
// render quadratically.
const renderCache = new WeakMap<Message, { readonly rendered: Message | null }>();

function renderOnce(message: Message): Message | null {
  const cached = renderCache.get(message);
  if (cached !== undefined) return cached.rendered;
  const rendered = render(message);
  renderCache.set(message, { rendered });
  return rendered;
}

/**
 * The message as the model reads it; `null` if nothing of it is visible. A tool message is kept even if empty, because
 * its call needs an answer.
 */
function render(message: Message): Message | null {
  switch (message.role) {
    case "user":
      // The handler or the cell that asked has read the answer.
      return message.metadata["askUserAnswer"] === true ? null : renderContent(message, message.content);
    case "tool":
      return renderContent(message, message.content) ?? { ...message, content: "" };
    case "assistant":
      return renderAssistant(message);
    case "system": {
      const text = runtimeText(message.content);
      if (text === "") return null;
      // The origin is kept: a codec whose API has no system messages inside of the conversation sends notes of the
      // runtime in their place.
      if (message.origin !== null)
        return system(`Runtime note:\n${text}`, { ...messageOptions(message), origin: message.origin });
      if (hasPartOptions(message.content))
        return { ...message, content: message.content.map(taggedPart).filter(isVisible) };
      return text === message.content ? message : { ...message, content: text };
    }
    case "event": {
      const text = runtimeText(message.content);
      return text === "" ? null : user(`Runtime event:\n${text}`, messageOptions(message));
    }
  }
}

function renderContent<M extends Extract<Message, { role: "user" | "tool" }>>(
  message: M,
  content: string | readonly UserPart[],
): M | null {
  if (typeof content === "string") return content.trim() === "" ? null : message;
  const parts = content.map(visiblePart).filter(isVisible);
  if (parts.length === 0) return null;
  return sameParts(parts, content) ? message : { ...message, content: parts };
}

function renderAssistant(message: AssistantMessage): AssistantMessage | null {
  const { content, toolCalls } = message;
  if (typeof content === "string") return content.trim() === "" && toolCalls.length === 0 ? null : message;
  const parts = content.map(visiblePart).filter(isVisible);
  if (parts.length === 0 && toolCalls.length === 0) return null;
  return sameParts(parts, content) ? message : { ...message, content: parts };
}

/**
 * The part as the model reads it: pruned content is replaced by its marker, without the replay data of its provider.
 */
function visiblePart<P extends Part>(part: P): P | TextPart | ToolResultPart {
  if (!isPruned(part)) return part;
  const mark = textOrPlaceholder(part.type === "text" ? part.text : "", part.pruneState);
  return part.type === "tool_result"
    ? toolResultPart(part.toolCallId, mark, { isError: part.isError })
    : textPart(mark);
}

/** The content of the part is replaced by a marker, which is never blank. */
function isPruned(part: Part): part is PrunedPart {
  return "pruneState" in part && part.pruneState !== null;
}

type PrunedPart = Extract<Part, { readonly pruneState: PruneState | null }> & { readonly pruneState: PruneState };

function isBlank(part: Part): boolean {
  return part.type === "text" && part.text.trim() === "";
}

/**
 * Blank text is dropped unless it carries replay data of its provider; reasoning without replay data cannot be sent.
 */
function isVisible(part: Part): boolean {
  if (part.type === "text") return !isBlank(part) || part.provider !== null;
  return part.type !== "reasoning" || part.provider !== null;
}

function sameParts(left: readonly Part[], right: readonly Part[]): boolean {
  return left.length === right.length && left.every((part, index) => part === right[index]);
}

/** The text of a runtime message: its parts as paragraphs, output and errors in tags (`<output>`, `<error>`). */
function runtimeText(content: string | readonly TextPart[]): string {
  if (typeof content === "string") return content.trim() === "" ? "" : content;
  return content
    .map(({ text, kind, pruneState }) => tagged(textOrPlaceholder(text, pruneState), kind))
    .filter((text) => text.trim() !== "")
    .join("\n\n");
}

/** Parts with provider options stay separate, because the options belong to one part. */
function hasPartOptions(content: string | readonly TextPart[]): content is readonly TextPart[] {
  return typeof content !== "string" && content.some(({ providerOptions }) => providerOptions !== undefined);
}

function taggedPart(part: TextPart): TextPart {
  return { ...part, text: tagged(textOrPlaceholder(part.text, part.pruneState), part.kind), pruneState: null };
}

function messageOptions({ providerOptions }: Message): Pick<Message, "providerOptions"> {
  return providerOptions === undefined ? {} : { providerOptions };
}

function tagged(text: string, kind: TextPart["kind"]): string {
  if (text.trim() === "" || (kind !== "output" && kind !== "error")) return text;
  return `<${kind}>\n${text}\n</${kind}>`;
}

/**
 * Moves every result to its call, and removes the questions that were answered by these results. Ids can repeat across
 * replies, so a result belongs to the oldest unanswered call with its id. Linear.
 */
function placeResults(history: readonly Message[]): readonly Message[] {
  const open = new Map<string, { readonly places: (readonly [reply: number, slot: number])[]; next: number }>();
  const answers = new Map<number, (ToolMessage | null)[]>();
  const removed = new Set<number>();
  /** The questions of each call, by call id. */
  const asked = new Map<string, readonly number[]>();
  for (const [index, message] of history.entries()) {
    const { askUser, toolCallId } = message.metadata;
    if (askUser === true && typeof toolCallId === "string")
      asked.set(toolCallId, [...(asked.get(toolCallId) ?? []), index]);
    if (message.role === "assistant" && message.toolCalls.length > 0) {
      const slots: (ToolMessage | null)[] = [];
      for (const [slot, { id }] of message.toolCalls.entries()) {
        slots.push(null);
        const calls = open.get(id) ?? { places: [], next: 0 };
        calls.places.push([index, slot]);
        open.set(id, calls);
      }
      answers.set(index, slots);
    }
    const calls = message.role === "tool" ? open.get(message.toolCallId) : undefined;
    const place = calls?.places[calls.next];
    if (message.role !== "tool" || calls === undefined || place === undefined) continue;
    calls.next += 1;
    answers.get(place[0])?.splice(place[1], 1, message);
    removed.add(index);
    // A question that precedes the result of its call was answered by it. A question whose answer is a user message
    // follows a placeholder.
    for (const question of asked.get(message.toolCallId) ?? []) if (question > place[0]) removed.add(question);
    asked.delete(message.toolCallId);
  }
  if (removed.size === 0) return history;
  return history.flatMap((message, index): readonly Message[] => {
    if (removed.has(index)) return [];
    return [message, ...(answers.get(index) ?? []).filter((result) => result !== null)];
  });
}
