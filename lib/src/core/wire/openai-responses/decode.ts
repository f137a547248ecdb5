// Decodes replies of the OpenAI Responses API: streams of events, and whole responses.
//
// Theory of operation
//   response.created / queued / in_progress    id and model of the response
//   response.output_item.added                 openItem: a new item, by `output_index`
//   response.<part>.delta / .done              text, refusal, reasoning and arguments of an item
//   response.output_item.done                  completeItem: the complete item; its deltas are no longer needed
//   response.completed / incomplete            endReply: the complete response; items without `done` are completed from it
//   response.failed / cancelled, error         the failure
//   Deltas only give delta events. The message is built at the end from the complete items, by the code that reads a whole response (`endingEvents`).
//
// Invariants
//   1. An event belongs to the item of its `item_id`; if that id is new (some servers change it with every event), to the item of its `output_index`. Indexes may
//      have gaps and may repeat. An item that arrives again, by its id or as the same call at the same index, changes nothing, so no call is made twice.
//   2. Items may start and end in any order (fixtures/wire/openai-responses/out-of-order). The message lists them by `output_index`. Events of calls are emitted in that
//      order too: a call that starts before an item of a lower index holds its events.
//   3. The message is read from complete items, never from deltas (W3). An item without `output_item.done` is taken from the last event, or assembled from
//      its deltas.
//   4. A frame that is no JSON interrupts the reply (damaged-frame.ts): its delta is lost to readers, and servers exist whose last event does not repeat the items.
//   5. A background response outlives its connection. Events are numbered (`sequence_number`); after `reattach`, events with a number that was read before are
//      skipped. `complete` ends the reply with the complete response.

import type { Json, JsonObject, ModelEvent } from "../../model/internal.ts";
import type { Frame, ResumableDecoder, WireContext } from "../codec.ts";
import type { Status } from "./items.ts";
import type { StreamedItem } from "./streamed-item.ts";

import { adapterFailure, parseJson, streamFailure } from "../../model/internal.ts";
import { damagedFrame, isDamagedFrame } from "../damaged-frame.ts";
import { asObject, countAt, flagAt, listAt, numberAt, objectAt, objectsAt, omitNullish, textAt } from "../fields.ts";
import { rawChunk, ReplyBuilder } from "../reply-builder.ts";
import { clientCallOf } from "./client-calls.ts";
import {
  endingEvents,
  responseFailure,
  isOpaque,
  isProgramCall,
  paragraphSeparator,
  readItem,
  startItem,
  statusOf,
  storedReasoningIndex,
  nonEmptyTextAt,
} from "./items.ts";
import {
  appendToList,
  assembleItem,
  callKey,
  byOutputIndex,
  placeOf,
  missingDeltas,
  ifSameType,
  releaseHeld,
  emitOrHold,
  textPartAt,
} from "./streamed-item.ts";

/** Decodes a whole response. */
export function decodeReply(body: Json, context: WireContext): readonly ModelEvent[] {
  const response = asObject(body);
  const raw: readonly ModelEvent[] = context.rawChunks ? [rawChunk(body)] : [];
  if (response === null || !isReply(response)) return [...raw, failureEvent(body, context)];
  try {
    const builder = new ReplyBuilder(context);
    const items = objectsAt(response, "output");
    const reasoningAt = storedReasoningIndex(response, items);
    const events = items.flatMap((item, at) => readItem(builder, item, `${at}`, at > reasoningAt));
    return [...raw, builder.messageStarted(), ...events, ...endingEvents(statusOf(response), response, items, context)];
  } catch (cause) {
    return [...raw, { type: "error", error: malformedEvent(cause, context) }];
  }
}

/** Is the body a response: does it have a list `output`, or a `status`? */
function isReply(response: JsonObject): boolean {
  return Array.isArray(response["output"]) || textAt(response, "status") !== null;
}

/** The failure of a body that is not a response: the error it holds, or `malformed_response`. */
function failureEvent(body: Json, context: WireContext): ModelEvent {
  // xAI sends the error as text: `{ code, error }`.
  const isError = (asObject(body)?.["error"] ?? null) !== null;
  const { provider } = context.route;
  return {
    type: "error",
    error: isError ? responseFailure(body, context) : adapterFailure("malformed_response", { provider }),
  };
}

/** Creates the decoder of one stream. It can be continued over several connections (`ResumableDecoder`). */
export function decoder(context: WireContext): ResumableDecoder {
  const builder = new ReplyBuilder(context);
  const counts = { understood: 0, opaque: 0, unknown: 0 };
  const states: StreamedItem[] = [];
  const byId = new Map<string, StreamedItem>();
  const byIndex = new Map<number, StreamedItem>();
  const byCall = new Map<string, StreamedItem>();
  /** Calls with held events, by the `output_index` below which all items have to have started. */
  const waiting = new Map<number, StreamedItem[]>();
  let hasStarted = false;
  let isTerminated = false;
  /** The lowest index at which no item has started. */
  let nextIndex = 0;
  let responseId: string | null = null;
  let model: string | null = null;
  let store: boolean | null = null;
  /** The lowest index of a reasoning item. */
  let reasoningAt = Infinity;
  /** The number of the last event that was read, and the highest number that a new connection may repeat. */
  let sequence: number | null = null;
  let repeatedUpTo: number | null = null;
  /** `complete` was called: an item's missing deltas are emitted before it is completed. */
  let isCompleting = false;

  /** Emits `message_started` once, before the first other event. */
  function startIfNeeded(out: ModelEvent[]): void {
    if (!hasStarted) out.push(builder.messageStarted());
    hasStarted = true;
  }

  /**
   * Opens an item. A call whose index is above `nextIndex` holds its events, because an item of a lower index is still missing; it is released when
   * all lower indexes have started, or at the end of the reply. Text and reasoning deltas never wait.
   */
  function openItem(item: JsonObject, index: number | null, out: ModelEvent[]): StreamedItem {
    startIfNeeded(out);
    const isEarly = index !== null && index > nextIndex && isProgramCall(item);
    const key = `${states.length}`;
    const texts = new Map();
    const initial = { argumentsText: "", isArgumentsComplete: false, completed: null, heldEvents: isEarly ? [] : null };
    const state: StreamedItem = { key, index, item, texts, summary: new Map(), reasoningTexts: new Map(), ...initial };
    states.push(state);
    if (textAt(item, "type") === "reasoning") reasoningAt = Math.min(reasoningAt, placeOf(state));
    if (index !== null) byIndex.set(index, state);
    if (isEarly) appendToList(waiting, Math.ceil(index), state);
    register(state, item, index);
    // The `call_id` of a client tool search changes until the item is complete, so calls of provider tools start with their complete item.
    if (clientCallOf(item) === null) emitOrHold(state, startItem(builder, item, key), out);
    while (byIndex.has(nextIndex)) {
      nextIndex += 1;
      releaseHeld(waiting.get(nextIndex) ?? [], out);
      waiting.delete(nextIndex);
    }
    return state;
  }

  /** Registers the ids under which this item is found again. */
  function register(state: StreamedItem, item: JsonObject, index: number | null): void {
    const id = nonEmptyTextAt(item, "id");
    const call = callKey(item, index);
    const callAtAnyIndex = callKey(item, null);
    if (id !== null) byId.set(id, state);
    if (call !== null) byCall.set(call, state);
    if (callAtAnyIndex !== null && !byCall.has(callAtAnyIndex)) byCall.set(callAtAnyIndex, state);
  }

  /** The state of an item that arrived before (invariant 1); `null`: the item is new. */
  function findKnownItem(item: JsonObject, index: number | null): StreamedItem | null {
    const call = callKey(item, index);
    const sameId = ifSameType(item, byId.get(nonEmptyTextAt(item, "id") ?? ""));
    const isOtherItem =
      sameId !== null &&
      sameId.index !== null &&
      index !== null &&
      sameId.index !== index &&
      (call === null || callKey(item, sameId.index) !== callKey(sameId.item, sameId.index));
    if (sameId !== null && !isOtherItem) return sameId;
    const callWithoutIndex = ifSameType(item, byCall.get(callKey(item, null) ?? ""));
    return ifSameType(item, byCall.get(call ?? "")) ?? (callWithoutIndex?.index === null ? callWithoutIndex : null);
  }

  /** The item of an event. An item without `output_item.added` is opened if `type` is known from the event; otherwise `null`. */
  function stateOfEvent(event: JsonObject, type: string | null, out: ModelEvent[]): StreamedItem | null {
    const id = nonEmptyTextAt(event, "item_id");
    const index = numberAt(event, "output_index");
    const existing = (id === null ? undefined : byId.get(id)) ?? (index === null ? undefined : byIndex.get(index));
    if (existing !== undefined || type === null) return existing ?? null;
    const last = index === null ? states.at(-1) : undefined;
    return last !== undefined && last.completed === null && textAt(last.item, "type") === type
      ? last
      : openItem({ type, ...omitNullish({ id }) }, index, out);
  }

  /** Completes an item once. Later copies of it are ignored, so a repeated `output_item.done` makes no second call. */
  function completeItem(state: StreamedItem, item: JsonObject, out: ModelEvent[]): void {
    if (state.completed !== null) return;
    state.completed = item;
    if (isCompleting) for (const event of missingDeltas(builder, state, item)) emitOrHold(state, event, out);
    const isPaired = store !== false && placeOf(state) > reasoningAt;
    for (const event of readItem(builder, state.completed, state.key, isPaired)) emitOrHold(state, event, out);
  }

  /** Reads `response.output_item.done`: finds the item, or opens it if `output_item.added` is missing, and completes it. */
  function readItemDone(event: JsonObject, out: ModelEvent[]): void {
    const item = objectAt(event, "item");
    if (item === null) return;
    const index = numberAt(event, "output_index");
    const stateAtIndex = index === null ? null : ifSameType(item, byIndex.get(index));
    const state =
      findKnownItem(item, index) ?? (stateAtIndex?.completed === null ? stateAtIndex : openItem(item, index, out));
    // The item may arrive again under the ids of this event.
    register(state, item, index);
    completeItem(state, item, out);
  }

  /** Ends the reply: completes open items from the complete response, adds items that no event has announced, and emits the message. */
  function endReply(status: Status, response: JsonObject, out: ModelEvent[]): void {
    startIfNeeded(out);
    const output = objectsAt(response, "output");
    const hasUnseenItems = output.length > states.length;
    const statesByItem = matchItems(output);
    for (const [at, item] of output.entries()) {
      const state = statesByItem.get(item);
      if (state !== undefined) completeItem(state, item, out);
      else if (hasUnseenItems) completeItem(openItem(item, at, out), item, out);
    }
    for (const state of states) completeItem(state, assembleItem(state, status), out);
    releaseHeld([...waiting.values()].flat(), out);
    const ordered = byOutputIndex(states);
    const items = ordered.flatMap(({ completed }) => (completed === null ? [] : [completed]));
    // Calls keep the ids under which they were emitted.
    const ids = ordered.flatMap(({ completed, key }) => (completed === null ? [] : [builder.callId(key)]));
    const responseWithId = { ...response, ...omitNullish({ id: textAt(response, "id") ?? responseId }) };
    const known = { model: textAt(response, "model") ?? model, store: flagAt(response, "store") ?? store };
    const completeResponse = { ...responseWithId, ...omitNullish(known) };
    out.push(...endingEvents(status, completeResponse, items, context, ids));
    isTerminated = true;
  }

  /** Matches the items of the complete response to those of the stream: by item id, then calls by `call_id`, then other items by type and index. */
  function matchItems(output: readonly JsonObject[]): ReadonlyMap<JsonObject, StreamedItem> {
    const statesByItem = new Map<JsonObject, StreamedItem>();
    const unmatched = new Set(states);
    const statesByCall = new Map<string, StreamedItem[]>();
    for (const state of byOutputIndex(states).toReversed()) {
      const call = callKey(state.item, null);
      if (call !== null) appendToList(statesByCall, call, state);
    }
    function match(by: (item: JsonObject, at: number) => StreamedItem | undefined): void {
      for (const [at, item] of output.entries()) {
        const state = statesByItem.has(item) ? null : ifSameType(item, by(item, at));
        if (state !== null && unmatched.delete(state)) statesByItem.set(item, state);
      }
    }
    match((item) => byId.get(nonEmptyTextAt(item, "id") ?? ""));
    match((item) => {
      const candidates = statesByCall.get(callKey(item, null) ?? "") ?? [];
      while (candidates.length > 0) {
        const state = candidates.pop();
        if (state !== undefined && unmatched.has(state)) return state;
      }
      return undefined;
    });
    match((item, at) => (isProgramCall(item) ? undefined : byIndex.get(at)));
    return statesByItem;
  }

  /** Ends the stream with the error of an event. */
  function fail(event: JsonObject, out: ModelEvent[]): void {
    out.push({ type: "error", error: responseFailure(event, context) });
    isTerminated = true;
  }

  /** Reads one event and returns how it was treated. */
  function readEvent(type: string, event: JsonObject, out: ModelEvent[]): keyof typeof counts {
    const delta = textAt(event, "delta") ?? "";
    switch (type) {
      case "response.created":
      case "response.queued":
      case "response.in_progress": {
        const response = objectAt(event, "response");
        responseId = textAt(response, "id") ?? responseId;
        model = textAt(response, "model") ?? model;
        store = flagAt(response, "store") ?? store;
        startIfNeeded(out);
        return "understood";
      }
      case "response.output_item.added": {
        const item = objectAt(event, "item");
        const index = numberAt(event, "output_index");
        if (item === null) return "unknown";
        if (findKnownItem(item, index) === null) openItem(item, index, out);
        return isOpaque(item) ? "opaque" : "understood";
      }
      case "response.output_item.done": {
        readItemDone(event, out);
        const item = objectAt(event, "item");
        return item === null ? "unknown" : isOpaque(item) ? "opaque" : "understood";
      }
      case "response.output_text.delta":
      case "response.refusal.delta": {
        const state = stateOfEvent(event, "message", out);
        if (state === null || state.completed !== null) return "understood";
        const at = countAt(event, "content_index") ?? 0;
        const refusal = type === "response.refusal.delta";
        const textPart = textPartAt(state, at, refusal);
        textPart.text += delta;
        for (const logprob of listAt(event, "logprobs")) textPart.logprobs.push(logprob);
        emitOrHold(state, builder.text(`${state.key}.${at}`, delta, refusal ? "refusal" : "text"), out);
        return "understood";
      }
      case "response.output_text.done":
      case "response.refusal.done": {
        const refusal = type === "response.refusal.done";
        const state = stateOfEvent(event, "message", out);
        const text = textAt(event, refusal ? "refusal" : "text");
        if (state !== null && text !== null)
          textPartAt(state, countAt(event, "content_index") ?? 0, refusal).text = text;
        return "understood";
      }
      case "response.output_text.annotation.added": {
        const state = stateOfEvent(event, "message", out);
        const annotation = objectAt(event, "annotation");
        if (state === null || annotation === null) return "unknown";
        textPartAt(state, countAt(event, "content_index") ?? 0, false).annotations.push(annotation);
        return "understood";
      }
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta": {
        const state = stateOfEvent(event, "reasoning", out);
        if (state === null || state.completed !== null) return "understood";
        const isSummary = type === "response.reasoning_summary_text.delta";
        const texts = isSummary ? state.summary : state.reasoningTexts;
        const at = countAt(event, isSummary ? "summary_index" : "content_index") ?? 0;
        const previous = texts.get(at);
        const separator =
          previous === undefined && state.summary.size + state.reasoningTexts.size > 0 ? paragraphSeparator : "";
        texts.set(at, (previous ?? "") + delta);
        emitOrHold(state, builder.reasoning(state.key, separator + delta), out);
        return "understood";
      }
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
      case "response.mcp_call_arguments.delta": {
        const state = stateOfEvent(event, null, out);
        if (state === null) return "unknown";
        if (state.completed !== null) return "understood";
        state.argumentsText += delta;
        emitOrHold(state, builder.appendArguments(state.key, delta), out);
        return "understood";
      }
      case "response.function_call_arguments.done":
      case "response.custom_tool_call_input.done":
      case "response.mcp_call_arguments.done": {
        const state = stateOfEvent(event, null, out);
        if (state === null) return "unknown";
        state.argumentsText = textAt(event, "arguments") ?? textAt(event, "input") ?? state.argumentsText;
        state.isArgumentsComplete = true;
        return "understood";
      }
      case "response.completed":
      case "response.incomplete": {
        const response = objectAt(event, "response") ?? {};
        endReply(statusOf(response, type === "response.completed" ? "completed" : "incomplete"), response, out);
        return "understood";
      }
      case "response.failed":
      case "response.cancelled": {
        const response = objectAt(event, "response") ?? {};
        const status = type === "response.failed" ? "failed" : "cancelled";
        out.push(...endingEvents(status, { ...response, status }, [], context));
        isTerminated = true;
        return "understood";
      }
      case "error":
      case "response.error":
        fail(event, out);
        return "understood";
      default: {
        if (progressEvents.test(type)) return "understood";
        const state = stateOfEvent(event, null, out);
        return state !== null && isOpaque(state.item) ? "opaque" : "unknown";
      }
    }
  }

  /** Reads one frame. The type is in the data; servers that omit it there send it as the SSE event name. */
  function readFrame({ event: eventName, data }: Frame, out: ModelEvent[]): void {
    const parsed = parseJson(data);
    const event = parsed === null ? null : asObject(parsed.value);
    const number = countAt(event, "sequence_number");
    if (number !== null && repeatedUpTo !== null && number <= repeatedUpTo) return;
    sequence = number ?? sequence;
    if (parsed !== null && context.rawChunks) out.push(rawChunk(parsed.value));
    if (isTerminated) return;
    const type = textAt(event, "type") ?? eventName;
    if (parsed === null && eventName === "error") {
      fail({ error: { message: data } }, out);
      return;
    }
    if (parsed === null && isDamagedFrame({ event: eventName, data })) {
      const framesRead = counts.understood + counts.opaque + counts.unknown;
      out.push({ type: "error", error: damagedFrame({ event: eventName, data }, context, framesRead) });
      isTerminated = true;
      return;
    }
    if (event === null) counts[data === "[DONE]" ? "understood" : "unknown"] += 1;
    else if (type !== null) counts[readEvent(type, event, out)] += 1;
    else if (objectAt(event, "error") === null) counts.unknown += 1;
    else counts[readEvent("error", event, out)] += 1;
  }

  /** Ends the reply with a complete response. */
  function completeFrom(body: Json, out: ModelEvent[]): void {
    const response = asObject(body);
    startIfNeeded(out);
    isCompleting = true;
    if (response === null || !isReply(response)) return void out.push(failureEvent(body, context));
    const status = statusOf(response);
    if (status === "completed" || status === "incomplete") endReply(status, response, out);
    else out.push(...endingEvents(status, response, [], context));
  }

  return {
    counts,
    push: (frames) => {
      const out: ModelEvent[] = [];
      for (const frame of frames) {
        try {
          readFrame(frame, out);
        } catch (cause) {
          out.push({ type: "error", error: malformedEvent(cause, context) });
          isTerminated = true;
        }
      }
      return out;
    },
    position: () => (responseId === null ? null : { responseId, sequence }),
    reattach: () => {
      repeatedUpTo = sequence;
    },
    complete: (body) => {
      if (isTerminated) return [];
      const out: ModelEvent[] = context.rawChunks ? [rawChunk(body)] : [];
      try {
        completeFrom(body, out);
      } catch (cause) {
        out.push({ type: "error", error: malformedEvent(cause, context) });
      }
      isTerminated = true;
      return out;
    },
    end: () => {
      if (isTerminated) return [];
      isTerminated = true;
      return [{ type: "error", error: streamFailure("interrupted", { provider: context.route.provider }) }];
    },
  };
}

/** Events that report only progress. The complete item holds their content. */
const progressEvents =
  /^(keepalive|response\.(content_part|reasoning_summary_part)\.(added|done)|response\.reasoning(_summary)?_text\.done|response\.(web_search|file_search|code_interpreter|image_generation|mcp|x_search|code_execution)_call(_code)?\.[a-z_]+|response\.(shell_call_command|shell_call_output_content|apply_patch_call_operation_diff)\.(added|delta|done))$/;

/** The failure of an event that can be read but not stored, because a value is nested too deep or too large. */
function malformedEvent(cause: unknown, { route }: WireContext) {
  return streamFailure("malformed_event", { provider: route.provider, cause });
}
