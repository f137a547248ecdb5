// Reads what happens in a session: entries from the log, each once and in order, and what is heard in between while it is heard. A reader takes at
// its own pace; one that is slow, leaves, or comes back with its cursor costs nobody else anything (H6).
//
// Rules:
//   1. Live items come behind the entry they follow, so no delta of a step is seen before the entries of the step before.
//   2. An entry that settles a try: a reader in the middle of that very try gets what is missing of its text; one in the middle of another gets a
//      `step_reset` first; one that has seen none of it gets the entry alone (Q7).
//   3. An attempt that is newer than the one a reader is in the middle of begins with a `step_reset`, which precedes everything else of that attempt, its
//      `message_started` too. Live items of an older attempt are left out.

import type { AssistantMessage, RuntimeEvent, TurnEvent } from "../../model/internal.ts";
import type { NumberedEvent } from "../rows/session-write.ts";
import type { Query, HostStorage } from "../rows/storage.ts";
import type { Cursor, Position } from "./cursor.ts";
import type { Channel, Hub } from "./hub.ts";
import type { LiveItem } from "./live.ts";

import { readValue } from "../rows/stored.ts";
import { renderCursor } from "./cursor.ts";
import { missingTexts, textOf, withText } from "./live.ts";

/** How many entries are read at a time. */
const page = 256;

export type ReaderSource = {
  readonly hub: Hub;
  readonly storage: HostStorage;
  readonly tenant: string;
  readonly session: string;
  /** The key of the session in the hub. */
  readonly name: string;
};

/** Which events: of one turn until it has ended, or of the session from now on. */
export type ReaderAim = { readonly turn: string | null; readonly follow: boolean };

/**
 * Reads at the pace of whoever asks. It is written out by hand, and asks nobody to wait for what is there: a server has thousands of these, and each
 * promise that a delta passes through is felt.
 */
export class EventReader {
  readonly #source: ReaderSource;
  readonly #aim: ReaderAim;
  readonly #signal: AbortSignal;
  readonly #state: ReaderState;
  readonly #bell: Bell;
  /** What was found and has not been asked for. */
  #found: Iterator<RuntimeEvent> | null = null;
  #asking: Promise<void> | null = null;
  #over = false;

  constructor(source: ReaderSource, aim: ReaderAim, from: Cursor, signal: AbortSignal) {
    this.#source = source;
    this.#aim = aim;
    this.#signal = signal;
    this.#state = new ReaderState(from);
    this.#bell = new Bell(source, signal);
  }

  /** The next event; `null`: there is none, and there will be none. */
  async next(): Promise<RuntimeEvent | null> {
    try {
      for (;;) {
        const event = this.#take();
        if (event !== null) return event;
        if (this.#over) break;
        const wait = this.#look();
        if (wait !== null) await wait;
      }
    } catch (error) {
      this.stop();
      throw error;
    }
    this.stop();
    return null;
  }

  stop(): void {
    this.#over = true;
    this.#bell.stop();
  }

  /** What is at hand. */
  #take(): RuntimeEvent | null {
    if (this.#signal.aborted) this.#over = true;
    const { turn } = this.#aim;
    while (!this.#over && this.#found !== null) {
      const { done, value } = this.#found.next();
      if (done === true) break;
      if (turn !== null && value.turnId !== turn) continue;
      if (turn !== null && isEnd(value)) this.#over = true;
      return value;
    }
    this.#found = null;
    return null;
  }

  /** Looks for more; what to wait for when there is nothing yet. */
  #look(): Promise<void> | null {
    const rung = this.#bell.rings;
    const found = here(this.#source, this.#state, this.#aim.turn);
    if (found !== null) return this.#took(found, rung);
    // Whoever asks twice at once is answered by one look.
    this.#asking ??= this.#ask(rung).finally(() => {
      this.#asking = null;
    });
    return this.#asking;
  }

  async #ask(rung: number): Promise<void> {
    await this.#took(await elsewhere(this.#source, this.#state, this.#aim.turn), rung);
  }

  #took(found: Found, rung: number): Promise<void> | null {
    if (found.more || found.entries.length > 0 || found.items.length > 0) {
      this.#found = eventsIn(found, this.#state);
      return null;
    }
    if (found.over || !this.#aim.follow) {
      this.#over = true;
      return null;
    }
    return this.#bell.after(rung);
  }
}

/** The last thing that is said of a turn. One that was parked may go on. */
function isEnd({ sequence, event }: RuntimeEvent): boolean {
  return sequence !== null && event.type === "chat_completed";
}

function* eventsIn(found: Found, state: ReaderState): Generator<RuntimeEvent> {
  for (const told of found.entries) yield* state.entry(told);
  if (!found.more) for (const item of found.items) yield* state.live(item, found.turn);
}

type Found = {
  readonly entries: readonly NumberedEvent[];
  readonly items: readonly LiveItem[];
  /** The turn the items are of. */
  readonly turn: string;
  /** There are more entries than were read. */
  readonly more: boolean;
  /** Nothing more will come of the turn that was asked for. */
  readonly over: boolean;
};

const nothing: Found = { entries: [], items: [], turn: "", more: false, over: false };

/** What is known in this process; `null` when the storage has to be asked. */
function here({ hub, name }: ReaderSource, state: ReaderState, turn: string | null): Found | null {
  const channel = hub.get(name);
  // Of a turn that is not the one driven here, the storage knows whether there is more to come.
  if (channel === null || (turn !== null && turn !== channel.turn)) return null;
  const entries = channel.behind(state.sequence);
  return entries === null ? null : local(channel, entries, state);
}

function local(channel: Channel, entries: readonly NumberedEvent[], state: ReaderState): Found {
  const base = { ...nothing, turn: channel.turn };
  if (entries.length > 0) return { ...base, entries };
  const { tail } = channel;
  const { items, next } = tail.after <= state.sequence ? tail.from(state.placeIn(tail)) : { items: [], next: 0 };
  if (items.length > 0) state.readTail(tail, next);
  return { ...base, items };
}

async function elsewhere(source: ReaderSource, state: ReaderState, turn: string | null): Promise<Found> {
  const { tenant, session, storage } = source;
  const entriesQuery: Query = { table: "events", prefix: [tenant, session], after: state.sequence, limit: page };
  const headQuery: Query = { table: "sessions", prefix: [tenant, session] };
  const turnQuery: Query = { table: "turns", prefix: [tenant, session, turn ?? ""] };
  const piecesQuery = (open: string): Query => ({
    table: "pieces",
    prefix: [tenant, session, open],
    after: state.pieces(open),
  });
  const known = state.openTurn;
  const asked = [entriesQuery, piecesQuery(known ?? ""), headQuery, turnQuery];
  const [rows = [], pieces = [], heads = [], turns = []] = await storage.read(asked);
  const entries = rows.map((row): NumberedEvent => ({
    sequence: Number(row.key[2]),
    stored: readValue("events", row),
  }));
  if (entries.length > 0) return { ...nothing, entries, more: entries.length === page };
  const [headRow] = heads;
  const head = headRow === undefined ? null : readValue("sessions", headRow);
  const open = head?.turn ?? null;
  if (open !== known) {
    state.openTurn = open;
    if (open !== null) return { ...nothing, more: true };
  }
  const items = pieces.flatMap((row) => {
    state.readPiece(open ?? "", Number(row.key[3]));
    const { effectId, epoch, n, after, items: heard } = readValue("pieces", row);
    return after < state.sequence ? [] : heard.map((item): LiveItem => ({ ...item, effectId, epoch, n }));
  });
  const [turnRow] = turns;
  const progress = turnRow === undefined ? null : readValue("turns", turnRow);
  // What a turn came to is stored before it is told where the log is a storage of its own.
  const isTold = progress !== null && state.sequence >= progress.sequence;
  const ended = progress?.status === "ended" || progress?.status === "parked";
  const over = head === null || head.deleted || (turn !== null && ended && isTold);
  return { ...nothing, turn: open ?? "", items, over: over && items.length === 0 };
}

/** Is a live event part of a reply, and not of a tool call or of the time between two attempts? */
function isOfReply({ type }: TurnEvent): boolean {
  return type !== "tool_execution_started" && type !== "tool_progress" && type !== "retry_scheduled";
}

/** What one reader has read. */
class ReaderState {
  sequence: number;
  openTurn: string | null = null;
  #position: Position | null;
  #offsets: Map<string, number>;
  #tail: { readonly of: object; readonly place: number } | null = null;
  #pieces: { readonly turn: string; readonly place: number } = { turn: "", place: 0 };

  constructor({ sequence, position }: Cursor) {
    this.sequence = sequence;
    this.#offsets = new Map(position?.offsets);
    this.#position = position === null ? null : { ...position, offsets: this.#offsets };
  }

  placeIn(tail: object): number {
    return this.#tail?.of === tail ? this.#tail.place : 0;
  }

  readTail(tail: object, place: number): void {
    this.#tail = { of: tail, place };
  }

  pieces(turn: string): number {
    return this.#pieces.turn === turn ? this.#pieces.place : 0;
  }

  readPiece(turn: string, place: number): void {
    this.#pieces = { turn, place };
  }

  *entry({ sequence, stored }: NumberedEvent): Generator<RuntimeEvent> {
    const { settles, turn, event } = stored;
    const open = this.#position;
    if (settles !== null && open !== null && this.#offsets.size > 0) {
      const sameTry = open.effectId === settles.effectId && open.epoch === settles.epoch && open.n === settles.n;
      if (!sameTry)
        yield this.#reset(turn, settles.effectId === "" ? { ...settles, effectId: open.effectId } : settles);
      else if (event.type === "message_completed") yield* this.#missing(turn, open, event.message);
    }
    this.sequence = sequence;
    this.#forget();
    yield { cursor: this.#cursor(), turnId: turn, sequence, delta: null, event };
  }

  *live(item: LiveItem, turn: string): Generator<RuntimeEvent> {
    const { effectId, epoch, n, part, offset, event } = item;
    const of = { effectId, epoch, n };
    const order = this.#orderOf(of);
    if (order < 0) return;
    if (part === null && event.type !== "step_reset") {
      if (order > 0 && this.#position?.effectId === effectId) yield this.#reset(turn, of);
      else if (order > 0 && isOfReply(event)) this.#begin(of);
      yield { cursor: this.#cursor(), turnId: turn, sequence: null, delta: null, event };
      return;
    }
    if (part === null) {
      // Whoever is in the try that follows a reset is behind it already.
      if (order === 0) return;
      this.#begin(of);
      yield { cursor: this.#cursor(), turnId: turn, sequence: null, delta: null, event };
      return;
    }
    if (order > 0 && (this.#position?.effectId === effectId || this.#offsets.size > 0)) yield this.#reset(turn, of);
    else if (order > 0) this.#begin(of);
    const text = textOf(event)?.delta ?? "";
    const known = this.#offsets.get(part) ?? 0;
    // Something in between could not be shown: it is told, with the rest, when the reply is settled.
    if (offset > known) return;
    const fresh = text.slice(Math.max(0, known - offset));
    if (fresh === "") return;
    this.#offsets.set(part, known + fresh.length);
    const delta = { attempt: { epoch, n }, part, offset: known };
    yield { cursor: this.#cursor(), turnId: turn, sequence: null, delta, event: withText(event, fresh) };
  }

  /** The rest of a text that was being read when it was settled. */
  *#missing(turn: string, open: Position, message: AssistantMessage): Generator<RuntimeEvent> {
    const { epoch, n } = open;
    for (const { part, offset, text } of missingTexts(message, this.#offsets)) {
      this.#offsets.set(part, offset + text.length);
      const delta = { attempt: { epoch, n }, part, offset };
      const type = part.startsWith("text/") ? "text_delta" : "reasoning_delta";
      const event: TurnEvent = { type, id: null, delta: text };
      yield { cursor: this.#cursor(), turnId: turn, sequence: null, delta, event };
    }
  }

  /** Is that another try than the one this reader is in: a newer one (1), an older one (-1), or the same (0)? */
  #orderOf({ effectId, epoch, n }: Omit<Position, "offsets">): number {
    const open = this.#position;
    if (open === null || open.effectId !== effectId) return 1;
    return Math.sign(epoch - open.epoch) || Math.sign(n - open.n);
  }

  #reset(turn: string, of: Omit<Position, "offsets">): RuntimeEvent {
    this.#begin(of);
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

  #begin({ effectId, epoch, n }: Omit<Position, "offsets">): void {
    this.#offsets = new Map();
    this.#position = { effectId, epoch, n, offsets: this.#offsets };
  }

  #forget(): void {
    this.#position = null;
    this.#offsets = new Map();
  }

  #cursor(): string {
    return renderCursor({ sequence: this.sequence, position: this.#position });
  }
}

/** Rings when there may be something new. */
class Bell {
  rings = 0;
  readonly #stops: (() => void)[] = [];
  #channel: { readonly of: Channel; readonly stop: () => void } | null = null;
  #unwatch: (() => void) | null = null;
  #waiting: (() => void)[] = [];
  readonly #source: ReaderSource;

  constructor(source: ReaderSource, signal: AbortSignal) {
    this.#source = source;
    this.#stops.push(source.hub.onOpen(source.name, this.#ring));
    signal.addEventListener("abort", this.#ring, { once: true });
    this.#stops.push(() => signal.removeEventListener("abort", this.#ring));
  }

  readonly #ring = (): void => {
    this.rings += 1;
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    for (const go of waiting) go();
  };

  /** Somebody wrote; to another session, that is nothing new. */
  readonly #heard = (sessions?: ReadonlySet<string>): void => {
    if (sessions === undefined || sessions.has(this.#source.name)) this.#ring();
  };

  /** Resolves when it has rung since then; `null`: it has. */
  after(rings: number): Promise<void> | null {
    this.#attend();
    if (this.rings !== rings) return null;
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  /** What is driven here tells by itself; for the rest the storage is watched. */
  #attend(): void {
    const channel = this.#source.hub.get(this.#source.name);
    if ((this.#channel?.of ?? null) !== channel) {
      this.#channel?.stop();
      this.#channel = channel === null ? null : { of: channel, stop: channel.listen(this.#ring) };
      // Something may have been said before anybody listened.
      this.rings += 1;
    }
    if (channel !== null) {
      this.#unwatch?.();
      this.#unwatch = null;
    } else if (this.#unwatch === null) {
      this.#unwatch = this.#source.storage.watch(this.#heard);
      this.rings += 1;
    }
  }

  stop(): void {
    for (const stop of this.#stops) stop();
    this.#channel?.stop();
    this.#unwatch?.();
    this.#ring();
  }
}
