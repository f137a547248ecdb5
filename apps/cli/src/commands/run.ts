// `everturn run`: runs one durable turn with a prompt from the command line and from a pipe. Only the answer goes to
// standard output.
//
//   closed pipe      the turn continues to its end, without output
//   Ctrl-C (SIGINT)  cancels the turn, and waits until the cancel is stored; a second Ctrl-C exits immediately
//   SIGTERM          releases the lease of the turn and exits; the next process that opens the session continues it
//   kill -9          another process continues the turn when the lease has expired

import type { Workspace } from "../workspace.ts";
import type { CommandContext } from "./context.ts";
import type { Io } from "./io.ts";
import type { JsonObject, PendingToolCall } from "everturn";
import type { DurableOptions, Runtime, TurnEnd, TurnHandle } from "everturn/runtime";

import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { callPath } from "everturn";

import { safeLine } from "../terminal/safe-text.ts";
import { actorName, tenantOf, UsageError, withWorkspace } from "./context.ts";
import { exitCodeOf, exitCodes } from "./exit-codes.ts";
import { changeText, isDecidable, pendingCallText, sessionFlags, tenantFlag, waitingLines } from "./pending-call.ts";
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
  readonly decision:
    | {
        readonly type: "approve";
        /**
         * The digests of the calls to approve, as they were printed; empty: the calls are shown, and the user is asked.
         */
        readonly digests: readonly string[];
      }
    | { readonly type: "deny"; readonly reason: string | null }
    | null;
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
    const turn = await begin(context, sessions.actedBy(actorName()), request, prompt, options);
    if (turn === null) return exitCodes.waiting;
    const end = await follow(context, sessions, turn, request);
    if (end === null) {
      const id = safeLine(turn.sessionId);
      context.note(
        `everturn: terminated; the turn is not lost, continue it with everturn chat ${sessionFlags(id, tenantOf(context))}, or everturn serve`,
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

/**
 * Starts the turn: a new session, a message to an existing one, or a decision about the calls it waits for. `null`:
 * nothing was decided.
 */
async function begin(
  context: CommandContext,
  sessions: Runtime,
  { session: id, decision, quiet }: RunRequest,
  prompt: string,
  options: DurableOptions,
): Promise<TurnHandle | null> {
  const { note, err } = context;
  if (id === null) return sessions.start(prompt, options);
  const view = await sessions.get(id, { messages: 1 });
  if (decision !== null) {
    if (view === null) throw new UsageError(`there is no session ${JSON.stringify(id)}; everturn sessions lists them`);
    return decideCalls(context, sessions, id, decision, quiet);
  }
  if (view === null) return sessions.start(prompt, { ...options, id });
  // A turn that failed, or whose process died, is recovered first: a new message means that the session should
  // continue.
  if (view.openTurn !== null && !quiet) {
    note(
      err.yellow(
        "a turn of this session is still open: it receives this message, and is recovered if its process died",
      ),
    );
  }
  if (view.openTurn !== null || view.session.status === "error") await sessions.recover(id);
  if (view.session.status === "awaiting_tools") {
    const names = view.session.pendingToolCalls.map(({ shown }) => safeLine(callPath(shown))).join(", ");
    throw new UsageError(
      `session ${id} waits for a decision about ${names}: everturn show ${shellQuote(id)}${tenantFlag(tenantOf(context))} prints it with the commands that decide, and everturn chat ${sessionFlags(id, tenantOf(context))} asks for it`,
    );
  }
  return sessions.send(id, prompt, options);
}

/**
 * Approves the calls with the given digests, or those that the user confirms, or denies all calls. Each decision
 * carries the digest of a call that was printed (A1). Returns `null` if the user approves none, or if a call is not the
 * one that was printed.
 */
async function decideCalls(
  context: CommandContext,
  sessions: Runtime,
  id: string,
  decision: NonNullable<RunRequest["decision"]>,
  quiet: boolean,
): Promise<TurnHandle | null> {
  const { note, err } = context;
  const pending = async () => (await sessions.get(id, { messages: 1 }))?.session.pendingToolCalls ?? [];
  const printWaiting = (calls: readonly PendingToolCall[]): void => {
    for (const line of waitingLines(id, calls, tenantOf(context))) note(err.yellow(line));
  };
  const open = (await pending()).filter(isDecidable);
  if (open.length === 0) throw new UsageError(`session ${id} has no tool call that waits for approval`);
  const all = open.map((call) => ({ call, digest: call.digest }));
  let chosen: readonly ChosenCall[] = all;
  if (decision.type === "approve" && decision.digests.length === 0) {
    printWaiting(open);
    chosen = await confirmed(context.io.confirm, all);
  } else if (decision.type === "approve") {
    chosen = decision.digests.flatMap((digest) => chosenCall(open, digest));
    const unknown = decision.digests.find((digest) => !chosen.some((item) => item.digest === digest));
    if (unknown !== undefined) {
      note(err.red(`everturn: no call that waits has the digest ${safeLine(unknown)}; nothing was decided`));
      printWaiting(open);
      return null;
    }
  }
  let turn: TurnHandle | null = null;
  for (const { call, digest } of chosen) {
    const input = decision.type === "approve" ? { type: decision.type } : decision;
    try {
      turn = await sessions.decide(id, call.id, { ...input, by: "cli", digest });
    } catch (error) {
      const change = changeText(error);
      if (change === null) throw error;
      note(err.red(`everturn: ${change}`));
      printWaiting(await pending());
      return null;
    }
    if (!quiet) printDecided(note, decision.type === "approve" ? "approved" : "denied", call);
  }
  return turn;
}

type ChosenCall = {
  readonly call: PendingToolCall;
  /** The digest that was printed with the call, before or now. */
  readonly digest: string;
};

/** The calls that the user approves at the terminal, after they were printed. One question for each. */
async function confirmed(confirm: Io["confirm"], calls: readonly ChosenCall[]): Promise<readonly ChosenCall[]> {
  if (confirm === null) {
    throw new UsageError(
      "--approve needs the digest of a call that was shown, because there is no terminal to ask: the commands are above",
    );
  }
  const approved: ChosenCall[] = [];
  for (const chosen of calls) {
    if (await confirm(`Approve ${pendingCallText(chosen.call).title}?`)) approved.push(chosen);
  }
  return approved;
}

/**
 * The call that was printed with this digest. If only one call waits, another digest is taken for that of an earlier
 * call, so that the refusal names what changed. Empty: none.
 */
function chosenCall(open: readonly PendingToolCall[], digest: string): readonly ChosenCall[] {
  const [first, ...others] = open;
  const isEarlier = first !== undefined && others.length === 0 && digest.length === first.digest.length;
  const call = open.find((item) => item.digest === digest) ?? (isEarlier ? first : undefined);
  return call === undefined ? [] : [{ call, digest }];
}

function printDecided(note: CommandContext["note"], what: string, call: PendingToolCall): void {
  const { title, details } = pendingCallText(call);
  note(`${what} ${title}:`);
  for (const detail of details) note(`    ${detail}`);
}

/**
 * Prints the events of the turn until it ends. Returns `null` at SIGTERM. SIGINT cancels the turn; a second SIGINT
 * exits immediately.
 */
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
 * Tries to recover the turn once a second. Another process may drive it, and may die: `recover` takes the turn over
 * when the lease of that process has expired.
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
