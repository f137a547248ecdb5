// Lists the turns of a session, newest first, from the index `turn_times`. Pagination is by cursor: the time of
// acceptance and the id of the last turn of a page.

import type { Page, TurnSummaryView } from "../../core/model/internal.ts";
import type { Row, SessionKey, TurnProgress, TurnStart } from "../../durable/internal.ts";
import type { InspectionContext } from "./context.ts";

import { MisuseError, RuntimeError } from "../../core/model/internal.ts";
import { keyOf, limitWaitOf, readValue, sessionKey, turnKey, visibleStatus } from "../../durable/internal.ts";
import { readHead } from "./context.ts";

/** Options of `turns`. */
export type TurnPageOptions = { readonly limit?: number; readonly after?: string };

/** The largest page of turns. */
const maxTurns = 100;
/**
 * How many turns are read from the storage at a time: the rows of a turn hold its input and its result, which may be
 * large, and a summary holds neither.
 */
const turnsPerRead = 4;

/**
 * A page of the turns of a session. Rejects with `not_found`. A turn whose rows cannot be read rejects with
 * `corrupt_row`.
 */
export async function listTurns(
  context: InspectionContext,
  id: string,
  { limit = 50, after }: TurnPageOptions = {},
): Promise<Page<TurnSummaryView>> {
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw new MisuseError("invalid_argument", "turns: limit must be a whole number of 1 or more", { path: ["limit"] });
  }
  const { key } = await readHead(context, id);
  const size = Math.min(limit, maxTurns);
  const from = after === undefined ? null : turnCursor(after);
  const query = { table: "turn_times", limit: size + 1, reverse: true } as const;
  const prefix = keyOf(key);
  const [sameTime = [], older = []] = await context.storage.read([
    { ...query, prefix: [...prefix, from?.accepted ?? -1], ...(from === null ? {} : { before: from.turn }) },
    { ...query, prefix, ...(from === null ? {} : { before: from.accepted }) },
  ]);
  const rows = [...sameTime, ...older];
  const page = rows.slice(0, size).map(({ key: parts }) => ({ accepted: Number(parts[2]), turn: String(parts[3]) }));
  const last = page.at(-1);
  const items: TurnSummaryView[] = [];
  for (let first = 0; first < page.length; first += turnsPerRead) {
    const turns = page.slice(first, first + turnsPerRead).map(({ turn }) => turn);
    items.push(...(await summaries(context, key, turns)));
  }
  return { items, next: rows.length > size && last !== undefined ? `${last.accepted}:${last.turn}` : null };
}

/** The summary of one turn. Rejects with `not_found`. */
export async function turnSummary(context: InspectionContext, id: string, turnId: string): Promise<TurnSummaryView> {
  const [view] = await summaries(context, sessionKey(context, id), [turnId]);
  if (view !== undefined) return view;
  // Distinguishes an unknown session from an unknown turn.
  await readHead(context, id);
  throw new RuntimeError("not_found", {
    message: `session ${JSON.stringify(id)} has no turn ${JSON.stringify(turnId)}`,
  });
}

async function summaries(
  { storage }: InspectionContext,
  key: SessionKey,
  turns: readonly string[],
): Promise<readonly TurnSummaryView[]> {
  const [leases = [], opened = [], ...rows] = await storage.read([
    { table: "leases", prefix: keyOf(key) },
    { table: "open", prefix: keyOf(key) },
    ...turns.flatMap((turn) => [
      { table: "starts", prefix: turnKey(key, turn) } as const,
      { table: "turns", prefix: turnKey(key, turn) } as const,
    ]),
  ]);
  const open = opened[0] ?? null;
  const openId = open === null ? null : readValue("open", open).turn;
  return turns.flatMap((turnId, index) => {
    const [start, progress] = [rows[2 * index]?.[0], rows[2 * index + 1]?.[0]];
    if (start === undefined || progress === undefined) return [];
    const isOpen = turnId === openId;
    const session = { lease: isOpen ? leases[0] : undefined, open: isOpen && open !== null ? open : undefined };
    return [summaryOf(turnId, readValue("starts", start), readValue("turns", progress), session)];
  });
}

/** The view of a turn. `lease` and `open`: these rows of the session, if it is the open turn. */
function summaryOf(
  turnId: string,
  { verb, engine, acceptedAt, base }: TurnStart,
  { status, step, end, failure, discarded }: TurnProgress,
  { lease, open }: { readonly lease: Row | undefined; readonly open: Row | undefined },
): TurnSummaryView {
  const failed = end !== null && "failure" in end.outcome ? end.outcome.failure : failure;
  return {
    turnId,
    verb,
    engine,
    acceptedAt,
    base,
    status: visibleStatus(status, lease),
    step: end?.steps ?? step,
    end:
      end === null
        ? null
        : { haltedReason: end.haltedReason, outcome: end.outcome, steps: end.steps, usage: end.usage },
    failure: failed,
    limitWait: limitWaitOf(open),
    discarded,
  };
}

/** Parses the cursor of `turns`: time of acceptance and turn id. */
function turnCursor(text: string): { readonly accepted: number; readonly turn: string } {
  const match = /^(\d{1,15}):(.+)$/s.exec(text);
  if (match !== null) return { accepted: Number(match[1]), turn: match[2] ?? "" };
  throw new MisuseError("invalid_argument", "turns: after must be next of the previous page", { path: ["after"] });
}
