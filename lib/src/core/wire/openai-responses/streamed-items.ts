// The items of a streamed response: finds the item of an event, opens new items in order, completes them, and matches
// them to the complete response.
//
// The invariants 1 to 3 of decode.ts are kept here.

import type { JsonObject, ModelEvent } from "../../model/internal.ts";
import type { ReplyBuilder } from "../reply-builder.ts";
import type { Status } from "./items.ts";
import type { StreamedItem } from "./streamed-item.ts";

import { numberAt, objectAt, omitNullish, textAt } from "../fields.ts";
import { clientCallOf } from "./client-calls.ts";
import { isProgramCall, nonEmptyTextAt, readItem, startItem } from "./items.ts";
import {
  appendToList,
  assembleItem,
  byOutputIndex,
  callKey,
  emitOrHold,
  ifSameType,
  missingDeltas,
  placeOf,
  releaseHeld,
} from "./streamed-item.ts";

export class StreamedItems {
  /** Whether the provider stores the response; `null`: unknown. */
  store: boolean | null = null;
  /** An item's missing deltas are emitted before it is completed: the reply ends with a complete response. */
  emitsMissingDeltas = false;
  readonly #builder: ReplyBuilder;
  readonly #states: StreamedItem[] = [];
  readonly #byId = new Map<string, StreamedItem>();
  readonly #byIndex = new Map<number, StreamedItem>();
  readonly #byCall = new Map<string, StreamedItem>();
  /** Calls with held events, by the `output_index` below which all items have to have started. */
  readonly #waiting = new Map<number, StreamedItem[]>();
  #hasStarted = false;
  /** The lowest index at which no item has started. */
  #nextIndex = 0;
  /** The lowest index of a reasoning item. */
  #reasoningAt = Infinity;

  constructor(builder: ReplyBuilder) {
    this.#builder = builder;
  }

  /** Emits `message_started` once, before the first other event. */
  start(out: ModelEvent[]): void {
    if (!this.#hasStarted) out.push(this.#builder.messageStarted());
    this.#hasStarted = true;
  }

  /**
   * Opens an item. A call whose index is above `#nextIndex` holds its events, because an item of a lower index is still
   * missing; it is released when all lower indexes have started, or at the end of the reply. Text and reasoning deltas
   * never wait.
   */
  #open(item: JsonObject, index: number | null, out: ModelEvent[]): StreamedItem {
    this.start(out);
    const isEarly = index !== null && index > this.#nextIndex && isProgramCall(item);
    const key = `${this.#states.length}`;
    const texts = new Map();
    const initial = { argumentsText: "", isArgumentsComplete: false, completed: null, heldEvents: isEarly ? [] : null };
    const state: StreamedItem = { key, index, item, texts, summary: new Map(), reasoningTexts: new Map(), ...initial };
    this.#states.push(state);
    if (textAt(item, "type") === "reasoning") this.#reasoningAt = Math.min(this.#reasoningAt, placeOf(state));
    if (index !== null) this.#byIndex.set(index, state);
    if (isEarly) appendToList(this.#waiting, Math.ceil(index), state);
    this.#register(state, item, index);
    // The `call_id` of a client tool search changes until the item is complete, so calls of provider tools start with
    // their complete item.
    if (clientCallOf(item) === null) emitOrHold(state, startItem(this.#builder, item, key), out);
    while (this.#byIndex.has(this.#nextIndex)) {
      this.#nextIndex += 1;
      releaseHeld(this.#waiting.get(this.#nextIndex) ?? [], out);
      this.#waiting.delete(this.#nextIndex);
    }
    return state;
  }

  /** Registers the ids under which this item is found again. */
  #register(state: StreamedItem, item: JsonObject, index: number | null): void {
    const id = nonEmptyTextAt(item, "id");
    const call = callKey(item, index);
    const callAtAnyIndex = callKey(item, null);
    if (id !== null) this.#byId.set(id, state);
    if (call !== null) this.#byCall.set(call, state);
    if (callAtAnyIndex !== null && !this.#byCall.has(callAtAnyIndex)) this.#byCall.set(callAtAnyIndex, state);
  }

  /** The state of an item that arrived before (invariant 1); `null`: the item is new. */
  #known(item: JsonObject, index: number | null): StreamedItem | null {
    const call = callKey(item, index);
    const sameId = ifSameType(item, this.#byId.get(nonEmptyTextAt(item, "id") ?? ""));
    const isOtherItem =
      sameId !== null &&
      sameId.index !== null &&
      index !== null &&
      sameId.index !== index &&
      (call === null || callKey(item, sameId.index) !== callKey(sameId.item, sameId.index));
    if (sameId !== null && !isOtherItem) return sameId;
    const callWithoutIndex = ifSameType(item, this.#byCall.get(callKey(item, null) ?? ""));
    return (
      ifSameType(item, this.#byCall.get(call ?? "")) ?? (callWithoutIndex?.index === null ? callWithoutIndex : null)
    );
  }

  /** Reads `response.output_item.added`: opens the item, unless it is known. */
  add(item: JsonObject, index: number | null, out: ModelEvent[]): void {
    if (this.#known(item, index) === null) this.#open(item, index, out);
  }

  /**
   * The item of an event. An item without `output_item.added` is opened if `type` is known from the event; otherwise
   * `null`.
   */
  ofEvent(event: JsonObject, type: string | null, out: ModelEvent[]): StreamedItem | null {
    const id = nonEmptyTextAt(event, "item_id");
    const index = numberAt(event, "output_index");
    const existing =
      (id === null ? undefined : this.#byId.get(id)) ?? (index === null ? undefined : this.#byIndex.get(index));
    if (existing !== undefined || type === null) return existing ?? null;
    const last = index === null ? this.#states.at(-1) : undefined;
    return last !== undefined && last.completed === null && textAt(last.item, "type") === type
      ? last
      : this.#open({ type, ...omitNullish({ id }) }, index, out);
  }

  /** Completes an item once. Later copies of it are ignored, so a repeated `output_item.done` makes no second call. */
  #complete(state: StreamedItem, item: JsonObject, out: ModelEvent[]): void {
    if (state.completed !== null) return;
    state.completed = item;
    if (this.emitsMissingDeltas) {
      for (const event of missingDeltas(this.#builder, state, item)) emitOrHold(state, event, out);
    }
    const isPaired = this.store !== false && placeOf(state) > this.#reasoningAt;
    for (const event of readItem(this.#builder, state.completed, state.key, isPaired)) emitOrHold(state, event, out);
  }

  /**
   * Reads `response.output_item.done`: finds the item, or opens it if `output_item.added` is missing, and completes it.
   */
  readDone(event: JsonObject, out: ModelEvent[]): void {
    const item = objectAt(event, "item");
    if (item === null) return;
    const index = numberAt(event, "output_index");
    const stateAtIndex = index === null ? null : ifSameType(item, this.#byIndex.get(index));
    const state =
      this.#known(item, index) ?? (stateAtIndex?.completed === null ? stateAtIndex : this.#open(item, index, out));
    // The item may arrive again under the ids of this event.
    this.#register(state, item, index);
    this.#complete(state, item, out);
  }

  /**
   * Completes all items: from the complete response, whose items that no event has announced are added, then from their
   * deltas. Returns the complete items and the ids of calls under which they were emitted.
   */
  end(
    output: readonly JsonObject[],
    status: Status,
    out: ModelEvent[],
  ): { readonly items: readonly JsonObject[]; readonly ids: readonly (string | null)[] } {
    const hasUnseenItems = output.length > this.#states.length;
    const statesByItem = this.#match(output);
    for (const [at, item] of output.entries()) {
      const state = statesByItem.get(item);
      if (state !== undefined) this.#complete(state, item, out);
      else if (hasUnseenItems) this.#complete(this.#open(item, at, out), item, out);
    }
    for (const state of this.#states) this.#complete(state, assembleItem(state, status), out);
    releaseHeld([...this.#waiting.values()].flat(), out);
    const ordered = byOutputIndex(this.#states);
    return {
      items: ordered.flatMap(({ completed }) => (completed === null ? [] : [completed])),
      ids: ordered.map(({ key }) => this.#builder.callId(key)),
    };
  }

  /**
   * Matches the items of the complete response to those of the stream: by item id, then calls by `call_id`, then other
   * items by type and index.
   */
  #match(output: readonly JsonObject[]): ReadonlyMap<JsonObject, StreamedItem> {
    const statesByItem = new Map<JsonObject, StreamedItem>();
    const unmatched = new Set(this.#states);
    const statesByCall = new Map<string, StreamedItem[]>();
    for (const state of byOutputIndex(this.#states).toReversed()) {
      const call = callKey(state.item, null);
      if (call !== null) appendToList(statesByCall, call, state);
    }
    function match(by: (item: JsonObject, at: number) => StreamedItem | undefined): void {
      for (const [at, item] of output.entries()) {
        const state = statesByItem.has(item) ? null : ifSameType(item, by(item, at));
        if (state !== null && unmatched.delete(state)) statesByItem.set(item, state);
      }
    }
    match((item) => this.#byId.get(nonEmptyTextAt(item, "id") ?? ""));
    match((item) => {
      const candidates = statesByCall.get(callKey(item, null) ?? "") ?? [];
      while (candidates.length > 0) {
        const state = candidates.pop();
        if (state !== undefined && unmatched.has(state)) return state;
      }
      return undefined;
    });
    match((item, at) => (isProgramCall(item) ? undefined : this.#byIndex.get(at)));
    return statesByItem;
  }
}
