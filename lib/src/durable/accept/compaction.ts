// Verbs of the context window: ask for a compaction, undo the newest one, and list the frames of a session.
//
// `compact` starts no turn. It writes a request to the session, and the next model call of the session is preceded by
// the effect `compact` (core/kernel/machine/context.ts). So it is possible while a call waits for an approval or a
// question for its answer, and changes neither.
//
// `undoCompaction` takes the newest frame back: requests contain the frame before it again, or the whole history. The
// messages were never removed. The row of the frame stays, with the time, so that readers see what happened; a later
// frame with the same range replaces it. Both verbs are one batch with a check of the version of the session, and are
// refused while a turn is open, because that turn has pinned what its requests leave out.
//
// Crash points
//   before the batch           nothing has changed
//   after it                   the answer may be lost. A call that is repeated with its idempotency key changes nothing
//                              more: the row of the key is part of the batch
//   a turn began meanwhile     the version has changed: the batch is refused, and the verb rejects with `conflict`

import type {
  AuditAction,
  Compaction,
  ContextWindow,
  HistoryFrame,
  JsonObject,
  Page,
  Session,
} from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { ExistingSession } from "../drive/session-rows.ts";

import { MisuseError, RuntimeError, wholeHistory } from "../../core/model/internal.ts";
import { actorOf } from "../drive/context.ts";
import { checkOptions, checkTexts } from "../drive/durable-options.ts";
import {
  engineOfSession,
  existingSession,
  find,
  readSession,
  sessionKey,
  writeConflict,
} from "../drive/session-rows.ts";
import { auditRow } from "../rows/audit.ts";
import { merge, putting } from "../rows/batch.ts";
import { keyOf } from "../rows/session-key.ts";
import { framePuts, writeSession } from "../rows/session-write.ts";
import { checkReadable, readValue } from "../rows/stored.ts";
import { acceptedKey, acceptedRow, checkFree, keyConflict } from "./accept.ts";

type CompactionCallOptions = {
  /** An idempotency key: a call that is repeated with it changes nothing more. Default: none. */
  readonly key?: string;
  /** The version of the session that the caller has read; another one rejects with `conflict`. Default: any. */
  readonly version?: number;
};

/** Options of `compact`. */
export type CompactOptions = CompactionCallOptions & {
  /** What the summary has to keep, besides what the context policy of the engine says. */
  readonly instructions?: string;
};

/** Options of `undoCompaction`. */
export type UndoCompactionOptions = CompactionCallOptions & {
  /**
   * The id of the frame to take back. If it is not the newest one, the call rejects with `conflict`. Default: the
   * newest.
   */
  readonly frame?: string;
};

/**
 * Requests a compaction before the next model call of the session. Rejects with `conflict` while a turn is open, and
 * with `MisuseError` if the session has no messages or its engine has no context policy.
 */
export async function compact(context: VerbContext, id: string, options: CompactOptions = {}): Promise<Compaction> {
  const { instructions = null } = checkedTexts("compact", options, ["instructions"]);
  return change(context, id, options, ["compact", instructions], async (before) => {
    const engine = await engineOfSession(context, before);
    // A process that only accepts turns may not have the engine.
    const known = Object.hasOwn(context.engines, engine) ? context.engines[engine] : undefined;
    if (known?.contextPolicy === null) {
      const message = `compact: the engine "${engine}" of session ${id} has no contextPolicy, so its requests contain the whole history: set contextPolicy of the engine`;
      throw new MisuseError("invalid_argument", message);
    }
    if (before.head.length === 0) {
      throw new MisuseError("invalid_status", `compact: session ${id} has no messages`, { path: ["thread"] });
    }
    return { action: "compact", target: null, after: { ...windowOf(before), requested: { instructions } } };
  });
}

/**
 * Takes the newest frame back, so that the next request contains the messages that it stood for; without `frame`, a
 * requested compaction is withdrawn first. Rejects with `conflict` while a turn is open or if `frame` is not the newest
 * one, and with `MisuseError` if there is nothing to undo.
 */
export async function undoCompaction(
  context: VerbContext,
  id: string,
  options: UndoCompactionOptions = {},
): Promise<Compaction> {
  const { frame: expected } = checkedTexts("undoCompaction", options, ["frame"]);
  return change(context, id, options, ["undo_compaction", expected ?? null], async (before) => {
    const { key, head } = before;
    const window = windowOf(before);
    const { frame, requested } = window;
    if (expected === undefined && requested !== null) {
      return { action: "undo_compaction", target: null, after: { ...window, requested: null } };
    }
    if (expected !== undefined && expected !== frame?.id) {
      const message = `undoCompaction: the newest frame of session ${id} is ${frame?.id ?? "none"}, not ${expected}: only the newest one can be undone`;
      throw new RuntimeError("conflict", { message, metadata: { frame: frame?.id ?? null } });
    }
    if (frame === null) {
      const message = `undoCompaction: session ${id} has no frame: its requests contain the whole history`;
      throw new MisuseError("invalid_status", message, { path: ["contextWindow"] });
    }
    const after: ContextWindow = {
      ...window,
      frame: await frameBefore(context, key, frame.to),
      // The requests are other ones now. They are compacted again when the history has grown, or if one is too long.
      count: null,
      attemptedAt: head.length,
      requested: null,
    };
    return { action: "undo_compaction", target: frame.id, after, undone: frame };
  });
}

/** How many frames are read at a time. */
const framesPerRead = 16;

/** The newest frame before a position that was not taken back; `null`: there is none. */
async function frameBefore(
  { storage }: VerbContext,
  key: ExistingSession["key"],
  position: number,
): Promise<HistoryFrame | null> {
  const query = { table: "frames", prefix: keyOf(key), reverse: true, limit: framesPerRead } as const;
  for (let before = position; ;) {
    const [rows = []] = await storage.read([{ ...query, before }]);
    const frames = rows.map((row) => readValue("frames", row));
    const found = frames.find(({ undoneAt }) => undoneAt === null);
    const last = frames.at(-1);
    if (found !== undefined || last === undefined) return found ?? null;
    before = last.to;
  }
}

/** Which frames are read. */
export type FramePageOptions = {
  /** The largest number of frames. Default: 100. */
  readonly limit?: number;
  /** The cursor `next` of the previous page. */
  readonly after?: string;
};

/** A page of the frames of a session, oldest first, with those that were taken back. */
export async function listFrames(
  context: VerbContext,
  id: string,
  { limit = 100, after = "0" }: FramePageOptions = {},
): Promise<Page<HistoryFrame>> {
  const position = Number(after);
  if (!Number.isSafeInteger(limit) || limit < 1 || !Number.isSafeInteger(position) || position < 0) {
    const message = "frames: limit must be a whole number of 1 or more, and after the cursor `next` of a page";
    throw new MisuseError("invalid_argument", message);
  }
  const { key } = await find(context, id);
  const query = { table: "frames", prefix: keyOf(key), after: position, limit: limit + 1 } as const;
  const [rows = []] = await context.storage.read([query]);
  const items = rows.slice(0, limit).map((row) => readValue("frames", row));
  return { items, next: rows.length > limit ? String(items.at(-1)?.to ?? 0) : null };
}

/** The context window that a verb writes, and its row of the audit log. */
type WindowChange = {
  readonly action: Extract<AuditAction, "compact" | "undo_compaction">;
  readonly target: string | null;
  readonly after: ContextWindow;
  /** The frame that is taken back. */
  readonly undone?: HistoryFrame;
};

/** How often a session that other writers change meanwhile is read again before the verb rejects with `conflict`. */
const maxAttempts = 5;

/** Decides about a session without an open turn, and writes its context window in one batch. */
async function change(
  context: VerbContext,
  id: string,
  { key: idempotencyKey, version }: CompactionCallOptions,
  content: readonly unknown[],
  decide: (before: ExistingSession) => Promise<WindowChange>,
): Promise<Compaction> {
  const { storage, clock } = context;
  const key = sessionKey(context, id);
  const accepted = await acceptedKey(idempotencyKey, content);
  for (let attempt = 1; ; attempt += 1) {
    const rows = await readSession(context, key, idempotencyKey);
    const before = existingSession(rows);
    if (accepted !== null && rows.accepted !== null) {
      if (readValue("accepted", rows.accepted).digest !== accepted.digest) throw keyConflict(accepted.name);
      return compactionOf(windowOf(before));
    }
    checkFree(before, version);
    const { action, target, after, undone = null } = await decide(before);
    const session: Session<JsonObject> = { ...before.head.session, contextWindow: after };
    const now = clock.now();
    const fact = { action, actor: actorOf(context), tenant: key.tenant, sessionId: id, target } as const;
    const write = writeSession(before, {
      now,
      session: { after: session, messages: [], history: before.head },
      also: merge(
        putting(...framePuts(key, undone === null ? null : { ...undone, undoneAt: now })),
        acceptedRow(accepted, before, null),
        auditRow(fact, now),
      ),
    });
    checkReadable("sessions", write.after.head);
    const written = await storage.write(write.changes);
    if (written.ok) return compactionOf(after);
    if (attempt >= maxAttempts) throw writeConflict(key, "sessions");
  }
}

function windowOf({ head }: ExistingSession): ContextWindow {
  return head.session.contextWindow ?? wholeHistory;
}

function compactionOf({ frame, requested }: ContextWindow): Compaction {
  return { frame, requested };
}

/** The options that are texts. Throws `MisuseError` for an unknown option, or a value that does not fit. */
function checkedTexts<Name extends string>(
  verb: string,
  options: CompactionCallOptions & { readonly [N in Name]?: string },
  names: readonly Name[],
): { readonly [N in Name]?: string } {
  checkOptions(verb, options);
  const { version, ...texts } = options;
  checkTexts(verb, texts, ["key", ...names]);
  if (version === undefined || Number.isSafeInteger(version)) return options;
  throw new MisuseError("invalid_argument", `${verb}: version must be a whole number`, { path: ["version"] });
}
