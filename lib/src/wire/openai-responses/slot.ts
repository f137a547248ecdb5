// The items of a streamed response while they arrive: how one is found again, put together from its deltas, and completed.

import type { Json, JsonObject, ModelEvent } from "../../model/internal.ts";
import type { ReplyBuilder } from "../reply-builder.ts";
import type { Status } from "./items.ts";

import { objectsAt, textAt } from "../fields.ts";
import { isOurCall, paragraph, reasoningText, wordAt } from "./items.ts";

/** One item of a response as it arrives. */
export type Slot = {
  /** What events call it: its place in the order of arrival. */
  readonly key: string;
  readonly index: number | null;
  readonly item: JsonObject;
  readonly texts: Map<number, { text: string; refusal: boolean; readonly annotations: Json[] }>;
  readonly summary: Map<number, string>;
  readonly thoughts: Map<number, string>;
  raw: string;
  rawIsWhole: boolean;
  whole: JsonObject | null;
  /** Events that wait for items of a lower index; `null` when nothing has to. */
  held: ModelEvent[] | null;
};

/** Emits an event of an item, or holds it while the item waits for items of a lower index. */
export function tell(slot: Slot, event: ModelEvent | null, out: ModelEvent[]): void {
  if (event !== null) (slot.held ?? out).push(event);
}

/** Emits what these items have held. */
export function release(waited: readonly Slot[], out: ModelEvent[]): void {
  for (const slot of inOrder(waited)) {
    for (const event of slot.held ?? []) out.push(event);
    slot.held = null;
  }
}

/** What a call is known by where ids of items change: its own id, in its place. */
export function callKey(item: JsonObject, index: number | null): string | null {
  const id = isOurCall(item) ? wordAt(item, "call_id") : null;
  return id === null ? null : `${index ?? ""}:${id}`;
}

/** What an item is found as is of its type, whatever its names say. */
export function ofType(item: JsonObject, slot: Slot | undefined): Slot | null {
  return slot !== undefined && textAt(slot.item, "type") === textAt(item, "type") ? slot : null;
}

export function addTo<K>(lists: Map<K, Slot[]>, key: K, slot: Slot): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [slot]);
  else list.push(slot);
}

export function inOrder(slots: readonly Slot[]): readonly Slot[] {
  return slots.toSorted((left, right) => (left.index ?? 0) - (right.index ?? 0));
}

export function textOf(slot: Slot, at: number, refusal: boolean) {
  const known = slot.texts.get(at);
  if (known !== undefined) return known;
  const fresh = { text: "", refusal, annotations: [] };
  slot.texts.set(at, fresh);
  return fresh;
}

/** An item nobody ended, from what was heard of it. In a response that ended well it is whole. */
export function assembled(slot: Slot, status: Status): JsonObject {
  const { item, texts, summary, thoughts, raw, rawIsWhole } = slot;
  const isWhole = status === "completed" || rawIsWhole;
  switch (textAt(item, "type")) {
    case "message": {
      if (texts.size === 0) return item;
      const content = sorted(texts).map(({ text, refusal, annotations }) =>
        refusal ? { type: "refusal", refusal: text } : { type: "output_text", text, annotations },
      );
      return { ...item, status: isWhole ? "completed" : "incomplete", content };
    }
    case "reasoning": {
      if (summary.size + thoughts.size === 0) return item;
      const said = sorted(summary).map((text) => ({ type: "summary_text", text }));
      const content = sorted(thoughts).map((text) => ({ type: "reasoning_text", text }));
      return { ...item, summary: said, ...(content.length === 0 ? {} : { content }) };
    }
    case "function_call":
      return {
        ...item,
        status: isWhole ? "completed" : "incomplete",
        arguments: raw === "" ? (item["arguments"] ?? "") : raw,
      };
    case "custom_tool_call":
      return { ...item, status: isWhole ? "completed" : "incomplete", input: raw === "" ? (item["input"] ?? "") : raw };
    case "mcp_call":
      return { ...item, arguments: raw };
    default:
      return item;
  }
}

function sorted<T>(parts: ReadonlyMap<number, T>): readonly T[] {
  return [...parts].toSorted(([left], [right]) => left - right).map(([, part]) => part);
}

/** What a whole item has beyond the deltas that were read of it, as further deltas. */
export function missingDeltas(builder: ReplyBuilder, slot: Slot, item: JsonObject): readonly ModelEvent[] {
  const { key, texts, summary, thoughts, raw } = slot;
  switch (textAt(item, "type")) {
    case "message":
      return objectsAt(item, "content").flatMap((part, at) => {
        const kind = textAt(part, "type") === "refusal" ? "refusal" : "text";
        const rest = restOf(textAt(part, kind), texts.get(at)?.text ?? "");
        return rest === "" ? [] : [builder.text(`${key}.${at}`, rest, kind)];
      });
    case "reasoning": {
      const read = sorted(summary.size > 0 ? summary : thoughts).join(paragraph);
      const rest = restOf(reasoningText(item), read);
      return rest === "" ? [] : [builder.reasoning(key, rest)];
    }
    case "function_call":
    case "custom_tool_call": {
      const rest = restOf(textAt(item, "arguments") ?? textAt(item, "input"), raw);
      const delta = rest === "" ? null : builder.callDelta(key, rest);
      return delta === null ? [] : [delta];
    }
    default:
      return [];
  }
}

/** What a text has after its beginning; nothing when it begins otherwise. */
function restOf(text: string | null, beginning: string): string {
  return text?.startsWith(beginning) === true ? text.slice(beginning.length) : "";
}
