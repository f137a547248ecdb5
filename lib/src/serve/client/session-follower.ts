// Follows a session on a server: reads it, then the events of its open turn, and waits for the next turn while none is
// open. It holds what was read last. The header of conversation.ts describes the order of the requests.

import type { Clock } from "../../core/clock/clock.ts";
import type { RuntimeEvent, SessionView, TurnEvent } from "../../core/model/internal.ts";
import type { ConversationSnapshot } from "./conversation.ts";
import type { EverturnClient } from "./types.ts";

import { startTimer } from "../../core/clock/timer.ts";
import { TurnView } from "../../core/model/internal.ts";
import { isNotFound } from "./errors.ts";

/** What a follower needs. */
export type FollowSettings = {
  readonly client: EverturnClient;
  /** The id of the session. */
  readonly id: string;
  /** How many of the newest messages are read; `undefined`: all. */
  readonly limit: number | undefined;
  /** How long it waits before it connects again, in milliseconds. */
  readonly retryMs: number;
  readonly clock: Clock;
  /** Called after each change of the state. */
  readonly onChange: () => void;
};

/** What was read last. */
export type FollowState = Pick<ConversationSnapshot, "connection" | "error" | "session" | "turn">;

/** An open turn, and the cursor of the last event of it that was read. */
type OpenTurn = { readonly turnId: string; readonly view: TurnView; cursor: string | null };

/** How long a follower waits before it asks again for a session that does not exist yet, in milliseconds. */
const absentMs = 10_000;

/** A conversation without a connection for this long is not `live` any more, in milliseconds. */
const noticeMs = 2000;

/** Follows one session for a conversation. */
export class SessionFollower {
  readonly #settings: FollowSettings;
  #session: SessionView | null = null;
  #open: OpenTurn | null = null;
  #connection: FollowState["connection"] = "idle";
  #error: Error | null = null;
  /** The cursor of the last event of the session that was read; `null`: none was. */
  #position: string | null = null;
  /** Ends the timer that notices a missing connection; `null`: there is a connection. */
  #cancelNotice: (() => void) | null = null;

  constructor(settings: FollowSettings) {
    this.#settings = settings;
  }

  get state(): FollowState {
    const turn = this.#open?.view.snapshot ?? null;
    return { connection: this.#connection, error: this.#error, session: this.#session, turn };
  }

  /** The id of the open turn; `null`: none is open. */
  get openTurnId(): string | null {
    return this.#open?.turnId ?? null;
  }

  /** Sets the connection of a follower that begins, or that has ended. */
  mark(connection: "idle" | "loading"): void {
    [this.#connection, this.#error] = [connection, null];
  }

  /** Follows the session until the signal aborts, or the session does not exist. */
  async follow(signal: AbortSignal): Promise<void> {
    const { retryMs, clock, onChange } = this.#settings;
    while (!signal.aborted) {
      try {
        if (!(await this.#readSession(signal))) return;
      } catch (thrown) {
        this.#connected();
        if (signal.aborted) return;
        this.#error = thrown instanceof Error ? thrown : new Error(String(thrown));
        this.#connection = "reconnecting";
        onChange();
        await clock.sleep(retryMs, signal).catch(() => undefined);
      }
    }
  }

  /** Reads the session, then its events until it has to be read again. Returns `false` if there is no more to read. */
  async #readSession(signal: AbortSignal): Promise<boolean> {
    const { client, id, limit, onChange } = this.#settings;
    this.#expectConnection(null);
    const read: SessionView | null = await client.get(id, {
      signal,
      ...(limit === undefined ? {} : { messages: limit }),
    });
    this.#connected();
    if (signal.aborted) return false;
    const turn = read?.openTurn ?? null;
    const isGone = read === null && (this.#session !== null || this.#connection === "gone");
    [this.#session, this.#error, this.#connection] = [read, null, isGone ? "gone" : "live"];
    if (turn === null) this.#open = null;
    else if (turn.turnId !== this.#open?.turnId) {
      this.#open = { turnId: turn.turnId, view: new TurnView(), cursor: null };
    }
    if (read === null) this.#position = null;
    onChange();
    if (read === null) {
      if (isGone) return false;
      // Another client may start the session, which has no events to wait for yet.
      await this.#settings.clock.sleep(absentMs, signal);
      return true;
    }
    if (this.#open !== null) await this.#readTurn(this.#open, turn?.status === "parked", signal);
    else {
      this.#position ??= await this.#lastCursor(read, signal);
      await this.#nextEvent(({ type }) => type === "turn_started", signal);
    }
    return true;
  }

  /** Shows that there is no connection, if there is none in time. `cut`: why; `null`: a request was sent. */
  #expectConnection(cut: Error | null): void {
    if (this.#cancelNotice !== null) return;
    const { clock, onChange } = this.#settings;
    this.#cancelNotice = startTimer(clock, noticeMs, () => {
      if (this.#connection !== "live") return;
      this.#error = cut ?? new Error(`the server has not responded for ${noticeMs} ms`);
      this.#connection = "reconnecting";
      onChange();
    });
  }

  /** There is a connection, or none is needed. */
  #connected(): void {
    this.#cancelNotice?.();
    this.#cancelNotice = null;
  }

  /** What the streams report about their connections. */
  readonly #onConnection = (cut: Error | null): void => {
    if (cut !== null) return this.#expectConnection(cut);
    this.#connected();
    if (this.#connection !== "reconnecting") return;
    [this.#connection, this.#error] = ["live", null];
    this.#settings.onChange();
  };

  /** The events of the session, with the connection shown while they are read. */
  async *#events(options: Parameters<EverturnClient["events"]>[1]): AsyncGenerator<RuntimeEvent, undefined> {
    const { client, id } = this.#settings;
    this.#expectConnection(null);
    try {
      yield* client.events(id, { ...options, onConnection: this.#onConnection });
    } finally {
      this.#connected();
    }
  }

  /** Reads the events of the open turn. The stream of a turn that is parked ends before the turn does. */
  async #readTurn(turn: OpenTurn, isParked: boolean, signal: AbortSignal): Promise<void> {
    const { retryMs, clock, onChange } = this.#settings;
    const after = turn.cursor === null ? {} : { after: turn.cursor };
    for await (const event of this.#events({ turnId: turn.turnId, follow: !isParked, signal, ...after })) {
      turn.cursor = this.#position = event.cursor;
      turn.view.add(event);
      onChange();
    }
    if (turn.view.snapshot.result !== null) return;
    if (isParked) await this.#nextEvent(() => true, signal);
    else await clock.sleep(retryMs, signal);
  }

  /**
   * The cursor of the last event of the newest turn; `null`: no turn of this session has ended, or its events have
   * expired.
   */
  async #lastCursor({ session: { lastRun } }: SessionView, signal: AbortSignal): Promise<string | null> {
    const turnId = lastRun?.turnId ?? null;
    let cursor: string | null = null;
    if (turnId === null) return null;
    try {
      for await (const event of this.#events({ turnId, follow: false, signal })) ({ cursor } = event);
    } catch (thrown) {
      // A fork has the result of the last turn of its original, which has no events here.
      if (!isNotFound(thrown)) throw thrown;
    }
    return cursor;
  }

  /**
   * Waits for an event after those that were read. An event of a turn that has ended meanwhile is read once: the next
   * call waits for one after it.
   */
  async #nextEvent(isAwaited: (event: TurnEvent) => boolean, signal: AbortSignal): Promise<void> {
    const after = this.#position === null ? {} : { after: this.#position };
    for await (const { event, cursor } of this.#events({ signal, ...after })) {
      this.#position = cursor;
      if (isAwaited(event)) return;
    }
  }
}
