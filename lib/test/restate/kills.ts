// The kill test: service processes and the Restate server are killed with SIGKILL at random moments while messages are
// sent and a reader follows the events. A part of the requests to Restate is lost on purpose, and in the last phase all
// of them, so that the sweeper finishes these turns alone.

import type { Seen } from "../long/reader.ts";
import type { Deployed } from "./deployed.ts";
import type { Runtime } from "everturn/runtime";
import type { ChildProcess } from "node:child_process";

import { once } from "node:events";

import { faultsOf, performedAgain, ranTwice, resting } from "../long/oracles.ts";
import { readLog } from "../long/world.ts";
import { deploy } from "./deployed.ts";
import { begin, kill, pause, stop } from "./programs.ts";
import { patienceMs, report } from "./report.ts";

const ids = Array.from({ length: 12 }, (_, index) => `session-${index}`);
const serviceCount = 2;
/** How many messages are sent with all requests lost. */
const unsentMessages = 24;

/** Runs the test with this many kills of service processes. Returns the violations. */
export async function killTest(wantedKills: number): Promise<readonly string[]> {
  const began = Date.now();
  const deployed = await deploy(serviceCount, 1);
  try {
    const { web, storage, log, losses, database } = deployed;
    const [first, ...others] = await Promise.all(
      Array.from({ length: serviceCount }, (_, index) => deployed.startService(index)),
    );
    await deployed.register();
    for (const id of ids) await web.start(`hello ${id}`, { id, key: `start ${id}` });
    const reader = begin("reader", database, ...ids);
    await once(reader, "message");
    losses.request = 0.1;
    losses.response = 0.05;
    const over = new AbortController();
    const said = new Map(ids.map((id): readonly [string, string] => [`hello ${id}`, id]));
    const talk = talking(web, said, over.signal);
    const kills = { services: 0, servers: 0 };
    const outages = breaking(deployed, kills, over.signal);
    const running = await Promise.all(
      [first, ...others].map((service, index) => killing(deployed, index, service, kills, wantedKills)),
    );
    over.abort();
    await talk;
    await outages;
    // Only the sweeper finds these turns.
    losses.request = 1;
    for (let count = 0; count < unsentMessages; count += 1) await say(web, said, `unsent ${count}`);
    losses.request = 0;
    await resting(storage, Date.now() + patienceMs).catch(async (error: unknown) => {
      const views = await Promise.all(ids.map(async (id) => [id, await web.get(id, { messages: 0 })] as const));
      const stuck = views.flatMap(([id, view]) =>
        (view?.openTurn ?? null) === null ? [] : [`${id}: ${JSON.stringify(view?.openTurn)}`],
      );
      throw new Error(`turns did not end: ${stuck.join("; ")}`, { cause: error });
    });
    const reported = once(reader, "message");
    reader.send("stop");
    const [seen]: readonly Seen[] = await reported;
    if (seen === undefined) throw new Error("the reader has not reported");
    for (const service of running) await stop(service);
    const lines = readLog(log);
    const again = performedAgain(lines);
    const twice = ranTwice(lines);
    const { faults, counts } = await faultsOf(web, storage, ids, said);
    const unread = await Promise.all(
      ids.map(async (id) => {
        const [last = []] = await storage.read([{ table: "events", prefix: ["", id], limit: 1, reverse: true }]);
        const read = seen.sessions[id]?.last ?? 0;
        return last[0]?.key[2] === read ? [] : [`${id}: the reader got to ${read} of ${String(last[0]?.key[2])}`];
      }),
    );
    const replies = Object.values(seen.sessions).reduce((sum, one) => sum + one.replies, 0);
    report(
      `kill test with Restate        ${serviceCount} service processes behind ${deployed.proxy.kind}`,
      `  kills                       ${kills.services} of service processes, ${kills.servers} of the Restate server`,
      `  requests lost on purpose    ${losses.count}, ${unsentMessages} of them in a row`,
      `  inputs sent                 ${said.size}, turns ${counts["turns"]}, messages ${counts["messages"]}`,
      `  outcomes unknown            ${counts["unknownOutcomes"]}`,
      `  recorded effects run again  ${again.length}`,
      `  tools run twice (never)     ${twice.length}`,
      `  faults in stored data       ${faults.length}`,
      `  reader                      ${replies} replies, ${seen.resets} resets, ${seen.comebacks} reconnects by cursor, ${seen.broken.length} violations`,
      `  time                        ${Math.round((Date.now() - began) / 1000)} s`,
    );
    const few = kills.services < wantedKills ? ["there were too few kills"] : [];
    return [...again, ...twice, ...faults, ...seen.broken, ...unread.flat(), ...few];
  } finally {
    await deployed.close();
  }
}

/** Sends a message to a random session, sometimes twice with one key. */
async function say(web: Pick<Runtime, "send">, said: Map<string, string>, text: string): Promise<void> {
  const id = ids[Math.floor(Math.random() * ids.length)] ?? "";
  const times = Math.random() < 0.2 ? 2 : 1;
  await Promise.all(Array.from({ length: times }, () => web.send(id, text, { key: text })));
  said.set(text, id);
}

async function talking(web: Pick<Runtime, "send">, said: Map<string, string>, over: AbortSignal): Promise<void> {
  for (let count = 0; !over.aborted; count += 1) {
    await say(web, said, `said ${count}`);
    await pause(100 + Math.random() * 300);
  }
}

/**
 * Kills a service process and starts it again, until there have been enough kills. Returns the last process, which
 * runs.
 */
async function killing(
  { startService }: Deployed,
  index: number,
  first: ChildProcess | undefined,
  kills: { services: number },
  wanted: number,
): Promise<ChildProcess> {
  for (let service = first ?? (await startService(index)); ; service = await startService(index)) {
    if (kills.services >= wanted) return service;
    await pause(1000 + Math.random() * 4000);
    kills.services += 1;
    await kill(service);
    await pause(Math.random() * 500);
  }
}

/** Kills the Restate server and starts it again, about every ten seconds. */
async function breaking({ restate }: Deployed, kills: { servers: number }, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    for (let waited = 0; waited < 5000 + Math.random() * 8000 && !over.aborted; waited += 100) await pause(100);
    if (over.aborted) return;
    const [node] = restate.nodes;
    kills.servers += 1;
    await node?.kill();
    await pause(Math.random() * 1000);
    await node?.start();
  }
}
