// `everturn demo`: a refund that survives `kill -9`, and the proof of it. What is shown is read from the database and from what workers wrote down;
// this process accepts, reads and answers, and drives nothing.

import type { Keyboard } from "./person.ts";
import type { Environment } from "@everturn/server";

import { randomBytes } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";

import { isOffline, openDatabase, SettingsError } from "@everturn/server";
import { sessionError } from "everturn/model";
import { runtime } from "everturn/runtime";

import { safeLine } from "../terminal/safe-text.ts";
import { demoAgent } from "./agent.ts";
import { Person } from "./person.ts";
import { Play } from "./play.ts";
import { holds, prove, showProof } from "./proof.ts";
import { checkModel } from "./real-model.ts";
import { Screen } from "./screen.ts";
import { Workers } from "./workers.ts";
import { readWorldLog, WorldLog } from "./world-log.ts";

export type DemoOptions = {
  /** `provider:name`; `null`, or one that is offline: the scripted model, which needs neither key nor network. */
  readonly model: string | null;
  /** The configuration file, where one is named. */
  readonly config: string | null;
  /** A SQLite file, which may have other sessions in it; `null`: a new one, in a folder of its own. */
  readonly database: string | null;
  /** Somebody is at the terminal, and may answer. */
  readonly interactive: boolean;
  readonly colour: boolean;
  readonly input: Keyboard;
  readonly out: NodeJS.WritableStream;
  /** For what is wrong. */
  readonly errors: NodeJS.WritableStream;
  /** How wide the terminal is, when asked; 80 for a log. */
  readonly columns?: () => number;
  readonly environment: Environment;
  /** What is typed to call this program, for the hints at the end. */
  readonly command?: string;
  /** Ends the demo, as Ctrl-C does. Without one, SIGINT and SIGTERM of this process do. */
  readonly signal?: AbortSignal;
};

/** Nothing of the demo takes nearly as long: whatever hangs, ends. */
const longestMs = { scripted: 60_000, real: 240_000 } as const;
/** More than the script says in passing, and far from a whole reply; what real models say, and how fast, nobody knows. */
const killAfterCharacters = { scripted: 70, real: 20 } as const;

/** Runs the demo. Returns the exit code: 0, 1 when something failed, 2 when it cannot begin, 130 when it was interrupted. */
export async function runDemo(given: DemoOptions): Promise<number> {
  const options = { ...given, model: given.model === null || isOffline(given.model) ? null : given.model };
  const { model, config, environment, errors } = options;
  const stop = new AbortController();
  const interrupt = () => stop.abort(interrupted);
  options.signal?.addEventListener("abort", interrupt, { once: true });
  if (options.signal?.aborted === true) interrupt();
  if (options.signal === undefined) for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, interrupt);
  const limit = longestMs[model === null ? "scripted" : "real"];
  const timer = setTimeout(() => stop.abort(new Error(`nothing came to an end within ${limit / 1000} s`)), limit);
  try {
    if (options.database !== null && basename(options.database) === ":memory:") {
      throw new SettingsError("the processes of the demo meet in a file; --database :memory: is none");
    }
    if (model !== null) await checkModel({ model, config, environment });
    return await perform(options, stop);
  } catch (error) {
    if (stop.signal.reason === interrupted) return 130;
    const reason: unknown = stop.signal.aborted ? stop.signal.reason : error;
    errors.write(`everturn demo: ${safeLine(reason instanceof Error ? reason.message : String(reason))}\n`);
    return reason instanceof SettingsError ? 2 : 1;
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener("abort", interrupt);
    for (const name of ["SIGINT", "SIGTERM"] as const) process.off(name, interrupt);
  }
}

const interrupted = new Error("interrupted");

async function perform(options: DemoOptions, stop: AbortController): Promise<number> {
  const { model, config, environment, input, out, colour, interactive } = options;
  const { columns = () => 80, command = "npx everturn" } = options;
  const { signal } = stop;
  const began = performance.now();
  const elapsed = () => performance.now() - began;
  const screen = new Screen({ out, colour, columns, elapsed });

  const folder = mkdtempSync(join(tmpdir(), "everturn-"));
  const path = options.database === null ? join(folder, "demo.db") : resolve(options.database);
  const world = join(folder, "world.log");
  new WorldLog(world).close();
  const id = `demo-${randomBytes(3).toString("hex")}`;

  const file = await openDatabase(path);
  const setup = { database: path, world, engine: id, model, config };
  const workers = new Workers(setup, environment, (reason) => stop.abort(reason));
  try {
    const agent = await demoAgent({ model, config, environment, world: null });
    const sessions = runtime({ host: file.storage, engines: { [id]: agent }, durability: "durable", drive: false });

    screen.title("everturn demo: a refund that survives kill -9");
    screen.fact("model", model ?? "scripted: no key, no network");
    screen.fact("session", `${id}, in SQLite (${file.driver})`);
    const worker = workers.start();
    await Promise.race([worker.ready, aborted(signal)]);
    screen.fact("worker", `process ${worker.pid} drives; this one, ${process.pid}, accepts and reads`);
    screen.gap();

    const terminal = interactive ? { input, out } : null;
    const person = new Person({ terminal, screen, signal, interrupt: () => stop.abort(interrupted) });
    const killAfter = killAfterCharacters[model === null ? "scripted" : "real"];
    const stage = { sessions, id, engine: id, screen, person, workers, elapsed, killAfter, signal };
    const played = await new Play(stage, worker).run();
    signal.throwIfAborted();
    const total = elapsed();
    await workers.end(1000);

    const proof = await prove(sessions, id, readWorldLog(world), played);
    screen.gap();
    screen.title("Proof, counted in what the workers wrote down and read from the database");
    showProof(screen, proof, total);
    const session = (await sessions.get(id, { messages: 1 }))?.session ?? null;
    const failure = session === null ? null : sessionError(session);
    if (failure !== null) screen.fact("failed", failure.message, "bad");
    screen.gap();
    screen.title("The files are kept. Look at them:");
    for (const verb of ["show", "replay"]) screen.verbatim(`${command} ${verb} ${id} --database ${quoted(path)}`);
    screen.verbatim(`${process.platform === "win32" ? "type" : "cat"} ${quoted(world)}`);
    return failure === null && session?.status === "completed" && holds(proof) ? 0 : 1;
  } finally {
    screen.close();
    await workers.end(0);
    await file.close();
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) return reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    return undefined;
  });
}

/** As a shell wants it. */
function quoted(path: string): string {
  return /^[\w@%+=:,./\\-]+$/.test(path) ? path : `'${path.replaceAll("'", String.raw`'\''`)}'`;
}
