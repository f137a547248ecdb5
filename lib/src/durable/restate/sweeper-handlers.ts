// The sweeper: finds turns that no invocation drives, because a request was lost, a process died or Restate gave up,
// and sends them again. It also applies deadlines of pending calls and removes expired journals. All of that is
// `runtime.sweep`.
//
//   start   begins the chain of ticks, unless one is running. Service processes send it when they start and once a
//           minute.
//   tick    sweeps, and sends the next tick with a delay. Each chain has a number (`generation`); a tick of an older
//           chain ends its chain. If there are more due sessions than one sweep lists, the next tick follows soon and
//           continues after them (`after`): sessions that fail again and again stay due, and must not hide the ones
//           after them. A session that the sweep before it has sent, too, is sent several times: the first request may
//           hang in a paused process.
//   sweep   sweeps once. It is sent with a delay for the deadline of a pending call.
//
// If an operator cancels a tick, or Restate gives up because no process could be reached for a long time, the chain
// ends. `start` recognises that by the time of the last tick. Service processes may have different clocks. A time that
// is too far in the future counts as the end of the chain, too: beginning another chain replaces the first one and
// harms nothing.

import type { Invocation, SendRequest } from "./invocation.ts";
import type { ServiceContext } from "./service-context.ts";

import { isPlainObject } from "../../core/model/parse/reading.ts";
import { resumeRequests } from "./drive-handlers.ts";
import { objectKey, sweeperKey } from "./names.ts";

/** What one sweep did: the result of the handler, which Restate's user interface shows. */
export type SweepReport = {
  /** The number of sessions that were sent again. */
  readonly resumed: number;
  /** The number of deadlines that were applied. */
  readonly expired: number;
  /** The number of entries whose retention time was over. */
  readonly removed: number;
  /** Why the sweep failed; otherwise `null`. The next tick tries again. */
  readonly failure: string | null;
};

/**
 * The state of the sweeper: its chain, when its next tick is due, the cursor with which that sweeps, and the sessions
 * that the last one sent.
 */
type ChainState = {
  readonly generation: number;
  readonly dueAt: number;
  readonly after: string | null;
  /** In how many sweeps in a row each session was sent, by key. */
  readonly sent: SentCounts;
};

type SentCounts = { readonly [key: string]: number };

const chainState = "chain";
/**
 * The time until the next sweep if there may be more sessions, in milliseconds. Not 0: sessions that fail again stay
 * due.
 */
const fullSweepMs = 250;
/** A chain whose tick is this late has ended, in milliseconds. */
const lostChainMs = 60_000;

/** The handler `start`. Returns whether it began a chain. */
export async function startSweeper(context: ServiceContext, invocation: Invocation): Promise<boolean> {
  const state = chainOf(await invocation.get(chainState));
  const now = await invocation.run("time", async () => context.clock.now());
  const isRunning =
    state !== null && now - state.dueAt < lostChainMs && state.dueAt - now < context.sweepMs + lostChainMs;
  if (isRunning) return false;
  const generation = (state?.generation ?? 0) + 1;
  invocation.set(chainState, { generation, dueAt: now, after: null, sent: {} } satisfies ChainState);
  invocation.send(tickRequest(context, generation, 0));
  return true;
}

/** The handler `tick`; `null`: another chain has replaced this one. */
export async function tick(
  context: ServiceContext,
  invocation: Invocation,
  { generation }: { readonly generation: number },
): Promise<SweepReport | null> {
  const chain = chainOf(await invocation.get(chainState));
  if (chain?.generation !== generation) return null;
  const { report, next, now, sent } = await sweepAndSend(context, invocation, chain);
  const delayMs = next === null ? context.sweepMs : Math.min(fullSweepMs, context.sweepMs);
  invocation.set(chainState, { generation, dueAt: now + delayMs, after: next, sent } satisfies ChainState);
  invocation.send(tickRequest(context, generation, delayMs));
  return report;
}

/** The handler `sweep`. */
export async function sweepOnce(context: ServiceContext, invocation: Invocation): Promise<SweepReport> {
  return (await sweepAndSend(context, invocation, { after: null, sent: {} })).report;
}

async function sweepAndSend(
  context: ServiceContext,
  invocation: Invocation,
  { after, sent }: Pick<ChainState, "after" | "sent">,
): Promise<{ readonly report: SweepReport; readonly sent: SentCounts } & Pick<Found, "next" | "now">> {
  const { keys, now, next, ...report } = await invocation.run("sweep", () => sweepOf(context, invocation.id, after));
  for (const key of keys) {
    for (const request of resumeRequests(context, key, now, sent[key] ?? 0)) invocation.send(request);
  }
  const counts = Object.fromEntries(keys.map((key) => [key, (sent[key] ?? 0) + 1]));
  return { report: { ...report, resumed: keys.length }, next, now, sent: counts };
}

/** What a sweep found. */
export type Found = Omit<SweepReport, "resumed"> & {
  readonly keys: readonly string[];
  readonly next: string | null;
  readonly now: number;
};

/**
 * The sweep of an invocation. If an earlier attempt of the invocation still sweeps in this process, its result: a sweep
 * that takes longer than Restate waits would otherwise begin again with each attempt and never end.
 */
function sweepOf(context: ServiceContext, invocation: string, after: string | null): Promise<Found> {
  const { sweeps } = context.sweeper;
  const running = sweeps.get(invocation);
  if (running !== undefined) return running;
  const found = sweep(context, after).finally(() => sweeps.delete(invocation));
  sweeps.set(invocation, found);
  return found;
}

/** One sweep. Never rejects: a chain must not end because the storage cannot be reached. */
async function sweep({ sessions, clock, sweepLimit }: ServiceContext, after: string | null): Promise<Found> {
  try {
    const { due, next, expired, removed } = await sessions.sweep({ limit: sweepLimit, after });
    return { keys: due.map(objectKey), next, expired, removed, failure: null, now: clock.now() };
  } catch (error) {
    const failure = error instanceof Error ? error.message : String(error);
    return { keys: [], next: null, expired: 0, removed: 0, failure, now: clock.now() };
  }
}

function tickRequest({ names }: ServiceContext, generation: number, delayMs: number): SendRequest {
  const input = { generation };
  return { service: names.sweeper, handler: "tick", key: sweeperKey, input, idempotencyKey: null, delayMs };
}

function chainOf(value: unknown): ChainState | null {
  if (!isPlainObject(value)) return null;
  const { generation, dueAt, after, sent } = value;
  if (typeof generation !== "number" || typeof dueAt !== "number") return null;
  const counts = Object.entries(isPlainObject(sent) ? sent : {}).flatMap(([key, count]) =>
    typeof count === "number" ? [[key, count] as const] : [],
  );
  return { generation, dueAt, after: typeof after === "string" ? after : null, sent: Object.fromEntries(counts) };
}
