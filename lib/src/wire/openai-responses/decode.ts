// What the OpenAI Responses API answers: events of a stream, and whole responses.
//
// Rules:
//   1. An item is found by its id, and where the id is new (some servers give another one with every event) by its `output_index`. Indexes may have
//      gaps and may repeat. An item that comes again, by its id or as the same call in the same place, changes nothing: no call is made twice.
//   2. Items may begin and end in any order. The message has them in the order of `output_index`; calls are told in that order too: one that comes
//      before an item of a lower index waits.
//   3. The message is read from whole items, never from deltas, so that a stream and a whole response come to the same one (W3). An item that was
//      never ended is taken from the last event, or put together from what was heard.
//   4. A frame that is no JSON is passed over: items and the last event say everything once more.
//   5. A response in the background outlives its connection. Events are numbered (`sequence_number`); after `reattach` those with a number that was read
//      before are skipped. `complete` ends the reply with the response as it was read whole.

import type { Json, JsonObject, ModelEvent } from "../../model/internal.ts";
import type { Frame, ResumableDecoder, WireContext } from "../codec.ts";
import type { Status } from "./items.ts";
import type { Slot } from "./slot.ts";

import { adapterFailure, parseJson, streamFailure } from "../../model/internal.ts";
import { asObject, countAt, numberAt, objectAt, objectsAt, said, textAt } from "../fields.ts";
import { rawChunk, ReplyBuilder } from "../reply-builder.ts";
import { ending, failureOf, isOpaque, isOurCall, paragraph, readItem, startItem, statusOf, wordAt } from "./items.ts";
import { addTo, assembled, callKey, inOrder, missingDeltas, ofType, release, tell, textOf } from "./slot.ts";

/** A whole response. */
export function decodeReply(body: Json, context: WireContext): readonly ModelEvent[] {
  const response = asObject(body);
  const raw: readonly ModelEvent[] = context.rawChunks ? [rawChunk(body)] : [];
  if (response === null || !isReply(response)) return [...raw, notReply(body, context)];
  try {
    const builder = new ReplyBuilder(context);
    const items = objectsAt(response, "output");
    const events = items.flatMap((item, at) => readItem(builder, item, `${at}`));
    return [...raw, builder.started(), ...events, ...ending(statusOf(response), response, items, context)];
  } catch (cause) {
    return [...raw, { type: "error", error: unreadable(cause, context) }];
  }
}

function isReply(response: JsonObject): boolean {
  return Array.isArray(response["output"]) || textAt(response, "status") !== null;
}

/** The failure of a body that is no response. */
function notReply(body: Json, context: WireContext): ModelEvent {
  const isError = objectAt(asObject(body), "error") !== null;
  const { provider } = context.route;
  return {
    type: "error",
    error: isError ? failureOf(body, context) : adapterFailure("malformed_response", { provider }),
  };
}

/** A stream. */
export function decoder(context: WireContext): ResumableDecoder {
  const builder = new ReplyBuilder(context);
  const heard = { understood: 0, opaque: 0, unknown: 0 };
  const slots: Slot[] = [];
  const byId = new Map<string, Slot>();
  const byIndex = new Map<number, Slot>();
  const byCall = new Map<string, Slot>();
  /** Items that wait, by the index before which nothing may be missing. */
  const waiting = new Map<number, Slot[]>();
  let begun = false;
  let over = false;
  /** No item below this index is still to come. */
  let low = 0;
  let responseId: string | null = null;
  let model: string | null = null;
  /** The number of the last event, and of the last event that another connection repeats. */
  let sequence: number | null = null;
  let repeated: number | null = null;
  /** The response was read whole: deltas are completed with what the whole items have beyond them. */
  let completes = false;

  function begin(out: ModelEvent[]): void {
    if (!begun) out.push(builder.started());
    begun = true;
  }

  function open(item: JsonObject, index: number | null, out: ModelEvent[]): Slot {
    begin(out);
    const early = index !== null && index > low && isOurCall(item);
    const key = `${slots.length}`;
    const texts = new Map();
    const rest = { raw: "", rawIsWhole: false, whole: null, held: early ? [] : null };
    const slot: Slot = { key, index, item, texts, summary: new Map(), thoughts: new Map(), ...rest };
    slots.push(slot);
    if (index !== null) byIndex.set(index, slot);
    if (early) addTo(waiting, Math.ceil(index), slot);
    name(slot, item, index);
    tell(slot, startItem(builder, item, key), out);
    while (byIndex.has(low)) {
      low += 1;
      release(waiting.get(low) ?? [], out);
      waiting.delete(low);
    }
    return slot;
  }

  /** From now on an item of these names is this one. */
  function name(slot: Slot, item: JsonObject, index: number | null): void {
    const id = wordAt(item, "id");
    const call = callKey(item, index);
    const anywhere = callKey(item, null);
    if (id !== null) byId.set(id, slot);
    if (call !== null) byCall.set(call, slot);
    if (anywhere !== null && !byCall.has(anywhere)) byCall.set(anywhere, slot);
  }

  /** The item as it was heard of before, if it was. */
  function heardOf(item: JsonObject, index: number | null): Slot | null {
    const call = callKey(item, index);
    const same = ofType(item, byId.get(wordAt(item, "id") ?? ""));
    const isOther =
      same !== null &&
      same.index !== null &&
      index !== null &&
      same.index !== index &&
      (call === null || callKey(item, same.index) !== callKey(same.item, same.index));
    if (same !== null && !isOther) return same;
    const placeless = ofType(item, byCall.get(callKey(item, null) ?? ""));
    return ofType(item, byCall.get(call ?? "")) ?? (placeless?.index === null ? placeless : null);
  }

  /** The item an event is about; one nobody announced is begun when the event says of what type it is. */
  function slotOf(event: JsonObject, type: string | null, out: ModelEvent[]): Slot | null {
    const id = wordAt(event, "item_id");
    const index = numberAt(event, "output_index");
    const known = (id === null ? undefined : byId.get(id)) ?? (index === null ? undefined : byIndex.get(index));
    if (known !== undefined || type === null) return known ?? null;
    const last = index === null ? slots.at(-1) : undefined;
    return last !== undefined && last.whole === null && textAt(last.item, "type") === type
      ? last
      : open({ type, ...said({ id }) }, index, out);
  }

  function finish(slot: Slot, given: JsonObject, out: ModelEvent[]): void {
    if (slot.whole !== null) return;
    slot.whole = given;
    if (completes) for (const event of missingDeltas(builder, slot, given)) tell(slot, event, out);
    for (const event of readItem(builder, slot.whole, slot.key)) tell(slot, event, out);
  }

  function itemDone(event: JsonObject, out: ModelEvent[]): void {
    const item = objectAt(event, "item");
    if (item === null) return;
    const index = numberAt(event, "output_index");
    const here = index === null ? null : ofType(item, byIndex.get(index));
    const slot = heardOf(item, index) ?? (here?.whole === null ? here : open(item, index, out));
    // It may come again under the names it has now.
    name(slot, item, index);
    finish(slot, item, out);
  }

  /** The end: what is still open is ended with it, and what the response holds beyond what was heard is told. */
  function close(status: Status, response: JsonObject, out: ModelEvent[]): void {
    begin(out);
    const output = objectsAt(response, "output");
    const more = output.length > slots.length;
    const found = matched(output);
    for (const [at, item] of output.entries()) {
      const slot = found.get(item);
      if (slot !== undefined) finish(slot, item, out);
      else if (more) finish(open(item, at, out), item, out);
    }
    for (const slot of slots) finish(slot, assembled(slot, status), out);
    release([...waiting.values()].flat(), out);
    const ended = inOrder(slots);
    const items = ended.flatMap(({ whole }) => (whole === null ? [] : [whole]));
    // Calls keep the ids they were announced with.
    const ids = ended.flatMap(({ whole, key }) => (whole === null ? [] : [builder.callId(key)]));
    const named = { ...response, ...said({ id: textAt(response, "id") ?? responseId }) };
    const whole = { ...named, ...said({ model: textAt(response, "model") ?? model }) };
    out.push(...ending(status, whole, items, context, ids));
    over = true;
  }

  /** Which items of the last event were heard of: by their ids, then calls by theirs, then what is of the same type in the same place. */
  function matched(output: readonly JsonObject[]): ReadonlyMap<JsonObject, Slot> {
    const found = new Map<JsonObject, Slot>();
    const free = new Set(slots);
    const calls = new Map<string, Slot[]>();
    for (const slot of inOrder(slots).toReversed()) {
      const call = callKey(slot.item, null);
      if (call !== null) addTo(calls, call, slot);
    }
    function match(by: (item: JsonObject, at: number) => Slot | undefined): void {
      for (const [at, item] of output.entries()) {
        const slot = found.has(item) ? null : ofType(item, by(item, at));
        if (slot !== null && free.delete(slot)) found.set(item, slot);
      }
    }
    match((item) => byId.get(wordAt(item, "id") ?? ""));
    match((item) => {
      const same = calls.get(callKey(item, null) ?? "") ?? [];
      while (same.length > 0) {
        const slot = same.pop();
        if (slot !== undefined && free.has(slot)) return slot;
      }
      return undefined;
    });
    match((item, at) => (isOurCall(item) ? undefined : byIndex.get(at)));
    return found;
  }

  function fail(event: JsonObject, out: ModelEvent[]): void {
    out.push({ type: "error", error: failureOf(event, context) });
    over = true;
  }

  /** Takes one event in; says how well it was understood. */
  function take(type: string, event: JsonObject, out: ModelEvent[]): keyof typeof heard {
    const delta = textAt(event, "delta") ?? "";
    switch (type) {
      case "response.created":
      case "response.queued":
      case "response.in_progress": {
        const response = objectAt(event, "response");
        responseId = textAt(response, "id") ?? responseId;
        model = textAt(response, "model") ?? model;
        begin(out);
        return "understood";
      }
      case "response.output_item.added": {
        const item = objectAt(event, "item");
        const index = numberAt(event, "output_index");
        if (item === null) return "unknown";
        if (heardOf(item, index) === null) open(item, index, out);
        return isOpaque(item) ? "opaque" : "understood";
      }
      case "response.output_item.done": {
        itemDone(event, out);
        const item = objectAt(event, "item");
        return item === null ? "unknown" : isOpaque(item) ? "opaque" : "understood";
      }
      case "response.output_text.delta":
      case "response.refusal.delta": {
        const slot = slotOf(event, "message", out);
        if (slot === null || slot.whole !== null) return "understood";
        const at = countAt(event, "content_index") ?? 0;
        const refusal = type === "response.refusal.delta";
        textOf(slot, at, refusal).text += delta;
        tell(slot, builder.text(`${slot.key}.${at}`, delta, refusal ? "refusal" : "text"), out);
        return "understood";
      }
      case "response.output_text.done":
      case "response.refusal.done": {
        const refusal = type === "response.refusal.done";
        const slot = slotOf(event, "message", out);
        const text = textAt(event, refusal ? "refusal" : "text");
        if (slot !== null && text !== null) textOf(slot, countAt(event, "content_index") ?? 0, refusal).text = text;
        return "understood";
      }
      case "response.output_text.annotation.added": {
        const slot = slotOf(event, "message", out);
        const annotation = objectAt(event, "annotation");
        if (slot === null || annotation === null) return "unknown";
        textOf(slot, countAt(event, "content_index") ?? 0, false).annotations.push(annotation);
        return "understood";
      }
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta": {
        const slot = slotOf(event, "reasoning", out);
        if (slot === null || slot.whole !== null) return "understood";
        const isSummary = type === "response.reasoning_summary_text.delta";
        const texts = isSummary ? slot.summary : slot.thoughts;
        const at = countAt(event, isSummary ? "summary_index" : "content_index") ?? 0;
        const before = texts.get(at);
        const joint = before === undefined && slot.summary.size + slot.thoughts.size > 0 ? paragraph : "";
        texts.set(at, (before ?? "") + delta);
        tell(slot, builder.reasoning(slot.key, joint + delta), out);
        return "understood";
      }
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
      case "response.mcp_call_arguments.delta": {
        const slot = slotOf(event, null, out);
        if (slot === null) return "unknown";
        if (slot.whole !== null) return "understood";
        slot.raw += delta;
        tell(slot, builder.callDelta(slot.key, delta), out);
        return "understood";
      }
      case "response.function_call_arguments.done":
      case "response.custom_tool_call_input.done":
      case "response.mcp_call_arguments.done": {
        const slot = slotOf(event, null, out);
        if (slot === null) return "unknown";
        slot.raw = textAt(event, "arguments") ?? textAt(event, "input") ?? slot.raw;
        slot.rawIsWhole = true;
        return "understood";
      }
      case "response.completed":
      case "response.incomplete": {
        const response = objectAt(event, "response") ?? {};
        close(statusOf(response, type === "response.completed" ? "completed" : "incomplete"), response, out);
        return "understood";
      }
      case "response.failed":
      case "response.cancelled": {
        const response = objectAt(event, "response") ?? {};
        const status = type === "response.failed" ? "failed" : "cancelled";
        out.push(...ending(status, { ...response, status }, [], context));
        over = true;
        return "understood";
      }
      case "error":
      case "response.error":
        fail(event, out);
        return "understood";
      default: {
        if (quiet.test(type)) return "understood";
        const slot = slotOf(event, null, out);
        return slot !== null && isOpaque(slot.item) ? "opaque" : "unknown";
      }
    }
  }

  function frame({ event: name, data }: Frame, out: ModelEvent[]): void {
    const parsed = parseJson(data);
    const event = parsed === null ? null : asObject(parsed.value);
    const number = countAt(event, "sequence_number");
    if (number !== null && repeated !== null && number <= repeated) return;
    sequence = number ?? sequence;
    if (parsed !== null && context.rawChunks) out.push(rawChunk(parsed.value));
    if (over) return;
    const type = textAt(event, "type") ?? name;
    if (event === null) heard[data === "[DONE]" ? "understood" : "unknown"] += 1;
    else if (type !== null) heard[take(type, event, out)] += 1;
    else if (objectAt(event, "error") === null) heard.unknown += 1;
    else heard[take("error", event, out)] += 1;
  }

  /** The end, from the response as it was read whole. */
  function whole(body: Json, out: ModelEvent[]): void {
    const response = asObject(body);
    begin(out);
    completes = true;
    if (response === null || !isReply(response)) return void out.push(notReply(body, context));
    const status = statusOf(response);
    if (status === "completed" || status === "incomplete") close(status, response, out);
    else out.push(...ending(status, response, [], context));
  }

  return {
    heard,
    push: (frames) => {
      const out: ModelEvent[] = [];
      for (const one of frames) {
        try {
          frame(one, out);
        } catch (cause) {
          out.push({ type: "error", error: unreadable(cause, context) });
          over = true;
        }
      }
      return out;
    },
    position: () => (responseId === null ? null : { responseId, sequence }),
    reattach: () => {
      repeated = sequence;
    },
    complete: (body) => {
      if (over) return [];
      const out: ModelEvent[] = context.rawChunks ? [rawChunk(body)] : [];
      try {
        whole(body, out);
      } catch (cause) {
        out.push({ type: "error", error: unreadable(cause, context) });
      }
      over = true;
      return out;
    },
    end: () => {
      if (over) return [];
      over = true;
      return [{ type: "error", error: streamFailure("interrupted", { provider: context.route.provider }) }];
    },
  };
}

/** Events that say only how far an item is; the item itself says the rest. */
const quiet =
  /^(keepalive|response\.(content_part|reasoning_summary_part)\.(added|done)|response\.reasoning(_summary)?_text\.done|response\.(web_search|file_search|code_interpreter|image_generation|mcp)_call(_code)?\.[a-z_]+)$/;

/** What could be heard and not be kept: nested too deep, too large. */
function unreadable(cause: unknown, { route }: WireContext) {
  return streamFailure("malformed_event", { provider: route.provider, cause });
}
