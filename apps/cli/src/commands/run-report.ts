// The output of `everturn run`: the answer on standard output; tool calls, retries, waits and errors on standard error.

import type { Colours } from "../terminal/style.ts";
import type { CommandContext } from "./context.ts";
import type { Io } from "./io.ts";
import type { RunRequest } from "./run.ts";
import type { TurnEvent } from "everturn";
import type { RuntimeEvent, TurnEnd } from "everturn/runtime";

import { visibleText } from "everturn";
import { renderIssue, TurnView } from "everturn/advanced";

import { compactionText } from "../chat/view.ts";
import { safeLine, SafeText, safeJson } from "../terminal/safe-text.ts";
import { tenantOf } from "./context.ts";
import { exitCodeOf, exitCodes } from "./exit-codes.ts";
import { sessionFlags, waitingLines } from "./pending-call.ts";
import { brief, duration, spent } from "./text.ts";

type EventPrinter = { readonly event: (event: RuntimeEvent) => void; readonly end: () => void };

/** Returns a printer for the events of a turn in the requested form. */
export function eventPrinter(io: Io, err: Colours, request: RunRequest): EventPrinter {
  if (request.form === "events") {
    return { event: (event) => io.stdout.write(`${safeJson(event)}\n`), end: () => undefined };
  }
  const streams = request.form === "text" && request.schema === null;
  const answer = new AnswerWriter(io);
  // Every model call of a turn repeats the warnings about its settings. Each is printed once.
  const shownWarnings = new Set<string>();
  return {
    event: (added) => {
      const { event } = added;
      if (streams) answer.write(added);
      if (event.type === "warning") {
        if (shownWarnings.has(event.warning.message)) return;
        shownWarnings.add(event.warning.message);
      }
      // A reset before any text was printed has nothing to withdraw.
      const isIdle = event.type === "step_reset" && !answer.isLineOpen;
      const line = request.quiet || isIdle ? null : noticeOf(event, err);
      if (streams && endsReply(event)) answer.endLine();
      if (line !== null) io.stderr.write(`${line}\n`);
    },
    end: () => answer.endLine(),
  };
}

/**
 * Writes the text of replies. Control characters are replaced at a terminal (escape injection); a pipe gets the exact
 * text.
 */
class AnswerWriter {
  readonly #io: Io;
  readonly #safe = new SafeText();
  readonly #view = new TurnView();
  #isLineOpen = false;

  constructor(io: Io) {
    this.#io = io;
  }

  /** Writes the new text of an event, once: with its deltas, or with the complete reply of another process. */
  write(event: RuntimeEvent): void {
    for (const change of this.#view.add(event)) if (change.type === "text") this.#add(change.delta);
  }

  #add(delta: string): void {
    if (delta === "") return;
    this.#io.stdout.write(this.#io.stdout.isTerminal ? this.#safe.push(delta) : delta);
    this.#isLineOpen = !delta.endsWith("\n");
  }

  get isLineOpen(): boolean {
    return this.#isLineOpen;
  }

  endLine(): void {
    if (this.#isLineOpen) this.#io.stdout.write("\n");
    this.#isLineOpen = false;
  }
}

/** Returns whether text after this event belongs to another reply. */
function endsReply({ type }: TurnEvent): boolean {
  return type === "message_completed" || type === "step_reset" || type === "error";
}

/** The line on standard error for an event; `null`: none. */
function noticeOf(event: TurnEvent, { dim, red, green, yellow }: Colours): string | null {
  switch (event.type) {
    case "tool_execution_started":
      return dim(`· ${event.name} ${brief(visibleText(JSON.stringify(event.arguments)))}`);
    case "tool_execution_completed": {
      const time = event.durationMs === null ? "" : dim(` ${duration(event.durationMs)}`);
      const { result } = event;
      if (result.type === "failure") return `${red("✗")} ${event.name}${time} ${brief(result.failure.message)}`;
      return result.type === "success" ? `${green("✓")} ${event.name}${time}` : null;
    }
    case "retry_scheduled":
      return yellow(`↻ retry in ${duration(event.delayMs)}: ${brief(event.error.message)}`);
    case "warning":
      return dim(`! ${safeLine(event.warning.message)}`);
    case "compaction_started":
      return dim(`⋯ shortening the conversation: ${event.to - event.from} older messages`);
    case "compaction_ended":
      return dim(`· ${compactionText(event)}`);
    case "step_reset":
      return yellow(`↻ the reply starts again (${event.reason}); discard the part printed above`);
    default:
      return null;
  }
}

/**
 * Prints the result of the turn: JSON or structured output if requested, errors, what the session waits for, and the
 * cost.
 */
export function reportEnd(context: CommandContext, end: TurnEnd, request: RunRequest, hasSchema: boolean): void {
  const { say, note, err } = context;
  if (request.form === "json") say(safeJson(end));
  if (request.form === "events") say(safeJson({ end }));
  const output = end.finalResponse?.output ?? null;
  if (request.form === "text" && hasSchema && output !== null) say(safeJson(output.value, 2));
  for (const line of errorLines(end)) note(err.red(line));
  if (request.quiet) return;
  for (const line of pendingLines(end, tenantOf(context))) note(err.yellow(line));
  const cost = spent(end.usage);
  note(err.dim(`session ${safeLine(end.session.id)}${cost === "" ? "" : ` · ${cost}`}`));
}

/** Lines about a turn that failed or was cancelled; empty for a successful one. */
function errorLines(end: TurnEnd): readonly string[] {
  if (end.outcome.type === "cancelled") return ["everturn: cancelled"];
  if (exitCodeOf(end) !== exitCodes.failed) return [];
  const failure = end.failure ?? ("failure" in end.outcome ? end.outcome.failure : null);
  if (failure === null) return [`everturn: the answer is incomplete: ${end.outcome.type}`];
  const first = `everturn: the turn failed: ${brief(failure.message, 500)}`;
  if (failure.type === "validation_error")
    return [first, ...failure.issues.map((issue) => `  ${brief(renderIssue(issue), 500)}`)];
  if (failure.type === "runtime_error") return [first, ...failure.paths.map((path) => `  ${path}`)];
  return [first];
}

/** Lines about what the session waits for, with the commands that answer. */
function pendingLines({ session }: TurnEnd, tenant: string | null): readonly string[] {
  const { pendingQuestion, pendingToolCalls } = session;
  const id = safeLine(session.id);
  const question =
    pendingQuestion === null
      ? []
      : [`? ${brief(pendingQuestion, 500)}`, `  answer: everturn run ${sessionFlags(id, tenant)} "…"`];
  return [...question, ...waitingLines(id, pendingToolCalls, tenant)];
}
