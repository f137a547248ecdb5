// Turn handles: what verbs return, and what `attach` returns in any process. A handle reads the events of a turn and
// waits for its end.
//
// A handle holds no turn: it can be dropped, and several handles of one turn are independent (H6). The result is read
// from the turn row after the commit that ended or parked the turn, so it is the same in every process.

import type { AnySchema, OutputSchema, StandardSchema } from "../../core/engine/internal.ts";
import type { RuntimeEvent, TurnEnd } from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { TurnHandle } from "../drive/types.ts";
import type { Cursor } from "../read/cursor.ts";
import type { SessionKey } from "../rows/session-key.ts";

import { checkStandard, isStandardSchema } from "../../core/engine/internal.ts";
import { validationFailure } from "../../core/model/internal.ts";
import { find, sessionKey } from "../drive/session-rows.ts";
import { parseCursor } from "../read/cursor.ts";
import { EventReader } from "../read/reader.ts";
import { ChangeSignal } from "../rows/change-signal.ts";
import { nameOf } from "../rows/session-key.ts";
import { turnEnd, turnState } from "./turn-end.ts";

/**
 * The turn of a handle: by its id (`exists`: a verb has just stored it, so its existence is not checked; otherwise the
 * handle also waits for a turn that queued input will start); the turn that is open when the handle is used; or none.
 */
type HandleAim =
  | { readonly type: "turn"; readonly turn: string; readonly exists: boolean }
  | { readonly type: "open" }
  | { readonly type: "none" };

/**
 * A handle on a turn by its id, or on the open turn. Nothing is read before the handle is used. `isOpen`: what the
 * caller knows about the turn.
 */
export function attach(
  context: VerbContext,
  id: string,
  turnId: string | null = null,
  isOpen: boolean | null = null,
): TurnHandle {
  const aim: HandleAim = turnId === null ? { type: "open" } : { type: "turn", turn: turnId, exists: false };
  return handleOf(context, sessionKey(context, id), aim, start, isOpen);
}

/**
 * The handle that a verb returns. `turnId` is `null` if the verb started no turn. `from`: the position before the first
 * event of the turn.
 */
export function handle(
  context: VerbContext,
  key: SessionKey,
  turnId: string | null,
  from: Cursor = start,
  isOpen: boolean = turnId !== null,
): TurnHandle {
  const aim: HandleAim = turnId === null ? { type: "none" } : { type: "turn", turn: turnId, exists: true };
  return handleOf(context, key, aim, from, isOpen);
}

/**
 * The handle of a turn that queued input will start. It waits for the turn; it rejects with `not_found` if the input is
 * withdrawn.
 */
export function queuedHandle(context: VerbContext, key: SessionKey, turn: string, from: Cursor): TurnHandle {
  return handleOf(context, key, { type: "turn", turn, exists: false }, from, true);
}

const start: Cursor = { sequence: 0, position: null };

function handleOf(
  context: VerbContext,
  key: SessionKey,
  aim: HandleAim,
  from: Cursor,
  isOpen: boolean | null,
): TurnHandle {
  let result: Promise<TurnEnd> | null = null;
  return {
    sessionId: key.session,
    turnId: aim.type === "turn" ? aim.turn : null,
    isOpen,
    events: turnEvents(context, key.session, aim, from, true, null),
    // Waiting begins at the first access. The empty handler keeps an unhandled rejection from ending the process.
    get result() {
      result ??= aimedAt(context, key, aim).then((turn) => turnEnd(context, key, turn));
      result.catch(() => undefined);
      return result;
    },
  };
}

/**
 * The handle with `output` of the result validated and converted by the schema of the caller. The turn itself was
 * checked with the stored JSON Schema, which cannot express everything: refinements and conversions exist only here.
 */
export function typedHandle<Output>(of: TurnHandle, schema: OutputSchema<Output> | undefined): TurnHandle<Output>;
export function typedHandle(of: TurnHandle, schema: AnySchema | undefined): TurnHandle<unknown> {
  if (schema === undefined || !isStandardSchema(schema)) return of;
  let result: Promise<TurnEnd<unknown>> | null = null;
  const { sessionId, turnId, isOpen, events } = of;
  return {
    sessionId,
    turnId,
    isOpen,
    events,
    get result() {
      result ??= of.result.then((end) => typedEnd(end, schema));
      result.catch(() => undefined);
      return result;
    },
  };
}

async function typedEnd(end: TurnEnd, schema: StandardSchema): Promise<TurnEnd<unknown>> {
  const reply = end.finalResponse?.output ?? null;
  if (reply === null) return end;
  const checked = await checkStandard(schema, reply.value);
  if (checked.ok) return { ...end, output: checked.value };
  const failure = end.failure ?? validationFailure("invalid_output", { issues: checked.issues });
  return { ...end, output: null, failure };
}

/** The events of a session, from the first one or after a cursor. */
export function watch(
  context: VerbContext,
  id: string,
  options: {
    readonly after?: string;
    readonly turnId?: string;
    readonly follow?: boolean;
    readonly signal?: AbortSignal;
  } = {},
): AsyncIterable<RuntimeEvent> {
  const { after, turnId = null, follow = true, signal = null } = options;
  const from = after === undefined ? start : parseCursor(after);
  const aim: HandleAim | null = turnId === null ? null : { type: "turn", turn: turnId, exists: false };
  return turnEvents(context, id, aim, from, follow, signal);
}

/** The events of a turn (`aim`), or of all turns (`null`). */
function turnEvents(
  context: VerbContext,
  id: string,
  aim: HandleAim | null,
  from: Cursor,
  follow: boolean,
  signal: AbortSignal | null,
): AsyncIterable<RuntimeEvent> {
  const key = sessionKey(context, id);
  const { hub, reads, storage, pages, readPermits: permits } = context;
  const readers = { read: reads.read, watch: storage.watch };
  const source = { hub, storage: readers, pages, permits, ...key, name: nameOf(key) };
  const isKnown = aim?.type === "turn" && aim.exists;
  return {
    [Symbol.asyncIterator]: () => {
      const stopped = new AbortController();
      const stopSignal = signal === null ? stopped.signal : AbortSignal.any([signal, stopped.signal]);
      let reader: EventReader | null = null;
      // Nothing is read before the first call of `next` (R4).
      let beginning: Promise<void> | null = null;
      const begin = async (): Promise<void> => {
        const turn = aim === null ? null : await aimedAt(context, key, aim);
        if (aim !== null && turn === null) return;
        if (turn !== null && !isKnown && !(await hasStarted(context, key, turn, follow, stopSignal))) return;
        if (!stopped.signal.aborted) reader = new EventReader(source, { turn, follow }, from, stopSignal);
      };
      return {
        next: async () => {
          if (reader === null && !stopped.signal.aborted) await (beginning ??= begin());
          const value = (await reader?.next()) ?? null;
          return value === null ? { done: true, value: undefined } : { done: false, value };
        },
        return: async () => {
          stopped.abort();
          reader?.stop();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

/**
 * Returns whether a turn has started. Waits for a turn that queued input will start, unless `follow` is `false`, until
 * the signal aborts. Rejects with `not_found` if there is no such turn.
 */
async function hasStarted(
  context: VerbContext,
  key: SessionKey,
  turn: string,
  follow: boolean,
  signal: AbortSignal,
): Promise<boolean> {
  const first = await turnState(context, key, turn);
  if (first !== "queued" || !follow) return first === "stored";
  const changes = new ChangeSignal(context.storage, nameOf(key));
  signal.addEventListener("abort", changes.notify);
  try {
    for (;;) {
      changes.clear();
      if (signal.aborted) return false;
      if ((await turnState(context, key, turn)) === "stored") return true;
      await changes.changed();
    }
  } finally {
    signal.removeEventListener("abort", changes.notify);
    changes.stop();
  }
}

/** The id of the turn that a handle is for; `null`: none. */
async function aimedAt(context: VerbContext, key: SessionKey, aim: HandleAim): Promise<string | null> {
  switch (aim.type) {
    case "turn":
      return aim.turn;
    case "open":
      return (await find(context, key.session)).head.turn;
    case "none":
      return null;
  }
}
