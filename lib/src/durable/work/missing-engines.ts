// Reports engines whose turns nothing drives: this process does not have them, and their turns have been due for a
// while. Without a report, such turns wait for ever in silence.

import type { VerbContext } from "../drive/context.ts";

import { RuntimeError } from "../../core/model/internal.ts";

/** How long a turn has to be due before its engine is reported, in milliseconds. */
const overdueMs = 60_000;

/** How many queues are examined, and how many turns of each. */
const maxQueues = 1000;
const turnsPerQueue = 50;

/** Reports each engine that this process does not have and whose turns are overdue. */
export async function reportMissingEngines(
  { storage, engines, clock }: VerbContext,
  report: (error: unknown) => void,
): Promise<void> {
  const query = { table: "work", prefix: ["turn"], limit: 1 } as const;
  let after: string | null = null;
  for (let examined = 0; examined < maxQueues; examined += 1) {
    const [next = []]: Awaited<ReturnType<typeof storage.read>> = await storage.read([
      after === null ? query : { ...query, after },
    ]);
    const name = next[0]?.key[1];
    if (name === undefined) return;
    after = String(name);
    if (Object.hasOwn(engines, after)) continue;
    const [rows = []] = await storage.read([{ table: "work", prefix: ["turn", after], limit: turnsPerQueue }]);
    const oldest = Math.min(...rows.map(({ key }) => Number(key[3])));
    const dueMs = clock.now() - oldest;
    if (!(dueMs >= overdueMs)) continue;
    const message = `turns of the engine ${JSON.stringify(after)} have been due for ${Math.round(dueMs / 1000)} s: this process does not have the engine, and no other one drives them; deploy a process with it, or cancel them`;
    report(new RuntimeError("not_found", { message, metadata: { engine: after } }));
  }
}
