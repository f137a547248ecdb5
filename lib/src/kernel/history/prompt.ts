// History as a model gets to read it. History itself never changes: this is a view, made anew for each request and the same every
// time (K6). A message that needs no change is handed on as it is, so whoever encodes it can remember what it encoded by identity.
//
//   - What the runtime says (a system message with an origin) and what happened (role `event`) are marked as such; the caller's own
//     system messages are handed on unmarked, parts joined as paragraphs.
//   - Pruned content shows the mark its pruning left.
//   - Reasoning goes back only with the data its provider wants to see again, and never as text.
//   - Results stand at their calls, in call order, wherever in history they were written down (Q4).

import type {
  AssistantMessage,
  Message,
  Part,
  TextPart,
  ToolMessage,
  ToolResultPart,
  UserPart,
} from "../../model/internal.ts";
import type { SharedList } from "./shared-list.ts";

import { system, textPart, toolResultPart, user, visibleText } from "../../model/internal.ts";

/**
 * Returns the messages of a request from the messages of a history: late tool results are moved to their calls,
 * and pruned parts are rendered as their replacement.
 */
export function renderPrompt(history: readonly Message[]): readonly Message[] {
  const shown: Message[] = [];
  for (const message of isInPlace(history) ? history : placeResults(history)) {
    const seen = rendered(message);
    if (seen !== null) shown.push(seen);
  }
  return shown;
}

/**
 * The same for a list that only grows, at the cost of what is new: what was worked out for its beginning is remembered. A list whose results do not
 * all stand at their calls is worked out as a whole.
 */
export function renderHistory({ entries, length }: SharedList<Message>): readonly Message[] {
  const known = beginnings.get(entries) ?? { upTo: 0, shown: [] };
  if (known.upTo > length) return renderPrompt(entries.slice(0, length));
  let { upTo } = known;
  while (upTo < length) {
    const next = endOfExchange(entries, upTo, length);
    if (next === null) return renderPrompt(entries.slice(0, length));
    for (; upTo < next; upTo += 1) {
      const message = entries[upTo];
      const seen = message === undefined ? null : rendered(message);
      if (seen !== null) known.shown.push(seen);
    }
    known.upTo = upTo;
  }
  beginnings.set(entries, known);
  return known.shown;
}

// By the entries that lists share: what stands before the end of a list never changes.
const beginnings = new WeakMap<readonly Message[], { upTo: number; readonly shown: Message[] }>();

/** The place behind a message and the answers to its calls; `null` when those do not stand right behind it, in their order. */
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

/** Does every result stand right behind its reply, in call order? Nearly always, and then there is nothing to move. */
function isInPlace(history: readonly Message[]): boolean {
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

// Rendering is asked for the whole history at every step: each message is worked out once.
const memory = new WeakMap<Message, { readonly shown: Message | null }>();

function rendered(message: Message): Message | null {
  const known = memory.get(message);
  if (known !== undefined) return known.shown;
  const shown = render(message);
  memory.set(message, { shown });
  return shown;
}

/** The message as a model sees it; `null` when there is nothing left to see. */
function render(message: Message): Message | null {
  switch (message.role) {
    case "user":
      return renderContent(message, message.content);
    case "tool":
      return renderContent(message, message.content) ?? { ...message, content: "" };
    case "assistant":
      return renderAssistant(message);
    case "system": {
      const text = runtimeText(message.content);
      if (text === "") return null;
      if (message.origin !== null) return system(`Runtime note:\n${text}`);
      return text === message.content ? message : { ...message, content: text };
    }
    case "event": {
      const text = runtimeText(message.content);
      return text === "" ? null : user(`Runtime event:\n${text}`);
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

/** The part as it may be seen: pruned content is replaced by the mark it left, and nothing of it goes back to its provider. */
function visiblePart<P extends Part>(part: P): P | TextPart | ToolResultPart {
  if (!("pruneState" in part) || part.pruneState === null) return part;
  const mark = visibleText(part.type === "text" ? part.text : "", part.pruneState);
  return part.type === "tool_result"
    ? toolResultPart(part.toolCallId, mark, { isError: part.isError })
    : textPart(mark);
}

/** Blank text says nothing unless its provider wants it back, and reasoning without what its provider wants back cannot be sent. */
function isVisible(part: Part): boolean {
  if (part.type === "text") return part.text.trim() !== "" || part.provider !== null;
  return part.type !== "reasoning" || part.provider !== null;
}

function sameParts(left: readonly Part[], right: readonly Part[]): boolean {
  return left.length === right.length && left.every((part, index) => part === right[index]);
}

/** Notices are one text, with output and errors in tags of their own. */
function runtimeText(content: string | readonly TextPart[]): string {
  if (typeof content === "string") return content.trim() === "" ? "" : content;
  return content
    .map(({ text, kind, pruneState }) => tagged(visibleText(text, pruneState), kind))
    .filter((text) => text.trim() !== "")
    .join("\n\n");
}

function tagged(text: string, kind: TextPart["kind"]): string {
  if (text.trim() === "" || (kind !== "output" && kind !== "error")) return text;
  return `<${kind}>\n${text}\n</${kind}>`;
}

/** Moves every result to its call. Ids repeat across replies, so a result belongs to the oldest open call of its id. */
function placeResults(history: readonly Message[]): readonly Message[] {
  const open = new Map<string, { readonly places: (readonly [reply: number, slot: number])[]; next: number }>();
  const answers = new Map<number, (ToolMessage | null)[]>();
  const moved = new Set<number>();
  for (const [index, message] of history.entries()) {
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
    moved.add(index);
  }
  if (moved.size === 0) return history;
  return history.flatMap((message, index): readonly Message[] => {
    if (moved.has(index)) return [];
    return [message, ...(answers.get(index) ?? []).filter((result) => result !== null)];
  });
}
