// An open turn as a process begins to drive it. There are two sources, and `TurnDriver` treats both alike:
//   acceptedTurn   this process has just accepted the turn. It knows everything that it wrote and reads nothing back.
//   loadTurn       this process takes over a turn and reads what is stored of it, in one read.

import type { Engine } from "../../core/engine/internal.ts";
import type { CancelEvidence, Json } from "../../core/model/internal.ts";
import type { Plan } from "../../core/run/internal.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { NumberedEvent, SessionWrite, StoredSession } from "../rows/session-write.ts";
import type { HostStorage } from "../rows/storage.ts";
import type { JournalRow, OpenTurn, TurnStart } from "../rows/values.ts";
import type { RuntimeContext } from "./context.ts";
import type { NextPlannedTurn } from "./new-turn.ts";

import { kernelRevision } from "../../core/kernel/internal.ts";
import { orThrow, RuntimeError } from "../../core/model/internal.ts";
import { readPinned } from "../../core/run/internal.ts";
import { JoinedReads } from "../read/joined-reads.ts";
import { loadHistory } from "../rows/history-cache.ts";
import { recordName } from "../rows/journal-rows.ts";
import { keyOf, turnKey } from "../rows/session-key.ts";
import { limitKeyOf } from "../rows/session-write.ts";
import { readValue } from "../rows/stored.ts";
import { readOne } from "./context.ts";
import { planTurn } from "./new-turn.ts";

/** An open turn with everything that driving it needs. */
export type DrivenTurn = {
  readonly id: string;
  /** The session row and the turn row. */
  readonly stored: StoredSession;
  readonly start: TurnStart;
  /** The journal rows so far, in order. Empty for a turn that was just accepted. */
  readonly rows: readonly JournalRow[];
  /** Records inside effects, by `recordName`. */
  readonly records: ReadonlyMap<string, Json>;
  /** A cancel that is stored and not settled yet. */
  readonly cancel: CancelEvidence | null;
  /** The plan, if this process built it to accept the turn; `null`: `storedPlan` builds it. */
  readonly plan: Plan | null;
  /** The events written with the acceptance, for readers in this process. */
  readonly events: readonly NumberedEvent[];
  /** An earlier holder may have left pieces of a reply in the storage. */
  readonly mayHavePieces: boolean;
};

/** A turn that this process has just accepted: nothing is read back. */
export function acceptedTurn({ after, events }: SessionWrite, { id, start, plan }: NextPlannedTurn): DrivenTurn {
  const ofTurn = events.filter(({ stored }) => stored.turn === id);
  return {
    id,
    stored: after,
    start,
    rows: [],
    records: new Map(),
    cancel: null,
    plan,
    events: ofTurn,
    mayHavePieces: false,
  };
}

/**
 * Loads an open turn with one read. `null`: the turn is not open any more. A parked turn is loaded only if `parked` is
 * set. Rejects with `newer_schema` if the turn was started under a newer kernel revision, and with `corrupt_row` if a
 * row cannot be read.
 */
export async function loadTurn(
  storage: HostStorage,
  key: SessionKey,
  id: string,
  { parked = false }: { readonly parked?: boolean } = {},
): Promise<DrivenTurn | null> {
  const at = turnKey(key, id);
  const [heads = [], opened = [], starts = [], turns = [], records = [], cancels = [], journal = []] =
    await storage.read([
      { table: "sessions", prefix: keyOf(key) },
      { table: "open", prefix: keyOf(key) },
      { table: "starts", prefix: at },
      { table: "turns", prefix: at },
      { table: "records", prefix: at },
      { table: "cancels", prefix: at },
      { table: "journal", prefix: at },
    ]);
  const [headRow, startRow, turnRow, cancelRow] = [heads[0], starts[0], turns[0], cancels[0]];
  if (headRow === undefined || startRow === undefined || turnRow === undefined) return null;
  const head = readValue("sessions", headRow);
  const progress = readValue("turns", turnRow);
  if (head.turn !== id || progress.status === "ended") return null;
  if (progress.status === "parked" && !parked) return null;
  const start = readValue("starts", startRow);
  // Before the journal is parsed: a newer release may have recorded responses that this one would report as corrupt.
  checkRevision(id, start);
  const open = opened[0] === undefined ? closedTurn : readValue("open", opened[0]);
  return {
    id,
    stored: {
      key,
      head,
      version: headRow.tag,
      turn: { id, progress, commits: turnRow.tag, engine: start.engine, ...dueAndLimit(start, open) },
    },
    start,
    rows: journal.map((row) => readValue("journal", row)),
    records: new Map(
      records.map((row) => [recordName(String(row.key[3]), String(row.key[4])), readValue("records", row)]),
    ),
    cancel: cancelRow === undefined ? null : readValue("cancels", cancelRow).evidence,
    plan: null,
    events: [],
    mayHavePieces: true,
  };
}

/** What a parked turn has in place of its row in `open`. */
export const closedTurn = { due: 0, limit: null };

/** The fields of a stored turn that follow from its row in `open`. */
export function dueAndLimit(
  { options }: Pick<TurnStart, "options">,
  { due, limit }: Pick<OpenTurn, "due" | "limit">,
): Pick<OpenTurn, "due" | "limitKey" | "limit"> {
  return { due, limitKey: limitKeyOf(options), limit };
}

/** Throws `newer_schema` if the turn was started under a kernel revision that this release does not have (Q6). */
export function checkRevision(turn: string, { revision }: Pick<TurnStart, "revision">): void {
  if (revision <= kernelRevision) return;
  throw new RuntimeError("newer_schema", {
    message: `the turn ${turn} was started under kernel revision ${revision}, and this release has revisions up to ${kernelRevision}: deploy the release that started the turn, or a newer one, to continue it; the turn is unchanged`,
    metadata: { revision, known: kernelRevision },
  });
}

/**
 * Builds the plan of a turn from its start row, its pinned configuration and the history. It equals the plan of the
 * process that accepted the turn. `engine` replaces the named engine. Rejects with `corrupt_row` if the pinned
 * configuration is missing.
 */
export async function storedPlan(
  context: Pick<RuntimeContext, "storage" | "engines" | "histories">,
  { id, stored, start }: DrivenTurn,
  engine?: Engine,
): Promise<Plan> {
  const { key, head } = stored;
  // One read for both.
  const storage = { ...context.storage, read: new JoinedReads(context.storage).read };
  const [contents, history] = await Promise.all([
    readOne(storage, { table: "contents", prefix: [key.tenant, start.pinned] }),
    loadHistory({ storage, histories: context.histories }, key, { length: start.base, digest: start.digest }),
  ]);
  if (contents === null) {
    throw new RuntimeError("corrupt_row", { message: `the pinned configuration of turn ${id} is not in the storage` });
  }
  const pinned = orThrow(readPinned(readValue("contents", contents)));
  return planTurn(context, { key, id, start, session: head.session, history }, pinned, engine);
}
