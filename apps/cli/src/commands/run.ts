// `everturn run`: one turn, durably, from the command line or a pipe. The answer goes to standard output and nothing else does.
//
// Leaving early is nothing to the turn: a reader that closes the pipe only stops hearing of it. Ctrl-C is another matter: it cancels, and waits until
// that is stored. SIGTERM leaves: the turn is handed over, and goes on where somebody comes back to it.

import type { CommandContext } from "./context.ts";
import type { JsonObject } from "everturn";
import type { DurableOptions, Runtime, TurnEnd, TurnHandle } from "everturn/runtime";

import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { safeLine } from "../terminal/safe-text.ts";
import { UsageError, withWorkspace } from "./context.ts";
import { exitCodeOf, exitCodes } from "./exit-codes.ts";
import { narrator, reportEnd } from "./run-report.ts";

export type RunRequest = {
  readonly words: readonly string[];
  /** The session to go on with, or to begin under that name. */
  readonly session: string | null;
  /** A file with a JSON Schema. */
  readonly schema: string | null;
  readonly repair: number;
  readonly form: "text" | "json" | "events";
  readonly quiet: boolean;
  readonly readsStdin: boolean;
  /** What is said to calls that wait for consent. */
  readonly decision: { readonly type: "approve" } | { readonly type: "deny"; readonly reason: string | null } | null;
};

export async function run(context: CommandContext, request: RunRequest): Promise<number> {
  const { io } = context;
  const piped = request.readsStdin && request.decision === null ? await io.stdin() : "";
  const prompt = promptOf(request.words, piped);
  if (request.decision === null && prompt === "") {
    throw new UsageError('nothing to say: everturn run "prompt", or pipe it in');
  }
  if (request.decision !== null && request.session === null) {
    throw new UsageError("--approve and --deny need --session ID: the session that waits");
  }
  const output = request.schema === null ? null : readSchema(resolve(io.folder, request.schema));
  return withWorkspace(context, async ({ sessions }) => {
    const options = output === null ? {} : { output, repair: request.repair };
    const turn = await begin(context, sessions, request, prompt, options);
    const end = await follow(context, sessions, turn, request);
    if (end === null) {
      const id = safeLine(turn.sessionId);
      context.note(`everturn: told to stop; the turn goes on with everturn chat --session ${id}, or everturn serve`);
      return exitCodes.terminated;
    }
    reportEnd(context, end, request, output !== null);
    return exitCodeOf(end);
  });
}

/** The words of the command line, then what was piped in. */
function promptOf(words: readonly string[], piped: string): string {
  return [words.join(" ").trim(), piped.trim()].filter((part) => part !== "").join("\n\n");
}

/** Accepts the turn: a new session, more words for one that is there, or a decision on what it waits for. */
async function begin(
  { note, err }: CommandContext,
  sessions: Runtime,
  { session: id, decision, quiet }: RunRequest,
  prompt: string,
  options: DurableOptions,
): Promise<TurnHandle> {
  if (id === null) return sessions.start(prompt, options);
  const view = await sessions.get(id, { messages: 1 });
  if (decision !== null) {
    if (view === null) throw new UsageError(`there is no session ${JSON.stringify(id)}; everturn sessions lists them`);
    return decideAll(sessions, id, decision);
  }
  if (view === null) return sessions.start(prompt, { ...options, id });
  // What failed, or was left by a process that died, is brought back first: whoever says more wants it to go on.
  if (view.openTurn !== null && !quiet) {
    note(err.yellow("a turn of this session is open: it is told this too, and picked up if nobody drives it any more"));
  }
  if (view.openTurn !== null || view.session.status === "error") await sessions.recover(id);
  if (view.session.status === "awaiting_tools") {
    const names = view.session.pendingToolCalls.map(({ name }) => name).join(", ");
    throw new UsageError(
      `session ${id} waits for ${names}: say --approve or --deny, or answer in everturn chat --session ${id}`,
    );
  }
  return sessions.send(id, prompt, options);
}

async function decideAll(
  sessions: Runtime,
  id: string,
  decision: NonNullable<RunRequest["decision"]>,
): Promise<TurnHandle> {
  const view = await sessions.get(id, { messages: 1 });
  const open = view?.session.pendingToolCalls.filter(
    (call) => call.decision === null && (call.reason === "approval" || call.reason === "outcome_unknown"),
  );
  let turn: TurnHandle | null = null;
  for (const call of open ?? []) turn = await sessions.decide(id, call.id, { ...decision, by: "cli" });
  if (turn === null) throw new UsageError(`session ${id} has no call that waits for consent`);
  return turn;
}

/** Tells what happens until the turn has come to something; `null`: it has not, and we are to go. Ctrl-C cancels it; a second one leaves at once. */
async function follow(
  { io, err }: CommandContext,
  sessions: Runtime,
  turn: TurnHandle,
  request: RunRequest,
): Promise<TurnEnd | null> {
  const stopKeeping = keepGoing(sessions, turn.sessionId);
  let interrupts = 0;
  const listening = io.onInterrupt(() => {
    interrupts += 1;
    if (interrupts > 1) return io.exit(exitCodes.interrupted);
    // Where it fails, the turn goes on, and what it comes to is told.
    void sessions.cancel(turn.sessionId, { origin: "cli", reason: "interrupted" }).catch(() => undefined);
  });
  const tell = narrator(io, err, request);
  let isLeft = false;
  const heard = async (): Promise<TurnEnd> => {
    if (turn.turnId === null) return turn.result;
    for await (const event of turn.events) {
      if (isLeft) break;
      tell.event(event);
    }
    return turn.result;
  };
  const offs = [stopKeeping, listening];
  const told = new Promise<null>((resolve) => offs.push(io.onTerminate(() => resolve(null))));
  try {
    return await Promise.race([heard(), told]);
  } finally {
    isLeft = true;
    tell.end();
    for (const off of offs) off();
  }
}

/** Somebody who drove the turn may have died: it can be picked up when their lease has run out, and then it is. */
function keepGoing(sessions: Runtime, id: string): () => void {
  const look = async () => {
    const view = await sessions.get(id, { messages: 1 });
    if (view?.openTurn !== null && view?.openTurn.status !== "parked") await sessions.recover(id);
  };
  const timer = setInterval(() => void look().catch(() => undefined), 1000);
  return () => clearInterval(timer);
}

function readSchema(path: string): JsonObject {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new UsageError(`--schema: cannot read ${path}`, { cause });
  }
  try {
    const value: unknown = JSON.parse(text.replace(/^\uFEFF/, ""));
    if (isSchema(value)) return value;
  } catch (cause) {
    throw new UsageError(`--schema: ${path} is not JSON`, { cause });
  }
  throw new UsageError(`--schema: ${path} has to hold a JSON Schema: an object`);
}

function isSchema(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
