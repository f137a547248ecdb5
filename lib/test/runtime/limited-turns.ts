// Starts many turns at once in several processes with limits over one storage, and records how many are performed at
// the same time. There is no worker: a turn that is not started when a slot becomes free would never end.

import type { Adapter } from "everturn";
import type { HostStorage, RuntimeLimits } from "everturn/runtime";

import { engine, fake, messageText } from "everturn";
import { runtime } from "everturn/runtime";

/** What happened to the turns. */
export type LimitedRun = {
  /** The largest number of turns that were performed at the same time. */
  readonly peak: number;
  /** The largest number for one user. */
  readonly peakOfUser: number;
  /** How often the model was called. */
  readonly calls: number;
  readonly completed: number;
  /** Slots that are held and turns that wait at the end. */
  readonly left: number;
};

export async function runLimited(
  storages: readonly HostStorage[],
  { turns, users, limits }: { readonly turns: number; readonly users: number; readonly limits: RuntimeLimits },
): Promise<LimitedRun> {
  const running: string[] = [];
  const seen = { peak: 0, peakOfUser: 0, calls: 0 };
  const adapter: Adapter = {
    provider: "fake",
    async *stream(request, options) {
      const [message] = request.messages;
      const user = message === undefined ? "" : messageText(message);
      seen.calls += 1;
      running.push(user);
      seen.peak = Math.max(seen.peak, running.length);
      seen.peakOfUser = Math.max(seen.peakOfUser, running.filter((other) => other === user).length);
      for (let pause = 0; pause < 5; pause += 1) await new Promise((resolve) => void setImmediate(resolve));
      running.splice(running.indexOf(user), 1);
      yield* fake({ script: [{ type: "text", text: "Done." }] }).stream(request, options);
    },
  };
  const engines = { default: engine({ adapter, model: "fake:m" }) };
  const processes = storages.map((host) => runtime({ host, engines, limits, live: false }));
  const results = Array.from({ length: turns }, async (_, index) => {
    const sessions = processes[index % processes.length];
    const [tenant, limitKey] = [`tenant${index % 3}`, `user${index % users}`];
    const turn = await sessions?.tenant(tenant).start(`${tenant} ${limitKey}`, { id: `s${index}`, limitKey });
    return turn?.result;
  });
  const completed = (await Promise.all(results)).filter((end) => end?.haltedReason === "completed").length;
  await Promise.all(processes.map((process) => process.close({ graceMs: 1000 })));
  const [slots = [], waiting = []] =
    (await storages[0]?.read([
      { table: "slots", prefix: [] },
      { table: "work", prefix: ["limit"] },
    ])) ?? [];
  const left = slots.filter(({ expires }) => expires === null).length + waiting.length;
  return { ...seen, completed, left };
}
