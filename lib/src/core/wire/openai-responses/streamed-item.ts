// The state of one output item while its events arrive: its texts so far, its arguments, and events that are held back.
//
// `decode.ts` creates one `StreamedItem` for each item and finds it again for later events. This file holds the
// operations on one item: emit or hold an event, assemble the item from its deltas if the stream never completes it,
// and compute the deltas that a complete item has beyond those received.

import type { Json, JsonObject, ModelEvent } from "../../model/internal.ts";
import type { ReplyBuilder } from "../reply-builder.ts";
import type { Status } from "./items.ts";

import { objectsAt, textAt } from "../fields.ts";
import { isProgramCall, paragraphSeparator, reasoningText, nonEmptyTextAt } from "./items.ts";

/** One text or refusal of a message item while its deltas arrive. */
type StreamedText = {
  text: string;
  readonly refusal: boolean;
  readonly annotations: Json[];
  readonly logprobs: Json[];
};

/** One item of a streamed response. */
export type StreamedItem = {
  /** The key of the item in the builder: its position in the order of arrival. */
  readonly key: string;
  readonly index: number | null;
  readonly item: JsonObject;
  readonly texts: Map<number, StreamedText>;
  readonly summary: Map<number, string>;
  readonly reasoningTexts: Map<number, string>;
  argumentsText: string;
  isArgumentsComplete: boolean;
  completed: JsonObject | null;
  /** Events that wait until all items of a lower index have started; `null`: events are emitted at once. */
  heldEvents: ModelEvent[] | null;
};

/** Emits an event of an item, or holds it while the item waits for items of a lower index. */
export function emitOrHold(state: StreamedItem, event: ModelEvent | null, out: ModelEvent[]): void {
  if (event !== null) (state.heldEvents ?? out).push(event);
}

/** Emits the held events of these items, in the order of `output_index`. */
export function releaseHeld(items: readonly StreamedItem[], out: ModelEvent[]): void {
  for (const state of byOutputIndex(items)) {
    for (const event of state.heldEvents ?? []) out.push(event);
    state.heldEvents = null;
  }
}

/**
 * Identifies a call by `output_index` and `call_id`, for servers that change the item id from event to event. `null`:
 * the item is no call with an id.
 */
export function callKey(item: JsonObject, index: number | null): string | null {
  const id = isProgramCall(item) ? nonEmptyTextAt(item, "call_id") : null;
  return id === null ? null : `${index ?? ""}:${id}`;
}

/**
 * The state if its item has the same type, otherwise `null`: an id or index that a server reused for another type is no
 * match.
 */
export function ifSameType(item: JsonObject, state: StreamedItem | undefined): StreamedItem | null {
  return state !== undefined && textAt(state.item, "type") === textAt(item, "type") ? state : null;
}

/** Appends to a list of a map and creates the list if needed. */
export function appendToList<K>(lists: Map<K, StreamedItem[]>, key: K, state: StreamedItem): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [state]);
  else list.push(state);
}

/** The place of an item in the reply: its `output_index`, or its place in the order of arrival. */
export function placeOf({ index, key }: StreamedItem): number {
  return index ?? Number(key);
}

/** The items sorted by `output_index`. */
export function byOutputIndex(states: readonly StreamedItem[]): readonly StreamedItem[] {
  return states.toSorted((left, right) => (left.index ?? 0) - (right.index ?? 0));
}

/** The text at a `content_index`; created empty if needed. */
export function textPartAt(state: StreamedItem, at: number, refusal: boolean): StreamedText {
  const existing = state.texts.get(at);
  if (existing !== undefined) return existing;
  const created = { text: "", refusal, annotations: [], logprobs: [] };
  state.texts.set(at, created);
  return created;
}

/**
 * Builds an item that has no `output_item.done` from its deltas. Its status is `completed` only if the response
 * completed or its arguments are complete.
 */
export function assembleItem(state: StreamedItem, status: Status): JsonObject {
  const { item, texts, summary, reasoningTexts, argumentsText, isArgumentsComplete } = state;
  const isComplete = status === "completed" || isArgumentsComplete;
  switch (textAt(item, "type")) {
    case "message": {
      if (texts.size === 0) return item;
      const content = sortedByIndex(texts).map(({ text, refusal, annotations, logprobs }) =>
        refusal ? { type: "refusal", refusal: text } : { type: "output_text", text, annotations, logprobs },
      );
      return { ...item, status: isComplete ? "completed" : "incomplete", content };
    }
    case "reasoning": {
      if (summary.size + reasoningTexts.size === 0) return item;
      const summaryParts = sortedByIndex(summary).map((text) => ({ type: "summary_text", text }));
      const content = sortedByIndex(reasoningTexts).map((text) => ({ type: "reasoning_text", text }));
      return { ...item, summary: summaryParts, ...(content.length === 0 ? {} : { content }) };
    }
    case "function_call":
      return {
        ...item,
        status: isComplete ? "completed" : "incomplete",
        arguments: argumentsText === "" ? (item["arguments"] ?? "") : argumentsText,
      };
    case "custom_tool_call":
      return {
        ...item,
        status: isComplete ? "completed" : "incomplete",
        input: argumentsText === "" ? (item["input"] ?? "") : argumentsText,
      };
    case "mcp_call":
      return { ...item, arguments: argumentsText };
    default:
      return item;
  }
}

function sortedByIndex<T>(parts: ReadonlyMap<number, T>): readonly T[] {
  return [...parts].toSorted(([left], [right]) => left - right).map(([, part]) => part);
}

/** The deltas that are missing when a complete item is read after a part of its deltas (background responses). */
export function missingDeltas(builder: ReplyBuilder, state: StreamedItem, item: JsonObject): readonly ModelEvent[] {
  const { key, texts, summary, reasoningTexts, argumentsText } = state;
  switch (textAt(item, "type")) {
    case "message":
      return objectsAt(item, "content").flatMap((part, at) => {
        const kind = textAt(part, "type") === "refusal" ? "refusal" : "text";
        const suffix = suffixAfter(textAt(part, kind), texts.get(at)?.text ?? "");
        return suffix === "" ? [] : [builder.text(`${key}.${at}`, suffix, kind)];
      });
    case "reasoning": {
      const receivedText = sortedByIndex(summary.size > 0 ? summary : reasoningTexts).join(paragraphSeparator);
      const suffix = suffixAfter(reasoningText(item), receivedText);
      return suffix === "" ? [] : [builder.reasoning(key, suffix)];
    }
    case "function_call":
    case "custom_tool_call": {
      const suffix = suffixAfter(textAt(item, "arguments") ?? textAt(item, "input"), argumentsText);
      const delta = suffix === "" ? null : builder.appendArguments(key, suffix);
      return delta === null ? [] : [delta];
    }
    default:
      return [];
  }
}

/** The text after the prefix; empty if the text does not start with it. */
function suffixAfter(text: string | null, prefix: string): string {
  return text?.startsWith(prefix) === true ? text.slice(prefix.length) : "";
}
