// A deployment on an implementation of Restate in memory, and requests to it.

import type { EngineFields } from "everturn";
import type { RestateServiceOptions } from "everturn/restate";
import type { HostStorage } from "everturn/runtime";

import { engine, RuntimeError } from "everturn";
import { restateRuntime } from "everturn/restate";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";

import { HandRestate } from "./hand-restate.ts";

type Setup = Omit<RestateServiceOptions, "sessions" | "clock"> & {
  readonly host?: HostStorage;
  /** How many sessions one sweep sends. */
  readonly sweepLimit?: number;
};

/** A web process, a service process, and Restate between them. */
export function deployment(of: EngineFields, { host: given, sweepLimit, ...options }: Setup = {}) {
  const clock = handClock();
  const host = given ?? memoryStorage({ clock });
  const engines = { default: engine({ model: "fake:m", ...of }) };
  const base = { engines, live: false, clock } as const;
  const service = runtime({ ...base, host, drive: false });
  const restate = new HandRestate(clock, { sessions: service, ...options }, sweepLimit);
  const failures: unknown[] = [];
  const ingress = { ingress: "http://restate.test", fetch: restate.fetch, clock };
  const onSendFailure = (failure: unknown) => failures.push(failure);
  const web = restateRuntime({ ...base, host, restate: ingress, onSendFailure });
  return { clock, host, base, web, service, restate, failures };
}

/** Starts the sweeper. */
export const startRequest = {
  service: "EverturnSweeper",
  handler: "start",
  key: "main",
  input: {},
  idempotencyKey: null,
  delayMs: 0,
};

/** Sends `drive` for whatever is open in a session. */
export const driveRequest = { ...startRequest, service: "EverturnSession", handler: "drive", input: { turnId: null } };

/** A storage that cannot be read. */
export function failingReads(): HostStorage {
  return { ...memoryStorage(), read: failingRead };
}

async function failingRead(): Promise<never> {
  throw new RuntimeError("storage_failed", { message: "the disk is gone" });
}
