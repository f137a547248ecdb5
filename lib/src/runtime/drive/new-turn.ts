// Builds a turn that a verb or the end of another turn accepts: its name, its plan, and what it is pinned to. A process that goes on to drive the turn
// uses this plan; any other process builds the same one from the stored start and the pinned configuration (`planTurn`).

import type { Engine } from "../../engine/internal.ts";
import type { TurnHistory } from "../../kernel/internal.ts";
import type { JsonObject, Session } from "../../model/internal.ts";
import type { Pinned, Plan, PlanDetails } from "../../run/internal.ts";
import type { RuntimeContext } from "../context.ts";
import type { Changes } from "../rows/batch.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { NewTurn } from "../rows/session-write.ts";
import type { Check } from "../rows/storage.ts";
import type { InboxEntry, TurnStart } from "../rows/values.ts";

import { canonicalJson, historyThread, kernelRevision } from "../../kernel/internal.ts";
import { planRun } from "../../run/internal.ts";
import { isOpen } from "../../session/internal.ts";
import { engineOf } from "../context.ts";
import { frozen } from "../history-cache.ts";
import { merge, noChanges } from "../rows/batch.ts";
import { randomText, sha256 } from "../rows/digest.ts";
import { deliveryOf, settleInputs } from "../rows/inbox.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { runOptions } from "../verbs/durable-options.ts";

const dayMs = 86_400_000;

/** What a caller decides about a turn. The rest of `TurnStart` follows from the session. */
export type TurnRequest = Pick<
  TurnStart,
  "verb" | "engine" | "options" | "answers" | "cell" | "messages" | "turnCauses" | "inputs"
>;

/** A request that says nothing but the defaults. */
export const plainRequest = { answers: [], cell: null, messages: [], turnCauses: [], inputs: [] } as const;

export function newTurnId(): string {
  return `turn-${randomText(10)}`;
}

/** A turn to be accepted, with the plan that drives it. */
export type PlannedTurn = NewTurn & { readonly plan: Plan };

/**
 * Builds a turn after `history`. Throws what `planRun` throws: misuse, an engine without an adapter, a model whose price is needed and unknown. Nothing
 * has been written by then.
 */
export async function newTurn(
  context: RuntimeContext,
  key: SessionKey,
  id: string,
  session: Session<JsonObject>,
  history: TurnHistory,
  request: TurnRequest,
  now: number,
): Promise<PlannedTurn> {
  const spentBefore = session.usage;
  const revision = kernelRevision;
  const plan = planTurn(context, key, id, { ...request, revision, spentBefore }, session, history, null);
  const { pinned } = plan;
  const start: TurnStart = {
    ...request,
    revision,
    base: history.length,
    digest: history.digest,
    pinned: await sha256(canonicalJson(pinned)),
    spentBefore,
    acceptedAt: now,
  };
  const { retentionMs } = context;
  const pinnedTtlMs = retentionMs === null ? null : 2 * Math.ceil(retentionMs) + dayMs;
  return { id, start, pinned, pinnedTtlMs, plan };
}

/** A request, and what of its start a plan depends on. */
type PlannedStart = TurnRequest & Pick<TurnStart, "revision" | "spentBefore">;

/** The plan of a turn; with `pinned`, of one that was accepted before. */
export function planTurn(
  context: RuntimeContext,
  key: SessionKey,
  id: string,
  start: PlannedStart,
  session: Session<JsonObject>,
  history: TurnHistory,
  pinned: Pinned | null,
  engine: Engine = engineOf(context, start.engine),
): Plan {
  return planRun(
    engine,
    historyThread(history, session.thread.metadata),
    // The request id is the turn's: what is stored does not depend on the process that drives it.
    { ...runOptions(start.options), context: frozen(session.context), requestId: id },
    { ...planDetails(id, key.session, start), history, ...(pinned === null ? {} : { pinned }) },
  );
}

/** The part of a plan that the start of a turn determines. */
export function planDetails(
  turnId: string,
  sessionId: string,
  { verb, revision, answers, cell, messages, turnCauses, spentBefore }: PlannedStart,
): PlanDetails {
  return { verb, revision, answers, cell, messages, turnCauses, turnId, spentBefore, session: { sessionId } };
}

/** What becomes of the inbox when a turn ends. */
export type FollowingTurn = {
  /** The turn made of the input that waits; `null`: nothing waits, or it cannot begin yet. */
  readonly turn: PlannedTurn | null;
  /** Checks that no input arrived or left since the inbox was read, and the rows of the input that was taken. */
  readonly changes: Changes;
};

/** Makes the next turn of the input that arrived too late for the last one (Q11), with the options of that one. */
export async function followingTurn(
  context: RuntimeContext,
  key: SessionKey,
  last: Pick<TurnStart, "engine" | "options">,
  session: Session<JsonObject>,
  history: TurnHistory,
  now: number,
): Promise<FollowingTurn> {
  const { storage } = context;
  const [counts = [], rows = []] = await storage.read([
    { table: "inboxes", prefix: keyOf(key) },
    { table: "inbox", prefix: keyOf(key) },
  ]);
  const unchanged: Changes = {
    ...noChanges,
    checks: [{ table: "inboxes", key: keyOf(key), tag: counts[0]?.tag ?? null }],
  };
  const rests = (session.status === "idle" || session.status === "completed") && !session.pendingToolCalls.some(isOpen);
  if (!rests || rows.length === 0) return { turn: null, changes: unchanged };
  const entries = rows.map((row) => readValue("inbox", row));
  const turn = await turnOfInput(context, key, last, session, history, entries, now);
  if (turn === null) return { turn: null, changes: unchanged };
  // Input that is withdrawn at the same time is not taken.
  const checks = rows.map(({ key: at, tag }): Check => ({ table: "inbox", key: at, tag }));
  const taken = await settleInputs(storage, key, turn.start.inputs, turn.id);
  return { turn, changes: merge(unchanged, { ...noChanges, checks }, taken) };
}

/** Input from the inbox as a turn begins with it. */
export function inputOf(
  turn: string,
  entries: readonly InboxEntry[],
): Pick<TurnRequest, "messages" | "turnCauses" | "inputs"> {
  const { messages, transientMessages, turnCauses, inputs } = deliveryOf(turn, entries);
  return { messages: [...messages, ...transientMessages], turnCauses, inputs };
}

/** `null`: the engine cannot begin a turn as it is now; the input stays in the inbox. */
async function turnOfInput(
  context: RuntimeContext,
  key: SessionKey,
  { engine, options }: Pick<TurnStart, "engine" | "options">,
  session: Session<JsonObject>,
  history: TurnHistory,
  entries: readonly InboxEntry[],
  now: number,
): Promise<PlannedTurn | null> {
  const id = newTurnId();
  const request = { ...plainRequest, verb: "chat", engine, options, ...inputOf(id, entries) } as const;
  try {
    return await newTurn(context, key, id, session, history, request, now);
  } catch {
    return null;
  }
}
