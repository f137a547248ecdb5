// Applies the limits of the runtime to a run that is no turn, such as a stateless chat completion: it takes the slots
// that a turn of the same engine, tenant and limit key would take.
//
// A run has no stored row that lists its slots, so no process could release them after a crash. Its slots therefore
// expire after the lease time, and are renewed while the run goes on. A run does not wait for a slot: the error says
// when to try again.

import type { Engine } from "../../core/engine/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { Put } from "../rows/storage.ts";

import { RuntimeError } from "../../core/model/internal.ts";
import { admit, capacitiesOf } from "../drive/admission.ts";
import { randomText } from "../rows/digest.ts";
import { limitOf, scopeParts } from "../rows/limits.ts";

/** When a caller should try again if a slot becomes free with the end of a turn, in milliseconds. */
const retryAfterMs = 1000;

/**
 * Takes the slots of a run of `engine` and returns the function that releases them. `name`: that of an engine that the
 * runtime does not have. Rejects with `quota_exceeded`.
 */
export async function admitRun(context: VerbContext, engine: Engine, name: string): Promise<() => Promise<void>> {
  const { storage, lease, tenant, limitKey, engines } = context;
  if (context.limits === null) return () => Promise.resolve();
  const known = Object.entries(engines).find(([, other]) => other === engine)?.[0];
  const subject = { key: { tenant, session: "" }, engine: known ?? name, limitKey, limit: null };
  const turn = `run-${randomText(12)}`;
  for (let attempt = 0; ; attempt += 1) {
    const { limit, changes } = await admit(context, subject, { turn, attempt });
    if (limit?.type === "waiting") throw await overLimit(context, limit.scope);
    // Slots of a rate have a time to live already; those of concurrency get that of a lease.
    const puts = changes.puts.map((put): Put => ({ ...put, ttlMs: put.ttlMs ?? lease.ttlMs }));
    const written = await storage.write({ ...changes, puts, lasting: false });
    if (!written.ok) continue;
    const held = puts.filter((_, index) => (changes.puts[index]?.ttlMs ?? null) === null);
    const stop = new AbortController();
    const renewal = renew(context, held, stop.signal);
    return async () => {
      stop.abort();
      await renewal;
      for (const slot of held) await storage.write({ checks: [checkOf(slot)], removals: [removalOf(slot)], puts: [] });
      context.turns.serveWaiting([...new Set(held.map(({ key }) => String(key[0])))]);
    };
  }
}

/** Renews the slots until the signal is aborted. A failed write is tried again with the next renewal. */
async function renew({ storage, clock, lease }: VerbContext, held: readonly Put[], signal: AbortSignal): Promise<void> {
  while (held.length > 0) {
    await clock.sleep(lease.renewMs, signal).catch(() => undefined);
    if (signal.aborted) return;
    for (const slot of held) {
      const batch = { checks: [checkOf(slot)], removals: [], puts: [slot], lasting: false };
      await storage.write(batch).catch(() => undefined);
    }
  }
}

/** The tag names the run: a slot that has expired and was taken again is left alone. */
const checkOf = ({ table, key, tag }: Put) => ({ table, key, tag });
const removalOf = ({ table, key }: Put) => ({ table, prefix: key });

async function overLimit(context: VerbContext, scope: string): Promise<RuntimeError> {
  const limit = limitOf(context.limits, scope);
  const [capacity] = await capacitiesOf(context, [limit === null ? null : { scope, limit }]);
  const { kind } = scopeParts(scope);
  const what = kind === "key" ? "limit key" : kind;
  const message = `limit reached: the ${what} has no free slot for another run; try again later`;
  return new RuntimeError("quota_exceeded", {
    message,
    metadata: { retryAfterMs: capacity?.freeInMs ?? retryAfterMs },
  });
}
