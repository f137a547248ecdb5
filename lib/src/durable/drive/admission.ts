// Admission: decides whether the limits allow a turn to start, and builds the changes for the batch that claims it. A
// caller reads the queries of the admission together with its own rows, calls `decide`, and adds the changes to its
// batch. If the batch is refused because of a slot, another turn took it: the caller reads again.
//
// Rules
//   1. A turn that was admitted keeps its slots until it ends or is parked; a takeover takes none.
//   2. A turn waits for the narrowest of its scopes that has no free slot: limit key, tenant, engine. So the backlog of
//      one user is not in the line of the engine.
//   3. A new turn also waits if other turns wait for one of its scopes, so that it does not overtake them. A turn that
//      has waited starts as soon as all its scopes have a free slot: if it had to wait again for turns in other lines,
//      two lines could wait for each other.
//   4. Without limits the admission has no queries and no changes.

import type { Changes } from "../rows/batch.ts";
import type { LimitedScope, SlotSet, SlotState } from "../rows/limits.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Query, Row } from "../rows/storage.ts";
import type { LimitedTurn, OpenTurn, Slot, TurnLimit } from "../rows/values.ts";
import type { RuntimeContext } from "./context.ts";

import { merge, noChanges, putting } from "../rows/batch.ts";
import {
  leaveLine,
  sampleOf,
  scopesOf,
  slotPut,
  slotQueries,
  slotSetsOf,
  slotState,
  waitingPut,
} from "../rows/limits.ts";

/** What the queries of an admission depend on. */
export type AdmissionSubject = Pick<OpenTurn, "engine" | "limitKey" | "limit"> & { readonly key: SessionKey };

/** The turn that is about to be claimed. */
export type AdmittedId = {
  readonly turn: string;
  /** The turn of the same session that ends in the same batch: its slots count as free. */
  readonly replaces?: string;
  /** How often a batch was refused because of a slot. */
  readonly attempt: number;
};

/** What the limits decide, and the changes for the batch. `limit.type` is `waiting`: the turn must not be claimed. */
export type Decision = { readonly limit: TurnLimit | null; readonly changes: Changes };

export type Admission = {
  /** The rows that `decide` needs. */
  readonly queries: readonly Query[];
  /** Decides from these rows. Reads more only if a large set of slots is nearly full. */
  readonly decide: (rows: readonly (readonly Row[])[], id: AdmittedId) => Promise<Decision>;
};

type AdmissionContext = Pick<RuntimeContext, "limits" | "storage" | "clock">;

/** How many free slots a claim chooses from at random. Doubled with each refused batch. */
const firstChoices = 8;

/** Prepares the admission of a turn. */
export function admissionOf(context: AdmissionContext, subject: AdmissionSubject): Admission {
  const { key, engine, limitKey, limit } = subject;
  if (limit?.type === "admitted") return decided({ limit, changes: noChanges });
  const scopes = scopesOf(context.limits, { engine, tenant: key.tenant, limitKey });
  if (scopes.length === 0) return decided({ limit: null, changes: leaveLine(key, limit) });
  const plans = scopes.map((scope) => planOf(context, scope, limit?.type !== "waiting"));
  return {
    queries: plans.flatMap(({ queries }) => queries),
    decide: async (rows, id) => {
      let at = 0;
      const states: ScopeState[] = [];
      for (const plan of plans) {
        states.push(await stateOf(context, plan, rows.slice(at, at + plan.queries.length), id.replaces ?? null));
        at += plan.queries.length;
      }
      const blocked = states.find(({ isBlocked }) => isBlocked);
      if (blocked !== undefined) return waiting(context, subject, id, blocked.scope);
      return admitted(context, subject, id, states);
    },
  };
}

/** Reads the rows of an admission and decides, for callers that read nothing else at that moment. */
export async function admit(context: AdmissionContext, subject: AdmissionSubject, id: AdmittedId): Promise<Decision> {
  const { queries, decide } = admissionOf(context, subject);
  return decide(queries.length === 0 ? [] : await context.storage.read(queries), id);
}

function decided(decision: Decision): Admission {
  return { queries: [], decide: () => Promise.resolve(decision) };
}

type ScopePlan = {
  readonly scope: string;
  /** Whether turns in the line of the scope go first. */
  readonly respectsLine: boolean;
  readonly sets: readonly {
    readonly set: SlotSet;
    readonly sample: readonly number[] | null;
    readonly count: number;
  }[];
  readonly queries: readonly Query[];
};

function planOf({ clock }: AdmissionContext, limited: LimitedScope, respectsLine: boolean): ScopePlan {
  const { scope } = limited;
  const line: readonly Query[] = respectsLine ? [{ table: "work", prefix: ["limit", scope], limit: 1 }] : [];
  const sets = slotSetsOf(limited).map((set) => {
    const sample = sampleOf(set, () => clock.random());
    return { set, sample, queries: slotQueries(set, sample) };
  });
  return {
    scope,
    respectsLine,
    sets: sets.map(({ set, sample, queries }) => ({ set, sample, count: queries.length })),
    queries: [...line, ...sets.flatMap(({ queries }) => queries)],
  };
}

type ScopeState = {
  readonly scope: string;
  readonly isBlocked: boolean;
  readonly sets: readonly { readonly set: SlotSet; readonly state: SlotState }[];
};

async function stateOf(
  { storage }: AdmissionContext,
  { scope, respectsLine, sets }: ScopePlan,
  rows: readonly (readonly Row[])[],
  replaces: string | null,
): Promise<ScopeState> {
  if (respectsLine && (rows[0]?.length ?? 0) > 0) return { scope, isBlocked: true, sets: [] };
  let at = respectsLine ? 1 : 0;
  const states: { readonly set: SlotSet; readonly state: SlotState }[] = [];
  for (const { set, sample, count } of sets) {
    let state = slotState(set, rows.slice(at, at + count).flat(), { replaces, sample });
    at += count;
    if (state.free === 0 && sample !== null) {
      const all = await storage.read(slotQueries(set, null));
      state = slotState(set, all.flat(), { replaces });
    }
    if (state.free === 0) return { scope, isBlocked: true, sets: [] };
    states.push({ set, state });
  }
  return { scope, isBlocked: false, sets: states };
}

/** The turn waits for a scope. It keeps its place in time if it has waited before. */
function waiting(
  { clock }: AdmissionContext,
  { key, limit }: AdmissionSubject,
  { turn }: AdmittedId,
  scope: string,
): Decision {
  const since = limit?.type === "waiting" ? limit.since : clock.now();
  const next: LimitedTurn = { type: "waiting", scope, since };
  return { limit: next, changes: merge(leaveLine(key, limit), putting(waitingPut(key, turn, next))) };
}

/**
 * The turn takes one slot of each set. The slot is chosen at random among the lowest free ones, so that concurrent
 * claims rarely choose the same.
 */
function admitted(
  { clock }: AdmissionContext,
  { key, limit }: AdmissionSubject,
  { turn, attempt }: AdmittedId,
  states: readonly ScopeState[],
): Decision {
  const slots: Slot[] = [];
  let changes = leaveLine(key, limit);
  for (const { set, state } of states.flatMap(({ sets }) => sets)) {
    const choices = state.choices(firstChoices * 2 ** Math.min(attempt, 10));
    const chosen = choices[Math.min(choices.length - 1, Math.floor(clock.random() * choices.length))];
    if (chosen === undefined) throw new Error("a set of slots with a free slot has no choice");
    const { number, check } = chosen;
    changes = merge(changes, { checks: [check], removals: [], puts: [slotPut(set, number, key, turn)] });
    if (set.kind === "concurrency") slots.push({ scope: set.scope, number });
  }
  return { limit: { type: "admitted", slots }, changes };
}

/** How many turns of a scope may start now, and when the next one may if none. */
export type Capacity = { readonly free: number; readonly freeInMs: number | null };

/** Reads how many turns of a scope may start. A scope without a limit has no bound. */
export async function capacitiesOf(
  { storage }: AdmissionContext,
  scopes: readonly (LimitedScope | null)[],
): Promise<readonly Capacity[]> {
  const sets = scopes.map((limited) => (limited === null ? [] : slotSetsOf(limited)));
  const queries = sets.flat().flatMap((set) => slotQueries(set, null));
  const rows = queries.length === 0 ? [] : await storage.read(queries);
  let at = 0;
  return sets.map((ofScope) => {
    let capacity: Capacity = { free: Number.POSITIVE_INFINITY, freeInMs: null };
    for (const set of ofScope) {
      const { free, freeInMs } = slotState(set, rows[at] ?? [], {});
      at += 1;
      if (free < capacity.free) capacity = { free, freeInMs: free > 0 ? null : freeInMs };
    }
    return capacity;
  });
}
