// Servers that end during many turns and restart on the same file and port: killed (SIGKILL), or stopped gracefully as
// in a deploy (SIGTERM). Every client reconnects by itself, every turn ends, no event is lost or duplicated, and no
// stored reply is requested again.

import type { Finished } from "./clients.ts";
import type { Line, Pace } from "./paced-model.ts";
import type { ServerPlan } from "./server.ts";
import type { WatcherPlan } from "./watcher.ts";

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { messageText } from "everturn";
import { runtime } from "everturn/runtime";

import { openDatabase } from "../../src/database.ts";
import { pacedAgent, pause, readLog } from "./paced-model.ts";
import { folder, Listening, Program } from "./programs.ts";

export type KilledResult = {
  readonly clients: number;
  readonly ends: number;
  /** Model calls that were started, and the number without any interruption. */
  readonly calls: number;
  readonly needed: number;
  readonly finished: Finished;
  readonly faults: readonly string[];
  readonly tookMs: number;
};

export type Ending = {
  readonly name: string;
  readonly how: "kill" | "stop";
  readonly clients: number;
  readonly times: number;
  /** The mean uptime of a server, in milliseconds. */
  readonly livesMs: number;
  readonly pace: Pace;
  readonly plan: Partial<ServerPlan>;
};

export async function ended({ name, how, clients: count, times, livesMs, pace, plan }: Ending): Promise<KilledResult> {
  // Not an ephemeral port: a client that connects while no server listens could get the same port and connect to
  // itself.
  const port = 10_000 + Math.floor(Math.random() * 20_000);
  const startedAt = Date.now();
  const [file, log] = [join(folder, `${name}.db`), join(folder, `${name}.log`)];
  writeFileSync(log, "");
  let server = await Listening.start("server", { ...plan, file, log, port });
  const clients = new Program("clients");
  const plans = Array.from({ length: count }, (_, index): WatcherPlan => {
    return { port, session: `${name}-${index}`, pace, as: "start", stalls: false };
  });
  const started = clients.ask({ type: "begin", plans });
  // A graceful stop is tested with open streams; a kill may also come while sessions are being created.
  if (how === "stop") await started;
  for (let end = 0; end < times; end += 1) {
    await pause(livesMs * (0.5 + Math.random()));
    if (how === "kill") await server.kill();
    else await server.stop();
    server = await Listening.start("server", { ...plan, file, log, port });
  }
  await started;
  const finished = await clients.ask<Finished>({ type: "finish" });
  await server.stop();
  await clients.stop();
  const lines = readLog(log);
  const faults = [...requestedAgain(lines), ...ranTwice(lines), ...(await storedDifferently(file, finished))];
  const calls = lines.filter(({ what }) => what === "model_began").length;
  const needed = count * pace.replies;
  return { clients: count, ends: times, calls, needed, finished, faults, tookMs: Date.now() - startedAt };
}

/** Stored replies that were requested again: model calls with a shorter history than an earlier call of the turn. */
function requestedAgain(lines: readonly Line[]): readonly string[] {
  const longestHistory = new Map<string, number>();
  return lines.flatMap(({ what, turn, effect }) => {
    if (what !== "model_began") return [];
    const [before, now] = [longestHistory.get(turn) ?? 0, Number(effect)];
    longestHistory.set(turn, Math.max(before, now));
    return now < before ? [`${turn}: the reply after ${now} messages was requested after the one after ${before}`] : [];
  });
}

/** Tool calls with the replay policy `never` that ran more than once. */
function ranTwice(lines: readonly Line[]): readonly string[] {
  const runs = new Map<string, number>();
  for (const { what, effect } of lines) if (what === "tool_began") runs.set(effect, (runs.get(effect) ?? 0) + 1);
  return [...runs].flatMap(([effect, times]) => (times > 1 ? [`pay ${effect} ran ${times} times`] : []));
}

/** Sessions whose stored replies differ from the received ones, or that are not completed. */
async function storedDifferently(file: string, { replies }: Finished): Promise<readonly string[]> {
  const { storage, close } = await openDatabase(file);
  const sessions = runtime({ host: storage, engines: { default: pacedAgent(null) }, drive: false });
  const faults: string[] = [];
  for (const [id, received] of Object.entries(replies)) {
    const view = await sessions.get(id);
    const stored = view?.session.thread.messages.filter(({ role }) => role === "assistant").map(messageText) ?? [];
    if (view?.openTurn !== null) faults.push(`${id}: has an open turn`);
    if (view?.session.status !== "completed") faults.push(`${id}: is ${view?.session.status ?? "gone"}`);
    const differs = Array.from({ length: Math.max(stored.length, received.length) }, (_, index) => index).find(
      (index) => stored[index] !== received[index],
    );
    if (differs !== undefined) {
      faults.push(
        `${id}: of ${stored.length} stored and ${received.length} received replies, number ${differs} differs`,
      );
    }
  }
  await sessions.close();
  await close();
  return faults;
}
