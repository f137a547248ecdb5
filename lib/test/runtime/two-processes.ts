// Helpers for tests with several runtimes over one storage: two processes with random delays, and a process that can be
// paused.

import type { FakeScript } from "everturn";
import type { HostStorage, Runtime, RuntimeOptions } from "everturn/runtime";
import type { HandClock } from "everturn/testing";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { engine, fake, tool, messageText } from "everturn";
import { validateSession } from "everturn/advanced";
import { memoryStorage, runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { handClock } from "everturn/testing";
import Libsql from "libsql";
import { afterEach, expect } from "vitest";

import { handModel } from "../hand-model.ts";
import { says } from "../runs.ts";
import { gated, jittered, seeded } from "../shared-storage.ts";

const cleanUps: (() => void)[] = [];

afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) cleanUp();
});

/** A storage as two processes have it. `seeds`: how many random schedules a test tries on it. */
type Shared = {
  readonly name: string;
  readonly seeds: number;
  readonly open: () => readonly [HostStorage, HostStorage];
};

/** The hosts that can be shared by processes. */
export const sharedHosts: readonly Shared[] = [
  {
    name: "memory",
    seeds: 30,
    open: () => {
      const storage = memoryStorage();
      return [storage, storage];
    },
  },
  {
    name: "SQLite, two handles",
    seeds: 6,
    open: () => {
      const folder = mkdtempSync(join(tmpdir(), "everturn-processes-"));
      cleanUps.push(() => rmSync(folder, { recursive: true }));
      const handle = () => {
        const database = new Libsql(join(folder, "test.db"));
        cleanUps.push(() => database.close());
        return sqliteStorage(database, { pollMs: 2, synchronous: "normal" });
      };
      return [handle(), handle()];
    },
  },
];

/** A lease of 300 ms, for tests with a clock that is advanced by hand. */
export const shortLease = { ttlMs: 300, renewMs: 100 };

/**
 * An engine with a scripted model, a tool `erase` that needs approval and a manual tool `fetch`. `ran` lists the runs
 * of `erase`.
 */
export function talker(scripts: readonly FakeScript[]) {
  const ran: string[] = [];
  const adapter = fake({ scripts });
  const erase = tool({
    name: "erase",
    description: "Erases.",
    schema: { type: "object" },
    needsApproval: true,
    handler: (_, { idempotencyKey }) => {
      ran.push(idempotencyKey);
      return "gone";
    },
  });
  const fetchIt = tool({ name: "fetch", description: "Fetches.", schema: { type: "object" }, manual: true });
  return { adapter, ran, engine: engine({ adapter, model: "fake:m", tools: [erase, fetchIt] }) };
}

/** A script in which the model always replies "ok". */
export const alwaysOk = (): readonly FakeScript[] => Array.from({ length: 40 }, () => says("ok"));

/** Two runtimes over one storage whose operations take random time, derived from the seed. */
export function pair(
  open: Shared["open"],
  seed: number,
  engines: RuntimeOptions["engines"],
  rest: Partial<RuntimeOptions> = {},
): readonly [Runtime, Runtime, HostStorage] {
  const random = seeded(seed);
  const [one, other] = open().map((host) => jittered(host, random));
  if (one === undefined || other === undefined) throw new Error("two are needed");
  const [a, b] = [one, other].map((host) => runtime({ host, engines, ...rest }));
  if (a === undefined || b === undefined) throw new Error("two are needed");
  return [a, b, one];
}

/** The index of the promise that resolved. Exactly one does; the other rejects with a conflict. */
export async function oneWins(both: readonly Promise<unknown>[]): Promise<number> {
  const settled = await Promise.allSettled(both);
  const won = settled.flatMap(({ status }, index) => (status === "fulfilled" ? [index] : []));
  const lost = settled.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
  expect(won).toHaveLength(1);
  expect(lost).toMatchObject([{ name: "RuntimeError", reason: "conflict" }]);
  return won[0] ?? -1;
}

/** Drives the open turns of sessions to their end. */
export async function settle(sessions: Runtime, ...ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    for (;;) {
      const view = await sessions.get(id);
      if (view === null || view.openTurn === null) break;
      await sessions.recover(id);
      await sessions.attach(id, view.openTurn.turnId).result;
    }
  }
}

/** The texts of the messages of a session, which must be valid. */
export async function texts(sessions: Runtime, id: string): Promise<readonly string[]> {
  const view = await sessions.get(id);
  const session = view?.session;
  if (session === undefined) return [];
  expect(validateSession(session)).toMatchObject({ ok: true });
  return session.thread.messages.map(messageText);
}

/**
 * Two processes over one storage in memory. The model is controlled by the test, and writes of the first process can be
 * held (`gate`).
 */
export function pausedProcess({
  base = handClock(),
  ...rest
}: Partial<RuntimeOptions> & { readonly base?: HandClock } = {}) {
  const clock = base;
  const storage = memoryStorage({ clock });
  const model = handModel();
  const ran: string[] = [];
  const look = tool({
    name: "look",
    description: "Looks.",
    schema: { type: "object" },
    handler: (_, { idempotencyKey }) => {
      ran.push(idempotencyKey);
      return "seen";
    },
  });
  const engines = { default: engine({ adapter: model, model: "hand:m", tools: [look] }) };
  const gate = gated(storage);
  const first = runtime({ host: gate, engines, clock, lease: shortLease, owner: "first", ...rest });
  const second = runtime({ host: storage, engines, clock, lease: shortLease, owner: "second" });
  return { storage, clock, model, ran, engines, gate, first, second };
}

/** Resolves after the tasks that are queued now. */
export function nextTask(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
