// Reads the events of a session: stored events from the log, each once and in order, and live events in between. A
// reader pulls at its own pace. A reader that is slow, disconnects, or returns with its cursor affects neither the turn
// nor other readers (H6).
//
// Theory of operation
//   `EventReader.next` returns a buffered event, or reads more:
//     local     the session is driven in this process: stored events and live items come from its channel (`hub.ts`),
//               without a promise
//     stored    otherwise, or if the channel no longer has the events: one read of the storage returns the next page of
//               events, the pieces of the open turn, the session row and the turn row
//   If there is nothing new, the reader waits for a wake-up (`WakeSignal`): from the channel, from the hub when the
//   session begins to be driven here, or from a watch of the storage. The wake-up counter is read before the data, so a
//   write in between is not missed. `ReaderState` turns what was read into events for this reader, depending on its
//   cursor.
//
//   Memory. A page has at most `pageLength` characters, or one event. The number of rows that are asked for follows the
//   size of the last page, so that the storage does not load rows that the length cuts off. While a page waits for the
//   consumer it counts in the page budget of the process, which may drop it; the reader then reads it again after the
//   last event that it has returned. Live items are not dropped: they are not stored.
//
// Invariants
//   1. Live items follow the stored event named by their `after`, so no delta of a step precedes the events of the step
//      before.
//   2. A stored event that completes a model call names the attempt that succeeded. What a reader gets before this
//      event depends on the live text it has received (Q7):
//        part of that attempt      the missing text
//        part of another attempt   a `step_reset`
//        none                      nothing
//   3. An attempt that is newer than the one the reader is in begins with a `step_reset`, which precedes all other
//      events of that attempt, also its `message_started`. Live items of an older attempt are skipped.
//   4. A reader of one turn ends after the stored `chat_completed` of that turn.

import type { FairShare } from "../../core/fair/fair-share.ts";
import type { AssistantMessage, RuntimeEvent, TurnEvent } from "../../core/model/internal.ts";
import type { NumberedEvent } from "../rows/session-write.ts";
import type { Query, HostStorage } from "../rows/storage.ts";
import type { Cursor, Position } from "./cursor.ts";
import type { Channel, Hub } from "./hub.ts";
import type { LiveItem } from "./live.ts";

import { deltaText, missingTexts, modelEventTypes } from "../../core/model/internal.ts";
import { rowLength } from "../rows/large-values.ts";
import { readValue } from "../rows/stored.ts";
import { renderCursor } from "./cursor.ts";
import { withText } from "./live.ts";
import { pageLength } from "./page-budget.ts";

/** How many stored events are read at a time: the first time, at least and at most. */
const firstPageSize = 16;
const minPageSize = 4;
const maxPageSize = 256;

/** A page of more characters is expensive to read, see page-budget.ts. */
const catchUpLength = pageLength / 4;

/** How many live items are taken at a time: a consumer that stops reading keeps them in memory. */
const maxLiveItems = 256;

/** Where a reader reads from. */
export type ReaderSource = {
  readonly hub: Hub;
  readonly storage: Pick<HostStorage, "read" | "watch">;
  /** The pages in memory, in characters. */
  readonly pages: FairShare;
  /** The reads in progress. */
  readonly permits: FairShare;
  readonly tenant: string;
  readonly session: string;
  /** The name of the session in the hub and in `HostStorage.watch`. */
  readonly name: string;
};

/** What a reader reads: the events of one turn until it has ended, or of all turns. `follow`: waits for new events. */
export type ReaderAim = { readonly turn: string | null; readonly follow: boolean };

/**
 * A pull reader. It is a hand-written state machine instead of an async generator: a server has thousands of readers,
 * and every promise that a delta passes through costs measurable time. Events that are in memory are returned without
 * awaiting anything else.
 */
export class EventReader {
  readonly #source: ReaderSource;
  readonly #aim: ReaderAim;
  readonly #signal: AbortSignal;
  readonly #state: ReaderState;
  readonly #wakeSignal: WakeSignal;
  /** Events that were read and not yet returned. */
  #buffered: Iterator<RuntimeEvent> | null = null;
  /** Ends the count of the page of the buffered events; `null`: none is counted. */
  #endPage: (() => void) | null = null;
  /** The read of the storage in progress, which concurrent calls of `next` share. */
  #reading: Promise<void> | null = null;
  #over = false;

  constructor(source: ReaderSource, aim: ReaderAim, from: Cursor, signal: AbortSignal) {
    this.#source = source;
    this.#aim = aim;
    this.#signal = signal;
    this.#state = new ReaderState(from);
    this.#wakeSignal = new WakeSignal(source, signal);
  }

  /** The next event; `null`: the reader has ended. */
  async next(): Promise<RuntimeEvent | null> {
    try {
      for (;;) {
        const event = this.#takeBuffered();
        if (event !== null) return event;
        if (this.#over) break;
        const wait = this.#readMore();
        if (wait !== null) await wait;
      }
    } catch (error) {
      this.stop();
      throw error;
    }
    this.stop();
    return null;
  }

  /** Ends the reader and its subscriptions. */
  stop(): void {
    this.#over = true;
    this.#releasePage();
    this.#wakeSignal.stop();
  }

  #releasePage(): void {
    this.#endPage?.();
    this.#endPage = null;
  }

  /** The next buffered event that the reader wants; `null`: none is buffered. */
  #takeBuffered(): RuntimeEvent | null {
    if (this.#signal.aborted) this.#over = true;
    const { turn } = this.#aim;
    while (!this.#over && this.#buffered !== null) {
      const { done, value } = this.#buffered.next();
      if (done === true) break;
      if (turn !== null && value.turnId !== turn) continue;
      if (turn !== null && isEnd(value)) this.#over = true;
      return value;
    }
    this.#buffered = null;
    this.#releasePage();
    return null;
  }

  /** Reads more events. Returns a promise to await before the next try; `null`: try again at once. */
  #readMore(): Promise<void> | null {
    const countBefore = this.#wakeSignal.wakeCount;
    const result = readLocal(this.#source, this.#state, this.#aim.turn);
    if (result !== null) return this.#accept(result, countBefore);
    this.#reading ??= this.#readFromStorage(countBefore).finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #readFromStorage(countBefore: number): Promise<void> {
    const { permits, tenant } = this.#source;
    const read = () => readStored(this.#source, this.#state, this.#aim.turn);
    // A reader that catches up with a long log waits for a permit. One that follows a turn does not: its reads are
    // small, and are joined with those of others.
    const result = this.#state.isCatchingUp ? await permits.run(tenant, read) : await read();
    // The reader was stopped during the read.
    if (!this.#over) await this.#accept(result, countBefore);
  }

  /** Buffers what was read. If it is nothing, ends the reader or waits for a wake-up. */
  #accept(result: ReadResult, countBefore: number): Promise<void> | null {
    if (result.more || result.events.length > 0 || result.items.length > 0) {
      const page = new Page(result.events);
      this.#buffered = eventsOf(page, result, this.#state);
      this.#releasePage();
      if (page.length > 0) {
        const { pages, tenant } = this.#source;
        this.#endPage = pages.hold(tenant, page.length, () => page.drop());
      }
      return null;
    }
    if (result.over || !this.#aim.follow) {
      this.#over = true;
      return null;
    }
    return this.#wakeSignal.after(countBefore);
  }
}

/** Returns whether an event is the last one of its turn. The `error` of a parked turn is not: the turn may continue. */
function isEnd({ sequence, event }: RuntimeEvent): boolean {
  return sequence !== null && event.type === "chat_completed";
}

/** The stored events of one read. */
class Page {
  /** In characters of the stored rows. */
  readonly length: number;
  #events: readonly NumberedEvent[];
  #next = 0;

  constructor(events: readonly NumberedEvent[]) {
    this.#events = events;
    this.length = events.reduce((sum, { length }) => sum + length, 0);
  }

  /** The next event; `null`: all were taken, or the page was dropped. */
  take(): NumberedEvent | null {
    const event = this.#events[this.#next] ?? null;
    this.#next += 1;
    return event;
  }

  drop(): void {
    this.#events = [];
  }
}

/** The events for the reader, stored ones first. Lazy: the state of the reader changes as it takes them. */
function* eventsOf(page: Page, result: ReadResult, state: ReaderState): Generator<RuntimeEvent> {
  for (let event = page.take(); event !== null; event = page.take()) yield* state.storedEvents(event);
  if (!result.more) for (const item of result.items) yield* state.liveEvents(item, result.turn);
}

/** What one read returned. */
type ReadResult = {
  readonly events: readonly NumberedEvent[];
  readonly items: readonly LiveItem[];
  /** The turn of the live items. */
  readonly turn: string;
  /** There is more to read at once. */
  readonly more: boolean;
  /** No further event will be written for the turn, or the session is gone. */
  readonly over: boolean;
};

const nothing: ReadResult = { events: [], items: [], turn: "", more: false, over: false };

/** Reads from the channel of the session; `null`: the storage has to be read. */
function readLocal({ hub, name }: ReaderSource, state: ReaderState, turn: string | null): ReadResult | null {
  const channel = hub.get(name);
  // For another turn than the one driven here, only the storage knows whether it has ended.
  if (channel === null || (turn !== null && turn !== channel.turn)) return null;
  const events = channel.eventsAfter(state.sequence, pageLength);
  return events === null ? null : fromChannel(channel, events, state);
}

function fromChannel(channel: Channel, events: readonly NumberedEvent[], state: ReaderState): ReadResult {
  const base = { ...nothing, turn: channel.turn };
  if (events.length > 0) return { ...base, events };
  const { tail } = channel;
  // The reader may be ahead of the channel: the events are stored, and this process has no answer to its commit yet.
  // The tail is then replaced.
  const isNext = tail.after === state.sequence;
  const { items, next } = isNext ? tail.from(state.positionIn(tail), maxLiveItems) : { items: [], next: 0 };
  if (items.length > 0) state.readTail(tail, next);
  return { ...base, items };
}

/** Reads from the storage: one snapshot of events, pieces, session row and turn row. */
async function readStored(source: ReaderSource, state: ReaderState, turn: string | null): Promise<ReadResult> {
  const { tenant, session, storage } = source;
  const eventsQuery: Query = {
    table: "events",
    prefix: [tenant, session],
    after: state.sequence,
    limit: state.pageSize,
    maxLength: pageLength,
  };
  const headQuery: Query = { table: "sessions", prefix: [tenant, session] };
  const turnQuery: Query = { table: "turns", prefix: [tenant, session, turn ?? ""] };
  const piecesQuery = (open: string): Query => ({
    table: "pieces",
    prefix: [tenant, session, open],
    after: state.pieces(open),
    maxLength: pageLength,
  });
  const lastOpenTurn = state.openTurn;
  const queries = [eventsQuery, piecesQuery(lastOpenTurn ?? ""), headQuery, turnQuery];
  const [rows = [], pieces = [], heads = [], turns = []] = await storage.read(queries);
  const events = rows.map((row): NumberedEvent => ({
    sequence: Number(row.key[2]),
    stored: readValue("events", row),
    length: rowLength(row),
  }));
  if (events.length > 0) {
    // A page that was not cut off by its length may be followed by a larger one.
    const isCut = events.length < state.pageSize;
    state.pageSize = Math.min(maxPageSize, isCut ? Math.max(minPageSize, events.length) : 2 * state.pageSize);
    const length = events.reduce((sum, event) => sum + event.length, 0);
    state.isCatchingUp = length > catchUpLength;
    return { ...nothing, events, more: true };
  }
  state.isCatchingUp = false;
  const [headRow] = heads;
  const head = headRow === undefined ? null : readValue("sessions", headRow);
  const open = head?.turn ?? null;
  // The pieces were read for the turn that was open before: read again for the one that is open now.
  if (open !== lastOpenTurn) {
    state.openTurn = open;
    if (open !== null) return { ...nothing, more: true };
  }
  const items = pieces.flatMap((row) => {
    state.readPiece(open ?? "", Number(row.key[3]));
    const { effectId, epoch, n, after, items: pieceItems } = readValue("pieces", row);
    return after < state.sequence ? [] : pieceItems.map((item): LiveItem => ({ ...item, effectId, epoch, n }));
  });
  const [turnRow] = turns;
  const progress = turnRow === undefined ? null : readValue("turns", turnRow);
  // There is no further event of the turn in this snapshot: all of them were read, or were removed after the retention
  // time.
  const ended = progress?.status === "ended" || progress?.status === "parked";
  const over = head === null || head.deleted || (turn !== null && ended);
  return { ...nothing, turn: open ?? "", items, over: over && items.length === 0 };
}

/** The position of one reader, and the rules that turn stored events and live items into its events (Q7). */
class ReaderState {
  /** The sequence number of the last stored event. */
  sequence: number;
  /** The open turn as of the last read of the storage. */
  openTurn: string | null = null;
  /** The reader has just begun, or the last page was large: its next read may be expensive. */
  isCatchingUp = true;
  /** How many events the next read of the storage asks for. */
  pageSize: number = firstPageSize;
  /** The attempt that the reader has received part of. */
  #position: Position | null;
  /** The number of characters received, by part of that attempt. */
  #offsets: Map<string, number>;
  #tail: { readonly of: object; readonly place: number } | null = null;
  #pieces: { readonly turn: string; readonly place: number } = { turn: "", place: 0 };

  constructor({ sequence, position }: Cursor) {
    this.sequence = sequence;
    this.#offsets = new Map(position?.offsets);
    this.#position = position === null ? null : { ...position, offsets: this.#offsets };
  }

  /** The place in a tail from which the reader continues; 0 in another tail than before. */
  positionIn(tail: object): number {
    return this.#tail?.of === tail ? this.#tail.place : 0;
  }

  /** Records that the tail was read up to a place. */
  readTail(tail: object, place: number): void {
    this.#tail = { of: tail, place };
  }

  /** The position of the last piece read of a turn. */
  pieces(turn: string): number {
    return this.#pieces.turn === turn ? this.#pieces.place : 0;
  }

  /** Records that a piece was read. */
  readPiece(turn: string, place: number): void {
    this.#pieces = { turn, place };
  }

  /** The events for a stored event: missing text or a reset, then the event itself (invariant 2). */
  *storedEvents({ sequence, stored }: NumberedEvent): Generator<RuntimeEvent> {
    const { settles, turn, event } = stored;
    const open = this.#position;
    if (settles !== null && open !== null && this.#offsets.size > 0) {
      const isSameAttempt = open.effectId === settles.effectId && open.epoch === settles.epoch && open.n === settles.n;
      if (!isSameAttempt)
        yield this.#reset(turn, settles.effectId === "" ? { ...settles, effectId: open.effectId } : settles);
      else if (event.type === "message_completed") yield* this.#missingText(turn, open, event.message);
    }
    this.sequence = sequence;
    this.#leaveAttempt();
    yield { cursor: this.#cursor(), turnId: turn, sequence, delta: null, event };
  }

  /** The events for a live item: none if the reader has it already, a reset before a newer attempt (invariant 3). */
  *liveEvents(item: LiveItem, turn: string): Generator<RuntimeEvent> {
    const { effectId, epoch, n, part, offset, event } = item;
    const of = { effectId, epoch, n };
    const order = this.#orderOf(of);
    if (order < 0) return;
    if (part === null && event.type !== "step_reset") {
      if (order > 0 && this.#position?.effectId === effectId) yield this.#reset(turn, of);
      // Others belong to a tool call, to a summary, or to the delay between two attempts.
      else if (order > 0 && modelEventTypes.has(event.type)) this.#enterAttempt(of);
      yield { cursor: this.#cursor(), turnId: turn, sequence: null, delta: null, event };
      return;
    }
    if (part === null) {
      // The reader is in the attempt that the reset announces, so it has passed the reset.
      if (order === 0) return;
      this.#enterAttempt(of);
      yield { cursor: this.#cursor(), turnId: turn, sequence: null, delta: null, event };
      return;
    }
    if (order > 0 && (this.#position?.effectId === effectId || this.#offsets.size > 0)) yield this.#reset(turn, of);
    else if (order > 0) this.#enterAttempt(of);
    const text = deltaText(event)?.delta ?? "";
    const received = this.#offsets.get(part) ?? 0;
    // A gap: a delta in between was lost. The reader gets the rest of the text when the reply is settled.
    if (offset > received) return;
    const newText = text.slice(Math.max(0, received - offset));
    if (newText === "") return;
    this.#offsets.set(part, received + newText.length);
    const delta = { attempt: { epoch, n }, part, offset: received };
    yield { cursor: this.#cursor(), turnId: turn, sequence: null, delta, event: withText(event, newText) };
  }

  /** Deltas with the text that the reader lacks of the attempt that was settled. */
  *#missingText(turn: string, open: Position, message: AssistantMessage): Generator<RuntimeEvent> {
    const { epoch, n } = open;
    for (const { type, part, offset, text } of missingTexts(message, this.#offsets)) {
      this.#offsets.set(part, offset + text.length);
      const delta = { attempt: { epoch, n }, part, offset };
      const event: TurnEvent = { type: `${type}_delta`, id: null, delta: text };
      yield { cursor: this.#cursor(), turnId: turn, sequence: null, delta, event };
    }
  }

  /** Compares an attempt with the one that the reader is in: 1 newer or of another effect, -1 older, 0 the same. */
  #orderOf({ effectId, epoch, n }: Omit<Position, "offsets">): number {
    const open = this.#position;
    if (open === null || open.effectId !== effectId) return 1;
    return Math.sign(epoch - open.epoch) || Math.sign(n - open.n);
  }

  /** A `step_reset`: the reader discards what it has received of the last attempt and enters another one. */
  #reset(turn: string, of: Omit<Position, "offsets">): RuntimeEvent {
    this.#enterAttempt(of);
    const { effectId, epoch, n } = of;
    const event: TurnEvent = {
      type: "step_reset",
      reason: "recovery",
      withdrawn: [],
      effectId,
      attempt: { epoch, n },
    };
    return { cursor: this.#cursor(), turnId: turn, sequence: null, delta: null, event };
  }

  /** Enters an attempt with nothing received. */
  #enterAttempt({ effectId, epoch, n }: Omit<Position, "offsets">): void {
    this.#offsets = new Map();
    this.#position = { effectId, epoch, n, offsets: this.#offsets };
  }

  #leaveAttempt(): void {
    this.#position = null;
    this.#offsets = new Map();
  }

  #cursor(): string {
    return renderCursor({ sequence: this.sequence, position: this.#position });
  }
}

/**
 * Wakes a reader when there may be something new, and counts wake-ups so that none is lost between a read and a wait.
 */
class WakeSignal {
  wakeCount = 0;
  readonly #stops: (() => void)[] = [];
  /** The channel that the reader listens to. */
  #channel: { readonly of: Channel; readonly stop: () => void } | null = null;
  #unwatch: (() => void) | null = null;
  #waiters: (() => void)[] = [];
  readonly #source: ReaderSource;

  constructor(source: ReaderSource, signal: AbortSignal) {
    this.#source = source;
    this.#stops.push(source.hub.onOpen(source.name, this.#wake));
    signal.addEventListener("abort", this.#wake, { once: true });
    this.#stops.push(() => signal.removeEventListener("abort", this.#wake));
  }

  readonly #wake = (): void => {
    this.wakeCount += 1;
    const waiters = this.#waiters;
    if (waiters.length === 0) return;
    this.#waiters = [];
    for (const go of waiters) go();
  };

  /** A write to the storage; one that did not touch the session is ignored. */
  readonly #onStorageWrite = (sessions?: ReadonlySet<string>): void => {
    if (sessions === undefined || sessions.has(this.#source.name)) this.#wake();
  };

  /** Resolves at the next wake-up; `null`: there was one since the count was `count`. */
  after(count: number): Promise<void> | null {
    this.#subscribe();
    if (this.wakeCount !== count) return null;
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
    });
  }

  /** Subscribes to the channel if the session is driven here, otherwise to the storage. */
  #subscribe(): void {
    const channel = this.#source.hub.get(this.#source.name);
    if ((this.#channel?.of ?? null) !== channel) {
      this.#channel?.stop();
      this.#channel = channel === null ? null : { of: channel, stop: channel.listen(this.#wake) };
      // Events may have been published before the subscription: counts as a wake-up.
      this.wakeCount += 1;
    }
    if (channel !== null) {
      this.#unwatch?.();
      this.#unwatch = null;
    } else if (this.#unwatch === null) {
      this.#unwatch = this.#source.storage.watch(this.#onStorageWrite);
      this.wakeCount += 1;
    }
  }

  stop(): void {
    for (const stop of this.#stops) stop();
    this.#channel?.stop();
    this.#unwatch?.();
    this.#wake();
  }
}
