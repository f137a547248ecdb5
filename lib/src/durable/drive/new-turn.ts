// Builds a turn that a verb, or the end of another turn, is about to accept: its id, its start row, its plan and its
// pinned configuration. Nothing is written here; `accept/accept.ts` and `TurnCommitter` write the rows.
//
// The process that drives the turn at once uses the plan that was built here. Any other process builds an equal plan
// from the start row and the pinned configuration (`planTurn`), so what a turn does depends neither on the process nor
// on a deploy in between.

import type { Engine } from "../../core/engine/internal.ts";
import type { TurnHistory } from "../../core/kernel/internal.ts";
import type { Json, JsonObject, ProtocolEvent, Session } from "../../core/model/internal.ts";
import type { Pinned, Plan, PlanDetails } from "../../core/run/internal.ts";
import type { Changes } from "../rows/batch.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { NewTurn } from "../rows/session-write.ts";
import type { Check, HostStorage } from "../rows/storage.ts";
import type { InboxEntry, TurnStart } from "../rows/values.ts";
import type { RuntimeContext } from "./context.ts";

import { isRunOption, runOptionTable, traceOfTurn } from "../../core/engine/internal.ts";
import { canonicalJson, historyThread } from "../../core/kernel/internal.ts";
import { isEverturnError } from "../../core/model/internal.ts";
import { planRun, readPinned } from "../../core/run/internal.ts";
import { isOpen } from "../../core/session/internal.ts";
import { merge, noChanges } from "../rows/batch.ts";
import { randomText, sha256 } from "../rows/digest.ts";
import { newTurnRevision } from "../rows/format.ts";
import { frozen } from "../rows/history-cache.ts";
import { deliveryOf, nextInputs, settleInputs } from "../rows/inbox.ts";
import { ownPinnedName } from "../rows/own-pinned.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { engineOf, readOne } from "./context.ts";
import { runOptions } from "./durable-options.ts";

const dayMs = 86_400_000;

/** The fields of `TurnStart` that the caller decides. The others follow from the session. */
export type TurnRequest = Pick<
  TurnStart,
  | "verb"
  | "engine"
  | "options"
  | "context"
  | "startedBy"
  | "answers"
  | "cell"
  | "messages"
  | "turnCauses"
  | "inputs"
  | "trace"
>;

/** The defaults of a request: the context of the session, no caller, no answers and no input. */
export const plainRequest = {
  context: null,
  startedBy: [],
  answers: [],
  cell: null,
  messages: [],
  turnCauses: [],
  inputs: [],
  trace: null,
} as const;

/** A random id for a turn. */
export function newTurnId(): string {
  return `turn-${randomText(10)}`;
}

/** What a turn is built from: the session before the turn, the input of the turn, and the time of its acceptance. */
export type TurnBasis = {
  readonly key: SessionKey;
  readonly id: string;
  readonly session: Session<JsonObject>;
  readonly history: TurnHistory;
  readonly request: TurnRequest;
  readonly now: number;
};

/** A turn to be accepted, with the plan that drives it. */
export type PlannedTurn = NewTurn & { readonly plan: Plan };

/** A turn that follows another one. `plan` is `null` if this process cannot plan it: another process drives it. */
export type NextPlannedTurn = NewTurn & { readonly plan: Plan | null };

/**
 * Builds a turn that follows `history`. Rejects with what `planRun` throws: misuse, an engine without an adapter, or a
 * model whose price is unknown although a cost budget needs it.
 */
export async function newTurn(context: RuntimeContext, basis: TurnBasis): Promise<PlannedTurn> {
  const { request, session } = basis;
  const revision = await newTurnRevision(context);
  const { usage: spentBefore, contextWindow } = session;
  const plan = planTurn(context, { ...basis, start: { ...request, revision, spentBefore, contextWindow } }, null);
  return { ...(await pinnedTurn(context, basis, plan.pinned)), plan };
}

/** A turn with a configuration that was pinned before. */
async function pinnedTurn(
  { retentionMs, format }: RuntimeContext,
  { key, id, session, history, request, now }: TurnBasis,
  pinned: Pinned,
): Promise<NewTurn> {
  const start: TurnStart = {
    ...request,
    revision: await newTurnRevision({ format }),
    base: history.length,
    digest: history.digest,
    protocolEvents: session.protocolEvents.length,
    pinned: await pinnedName(key, request, pinned),
    spentBefore: session.usage,
    contextWindow: session.contextWindow,
    acceptedAt: now,
  };
  // Outlasts the journals that need the configuration for `export`. `work/collect.ts` removes expired ones that no open
  // turn uses.
  const pinnedTtlMs = retentionMs === null ? null : 2 * Math.ceil(retentionMs) + dayMs;
  return { id, start, pinned, pinnedTtlMs };
}

/**
 * The key of the configuration in `contents`. A configuration of the engine is shared by all sessions of the tenant.
 * One that contains texts of the call, for example `instructions`, belongs to the session and is deleted with it.
 */
async function pinnedName({ session }: SessionKey, { options }: TurnRequest, pinned: Pinned): Promise<string> {
  const isOwn = Object.keys(options).some(
    (name) => isRunOption(name) && ownParts.includes(runOptionTable[name].pinned),
  );
  const content = canonicalJson(pinned);
  return isOwn ? ownPinnedName(await sha256(`${session}\n${content}`)) : sha256(content);
}

/** The parts of the pinned configuration that hold texts. */
const ownParts: readonly string[] = ["environment", "params", "policy"];

/** The fields of `TurnStart` that a plan depends on. */
type PlannedStart = TurnRequest & Pick<TurnStart, "revision" | "spentBefore" | "contextWindow">;

/** What the plan of a turn depends on, beside the engine. */
type PlanBasis = Pick<TurnBasis, "key" | "id" | "session" | "history"> & { readonly start: PlannedStart };

/**
 * Builds the plan of a turn. `pinned`: the configuration of a turn that was accepted before; `null`: the turn is new
 * and gets the engine's.
 */
export function planTurn(
  context: Pick<RuntimeContext, "engines">,
  { key, id, start, session, history }: PlanBasis,
  pinned: Pinned | null,
  engine: Engine = engineOf(context, start.engine),
): Plan {
  return planRun(
    engine,
    historyThread(history, session.thread.metadata),
    // The request id is the id of the turn, so stored values do not depend on the process that drives it.
    { ...runOptions(start.options), context: frozen(start.context ?? session.context), requestId: id },
    { ...planDetails(id, key.session, start, session.protocolEvents), history, ...(pinned === null ? {} : { pinned }) },
  );
}

/**
 * The details of a plan that follow from the start row. `protocolEvents`: the records of the session before the turn.
 */
export function planDetails(
  turnId: string,
  sessionId: string,
  { verb, revision, answers, cell, messages, turnCauses, spentBefore, contextWindow }: PlannedStart,
  protocolEvents: readonly ProtocolEvent[],
): PlanDetails {
  const input = { answers, cell, messages, turnCauses, protocolEvents };
  return { verb, revision, ...input, turnId, spentBefore, contextWindow, session: { sessionId } };
}

/** What happens to the inbox when a turn ends. */
export type FollowingTurn = {
  /** The turn built from waiting input; `null`: no input waits, or the session cannot start a turn now. */
  readonly turn: NextPlannedTurn | null;
  /** Checks that the inbox has not changed since it was read, and the changes that settle the input. */
  readonly changes: Changes;
};

/**
 * Builds the next turn from the inbox: from input that arrived too late for the last turn (Q11), with the engine and
 * options of the last one, or from queued input, with its own. Only if the session is idle or completed and no call is
 * pending; otherwise the input stays in the inbox.
 */
export async function followingTurn(
  context: RuntimeContext,
  key: SessionKey,
  last: LastTurn,
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
  const canStart =
    (session.status === "idle" || session.status === "completed") && !session.pendingToolCalls.some(isOpen);
  if (!canStart || rows.length === 0) return { turn: null, changes: unchanged };
  const inputs = nextInputs(rows.map((row) => ({ row, entry: readValue("inbox", row) })));
  const entries = inputs.map(({ entry }) => entry);
  const queued = entries[0]?.ownTurn ?? null;
  const own = queued ?? { ...last, id: newTurnId(), trace: continuedTrace(last) };
  const stored = queued?.pinned ?? null;
  const pinned = async () => stored ?? pinnedOf(storage, key, last);
  const { engine, options, context: turnContext, startedBy, trace, id } = own;
  const start = { engine, options, context: turnContext, startedBy, trace };
  const request = { ...plainRequest, verb: "chat", ...start, ...inputOf(id, entries) } as const;
  const turn = await turnOfInput(context, { key, id, session, history, request, now }, pinned);
  if (turn === null) return { turn: null, changes: unchanged };
  // Concurrently withdrawn input fails a check, and the commit builds the turn again without it.
  const checks = inputs.map(({ row: { key: at, tag } }): Check => ({ table: "inbox", key: at, tag }));
  const settled = await settleInputs(storage, key, turn.start.inputs, turn.id);
  return { turn, changes: merge(unchanged, { ...noChanges, checks }, settled) };
}

/** Inbox input as the fields of a request. Transient messages follow the others. */
export function inputOf(
  turn: string,
  entries: readonly InboxEntry[],
): Pick<TurnRequest, "messages" | "turnCauses" | "inputs"> {
  const { messages, transientMessages, turnCauses, inputs } = deliveryOf(turn, entries);
  return { messages: [...messages, ...transientMessages], turnCauses, inputs };
}

/** The turn that has ended. `pinned` is `null` if its start row is missing. */
type LastTurn = TurnOfInput & { readonly pinned: string | null };

type TurnOfInput = Pick<TurnStart, "engine" | "options" | "context" | "startedBy" | "trace"> & { readonly id: string };

/** The trace context of a turn that continues the last one. */
export function continuedTrace({ id, trace }: Pick<TurnOfInput, "id" | "trace">): JsonObject | null {
  return traceOfTurn(trace === null ? null : { turnId: id, trace });
}

/** The stored configuration of the turn that has ended; `null`: it is not stored any more. */
async function pinnedOf(storage: HostStorage, { tenant }: SessionKey, { pinned }: LastTurn): Promise<Json | null> {
  const row = pinned === null ? null : await readOne(storage, { table: "contents", prefix: [tenant, pinned] });
  return row === null ? null : readValue("contents", row);
}

/**
 * Builds a turn from input, with the engine as it is now. If this process lacks the engine, or the engine cannot plan
 * the turn, the turn gets the configuration `pinned`, and a process that has its engine drives it: the input keeps its
 * place. `null`: there is no such configuration, and the input stays in the inbox.
 */
async function turnOfInput(
  context: RuntimeContext,
  basis: TurnBasis,
  pinned: () => Promise<Json | null>,
): Promise<NextPlannedTurn | null> {
  try {
    return await newTurn(context, basis);
  } catch (error) {
    const configuration = await pinned();
    const read = configuration === null ? null : readPinned(configuration);
    if (read?.ok === true) {
      return { ...(await pinnedTurn(context, basis, read.value)), plan: null };
    }
    const failure = isEverturnError(error) ? error.failure : null;
    const { tenant, session: sessionId } = basis.key;
    context.reportFailure({ tenant, sessionId, turnId: basis.id, status: "left", failure, error });
    return null;
  }
}
