// Servers that end in the middle of many turns and begin again, on the same file and port: killed, or stopped as a deploy would. Every client comes back
// by itself, every turn ends, nothing is lost or doubled, and no reply that was recorded is bought again.

import type { Finished } from "./clients.ts";
import type { Line, Pace } from "./paced-model.ts";
import type { ServerPlan } from "./server.ts";
import type { WatcherPlan } from "./watcher.ts";

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { messageText } from "everturn/model";
import { runtime } from "everturn/runtime";

import { openDatabase } from "../../src/database.ts";
import { pacedAgent, pause, readLog } from "./paced-model.ts";
import { folder, Listening, Program } from "./programs.ts";

export type KilledResult = {
  readonly clients: number;
  readonly ends: number;
  /** Model calls that were begun, and how many would have been without an end. */
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
  /** How long a server lives. */
  readonly livesMs: number;
  readonly pace: Pace;
  readonly plan: Partial<ServerPlan>;
};

export async function ended({ name, how, clients: count, times, livesMs, pace, plan }: Ending): Promise<KilledResult> {
  // Not one of those that are handed out: a client that tries while nobody listens could be given it, and would talk to itself.
  const port = 10_000 + Math.floor(Math.random() * 20_000);
  const began = Date.now();
  const [file, log] = [join(folder, `${name}.db`), join(folder, `${name}.log`)];
  writeFileSync(log, "");
  let server = await Listening.start("server", { ...plan, file, log, port });
  const clients = new Program("clients");
  const plans = Array.from({ length: count }, (_, index): WatcherPlan => {
    return { port, session: `${name}-${index}`, pace, as: "start", stalls: false };
  });
  const begun = clients.ask({ type: "begin", plans });
  // Whoever is stopped has streams to say farewell to; whoever is killed may be so while sessions are being begun.
  if (how === "stop") await begun;
  for (let end = 0; end < times; end += 1) {
    await pause(livesMs * (0.5 + Math.random()));
    if (how === "kill") await server.kill();
    else await server.stop();
    server = await Listening.start("server", { ...plan, file, log, port });
  }
  await begun;
  const finished = await clients.ask<Finished>({ type: "finish" });
  await server.stop();
  await clients.stop();
  const lines = readLog(log);
  const faults = [...boughtAgain(lines), ...ranTwice(lines), ...(await storedOtherwise(file, finished))];
  const calls = lines.filter(({ what }) => what === "model_began").length;
  const needed = count * pace.replies;
  return { clients: count, ends: times, calls, needed, finished, faults, tookMs: Date.now() - began };
}

/** Replies that were on record and asked for again: those asked for after one that only they could have caused. */
function boughtAgain(lines: readonly Line[]): readonly string[] {
  const known = new Map<string, number>();
  return lines.flatMap(({ what, turn, effect }) => {
    if (what !== "model_began") return [];
    const [before, now] = [known.get(turn) ?? 0, Number(effect)];
    known.set(turn, Math.max(before, now));
    return now < before ? [`${turn}: the reply behind ${now} messages was bought after the one behind ${before}`] : [];
  });
}

/** Calls of a tool that may run only once, and did not. */
function ranTwice(lines: readonly Line[]): readonly string[] {
  const runs = new Map<string, number>();
  for (const { what, effect } of lines) if (what === "tool_began") runs.set(effect, (runs.get(effect) ?? 0) + 1);
  return [...runs].flatMap(([effect, times]) => (times > 1 ? [`pay ${effect} ran ${times} times`] : []));
}

/** Sessions that say something else than was heard of them. */
async function storedOtherwise(file: string, { replies }: Finished): Promise<readonly string[]> {
  const { storage, close } = await openDatabase(file);
  const sessions = runtime({ host: storage, engines: { default: pacedAgent(null) }, drive: false });
  const faults: string[] = [];
  for (const [id, heard] of Object.entries(replies)) {
    const view = await sessions.get(id);
    const said = view?.session.thread.messages.filter(({ role }) => role === "assistant").map(messageText) ?? [];
    if (view?.openTurn !== null) faults.push(`${id}: has a turn open`);
    if (view?.session.status !== "completed") faults.push(`${id}: is ${view?.session.status ?? "gone"}`);
    if (JSON.stringify(said) !== JSON.stringify(heard)) faults.push(`${id}: says something else than was heard`);
  }
  await sessions.close();
  await close();
  return faults;
}
