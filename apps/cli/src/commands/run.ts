// `everturn run`: runs one durable turn with a prompt from the command line and from a pipe. Only the answer goes to standard output.
//
//   closed pipe      the turn continues to its end, without output
//   Ctrl-C (SIGINT)  cancels the turn, and waits until the cancel is stored; a second Ctrl-C exits immediately
//   SIGTERM          releases the lease of the turn and exits; the next process that opens the session continues it
//   kill -9          another process continues the turn when the lease has expired

import type { Workspace } from "../workspace.ts";
import type { CommandContext } from "./context.ts";
import type { JsonObject } from "everturn";
import type { DurableOptions, Runtime, TurnEnd, TurnHandle } from "everturn/runtime";

import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { safeLine } from "../terminal/safe-text.ts";
import { UsageError, withWorkspace } from "./context.ts";
import { exitCodeOf, exitCodes } from "./exit-codes.ts";
import { eventPrinter, reportEnd } from "./run-report.ts";
import { shellQuote } from "./text.ts";

export type RunRequest = {
  /** The prompt, as words of the command line. */
  readonly words: readonly string[];
  /** The session to continue, or the id of a new one; `null`: a new session with a random id. */
  readonly session: string | null;
  /** The path of a JSON Schema for the answer. */
  readonly schema: string | null;
  /** How many times the model may correct an answer that does not match the schema. */
  readonly repair: number;
  readonly form: "text" | "json" | "events";
  readonly quiet: boolean;
  readonly readsStdin: boolean;
  /** The decision about tool calls that wait for approval; `null`: the turn gets a prompt. */
  readonly decision: { readonly type: "approve" } | { readonly type: "deny"; readonly reason: string | null } | null;
};

export async function run(context: CommandContext, request: RunRequest): Promise<number> {
  const { io } = context;
  const piped = request.readsStdin && request.decision === null ? await io.stdin() : "";
  const prompt = promptOf(request.words, piped);
  if (request.decision === null && prompt === "") {
    throw new UsageError('no prompt: use everturn run "prompt", or pipe it in');
  }
  if (request.decision !== null && request.session === null) {
    throw new UsageError("--approve and --deny need --session ID, the session that waits for approval");
  }
  const output = request.schema === null ? null : readSchema(resolve(io.folder, request.schema));
  const use = async ({ sessions, engineName }: Workspace): Promise<number> => {
    const engine = engineName === "default" ? {} : { engine: engineName };
    const options = { ...engine, ...(output === null ? {} : { output, repair: request.repair }) };
    const turn = await begin(context, sessions, request, prompt, options);
    const end = await follow(context, sessions, turn, request);
    if (end === null) {
      const id = safeLine(turn.sessionId);
      context.note(
        `everturn: terminated; the turn is not lost, continue it with everturn chat --session ${shellQuote(id)}, or everturn serve`,
      );
      return exitCodes.terminated;
    }
    reportEnd(context, end, request, output !== null);
    return exitCodeOf(end);
  };
  return withWorkspace(context, use, request.quiet ? { onWarning: () => undefined } : {});
}

/** The words of the command line, then the piped input after an empty line. */
function promptOf(words: readonly string[], piped: string): string {
  return [words.join(" ").trim(), piped.trim()].filter((part) => part !== "").join("\n\n");
}

/** Starts the turn: a new session, a message to an existing one, or a decision about the calls it waits for. */
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
  // A turn that failed, or whose process died, is recovered first: a new message means that the session should continue.
  if (view.openTurn !== null && !quiet) {
    note(
      err.yellow(
        "a turn of this session is still open: it receives this message, and is recovered if its process died",
      ),
    );
  }
  if (view.openTurn !== null || view.session.status === "error") await sessions.recover(id);
  if (view.session.status === "awaiting_tools") {
    const names = view.session.pendingToolCalls.map(({ name }) => name).join(", ");
    throw new UsageError(
      `session ${id} waits for a decision about ${names}: use --approve or --deny, or everturn chat --session ${shellQuote(id)}`,
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
  if (turn === null) throw new UsageError(`session ${id} has no tool call that waits for approval`);
  return turn;
}

/** Prints the events of the turn until it ends. Returns `null` at SIGTERM. SIGINT cancels the turn; a second SIGINT exits immediately. */
async function follow(
  { io, err }: CommandContext,
  sessions: Runtime,
  turn: TurnHandle,
  request: RunRequest,
): Promise<TurnEnd | null> {
  const stopRecovery = startRecovery(sessions, turn.sessionId);
  let interrupts = 0;
  const offInterrupt = io.onInterrupt(() => {
    interrupts += 1;
    if (interrupts > 1) return io.exit(exitCodes.interrupted);
    // If the cancel fails, the turn continues and its result is reported.
    void sessions.cancel(turn.sessionId, { origin: "cli", reason: "interrupted" }).catch(() => undefined);
  });
  const printer = eventPrinter(io, err, request);
  let isDone = false;
  const turnEnd = async (): Promise<TurnEnd> => {
    if (turn.turnId === null) return turn.result;
    for await (const event of turn.events) {
      if (isDone) break;
      printer.event(event);
    }
    return turn.result;
  };
  const offs = [stopRecovery, offInterrupt];
  const terminated = new Promise<null>((resolve) => offs.push(io.onTerminate(() => resolve(null))));
  try {
    return await Promise.race([turnEnd(), terminated]);
  } finally {
    isDone = true;
    printer.end();
    for (const off of offs) off();
  }
}

/**
 * Tries to recover the turn once a second. Another process may drive it, and may die: `recover` takes the turn over when the lease of that
 * process has expired.
 */
function startRecovery(sessions: Runtime, id: string): () => void {
  const recoverTurn = async () => {
    const view = await sessions.get(id, { messages: 1 });
    if (view?.openTurn !== null && view?.openTurn.status !== "parked") await sessions.recover(id);
  };
  const timer = setInterval(() => void recoverTurn().catch(() => undefined), 1000);
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
  throw new UsageError(`--schema: ${path} has to contain a JSON Schema, which is an object`);
}

function isSchema(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
