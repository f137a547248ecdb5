// `everturn demo`: a refund conversation whose worker process is killed with SIGKILL, and a verification of what
// happened.
//
// Processes: this one accepts messages, reads events from the database and answers questions; it drives no turn. A
// worker process (worker.ts) claims and drives the turns. They share a SQLite file. The verification (verification.ts)
// counts the side-effect log of the workers and the journal in the database, so it does not rely on what was printed.

import type { Keyboard } from "./answer-prompt.ts";
import type { Environment } from "@everturn/server";

import { randomBytes } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";

import { isOffline, isPostgresUrl, openDatabase, SettingsError } from "@everturn/server";
import { sessionError } from "everturn/advanced";
import { runtime } from "everturn/runtime";

import { shellQuote } from "../commands/text.ts";
import { safeLine } from "../terminal/safe-text.ts";
import { demoAgent } from "./agent.ts";
import { AnswerPrompt } from "./answer-prompt.ts";
import { checkModel } from "./real-model.ts";
import { ScenarioRunner } from "./scenario-runner.ts";
import { Screen } from "./screen.ts";
import { readSideEffects, SideEffectLog } from "./side-effect-log.ts";
import { isVerified, showVerification, verify } from "./verification.ts";
import { Workers } from "./workers.ts";

export type DemoOptions = {
  /** `provider:model`; `null` or an offline model: the scripted model, which needs no API key and no network. */
  readonly model: string | null;
  /** The path in `--config`; `null`: none. */
  readonly config: string | null;
  /** A SQLite file, which may contain other sessions; `null`: a new file in a temporary folder. */
  readonly database: string | null;
  /** Whether a user can answer at the terminal. */
  readonly interactive: boolean;
  readonly colour: boolean;
  readonly input: Keyboard;
  readonly out: NodeJS.WritableStream;
  /** Receives error messages. */
  readonly errors: NodeJS.WritableStream;
  /** Returns the width of the terminal. Default: 80. */
  readonly columns?: () => number;
  readonly environment: Environment;
  /** The command line of this program in the hints at the end. Default: `npx everturn`. */
  readonly command?: string;
  /** Interrupts the demo, as Ctrl-C does. Default: SIGINT and SIGTERM of this process. */
  readonly signal?: AbortSignal;
};

/** The time limit of the whole demo, in milliseconds. It ends a demo that hangs. */
const longestMs = { scripted: 60_000, real: 240_000 } as const;
/**
 * How many characters of the reply are read before the worker is killed. Scripted: more than its short replies have,
 * and far less than its last one. Real models write replies of unknown length, so the number is small.
 */
const killAfterCharacters = { scripted: 70, real: 20 } as const;

/** Runs the demo. Returns the exit code: 0: verified; 1: failed; 2: invalid settings; 130: interrupted. */
export async function runDemo(requested: DemoOptions): Promise<number> {
  const options = {
    ...requested,
    model: requested.model === null || isOffline(requested.model) ? null : requested.model,
  };
  const { model, config, environment, errors } = options;
  const stop = new AbortController();
  const interrupt = () => stop.abort(interrupted);
  options.signal?.addEventListener("abort", interrupt, { once: true });
  if (options.signal?.aborted === true) interrupt();
  if (options.signal === undefined) for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, interrupt);
  const limit = longestMs[model === null ? "scripted" : "real"];
  const timer = setTimeout(() => stop.abort(new Error(`the demo did not finish within ${limit / 1000} s`)), limit);
  try {
    if (options.database !== null && isPostgresUrl(options.database)) {
      throw new SettingsError("the demo uses a SQLite file; --database postgres://… cannot be used");
    }
    if (options.database !== null && basename(options.database) === ":memory:") {
      throw new SettingsError("the processes of the demo share a database file; --database :memory: cannot be used");
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
  const startedAt = performance.now();
  const elapsed = () => performance.now() - startedAt;
  const screen = new Screen({ out, colour, columns, elapsed });

  const folder = mkdtempSync(join(tmpdir(), "everturn-"));
  const path = options.database === null ? join(folder, "demo.db") : resolve(options.database);
  const log = join(folder, "side-effects.log");
  new SideEffectLog(log).close();
  const id = `demo-${randomBytes(3).toString("hex")}`;

  const database = await openDatabase(path);
  const setup = { database: path, log, engine: id, model, config };
  const workers = new Workers(setup, environment, (reason) => stop.abort(reason));
  try {
    const agent = await demoAgent({ model, config, environment, log: null });
    const sessions = runtime({ host: database.storage, engines: { [id]: agent }, durability: "durable", drive: false });

    screen.title("everturn demo: a turn survives kill -9");
    screen.fact("model", model ?? "scripted (no API key, no network)");
    screen.fact("session", `${id}, stored in SQLite (${database.driver})`);
    const worker = workers.start();
    await Promise.race([worker.ready, aborted(signal)]);
    screen.fact("worker", `process ${worker.pid} drives the turns; this process (${process.pid}) reads and answers`);
    screen.gap();

    const terminal = interactive ? { input, out } : null;
    const prompt = new AnswerPrompt({ terminal, screen, signal, interrupt: () => stop.abort(interrupted) });
    const killAfter = killAfterCharacters[model === null ? "scripted" : "real"];
    const context = { sessions, id, engine: id, screen, prompt, workers, elapsed, killAfter, signal };
    const observed = await new ScenarioRunner(context, worker).run();
    signal.throwIfAborted();
    const total = elapsed();
    await workers.end(1000);

    const verification = await verify(sessions, id, readSideEffects(log), observed);
    screen.gap();
    screen.title("Verification, from the workers' side-effect log and the database");
    showVerification(screen, verification, total);
    const session = (await sessions.get(id, { messages: 1 }))?.session ?? null;
    const failure = session === null ? null : sessionError(session);
    if (failure !== null) screen.fact("failed", failure.message, "bad");
    screen.gap();
    screen.title("The files are kept. Inspect them with:");
    for (const verb of ["show", "replay"]) screen.verbatim(`${command} ${verb} ${id} --database ${shellQuote(path)}`);
    screen.verbatim(`${process.platform === "win32" ? "type" : "cat"} ${shellQuote(log)}`);
    return failure === null && session?.status === "completed" && isVerified(verification) ? 0 : 1;
  } finally {
    screen.close();
    await workers.end(0);
    await database.close();
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) return reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    return undefined;
  });
}
