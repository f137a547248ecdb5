// The protocol of code: the model writes one cell a reply, the cell runs, and what it printed goes back. Tools are functions the cell
// calls; each call is an effect of its own, and the cell runs again with the answers there are. A turn ends when the model says something
// without a cell, or when a cell finishes with a value.

import type { CellCall, ModelReply, SystemMessage, TextPart, TurnOutcome } from "../../model/internal.ts";
import type { CodeFailed, CodeFinished } from "../machine/effect.ts";
import type { ProtocolDriver, TurnProtocol, UnitTurnProtocol } from "./protocol.ts";
import type { Context, DriverAction } from "./shared-actions.ts";

import { adapterFailure, messageText, renderIssue, textPart } from "../../model/internal.ts";
import { cellFailed, cellNote } from "./cell-note.ts";
import { chatProtocol } from "./chat-protocol.ts";
import { outcomeOfText } from "./ending.ts";
import { replyMessage, replyStepEnd } from "./reply-message.ts";
import { complete, finish, messageId, nextIteration } from "./shared-actions.ts";
import { unrunAnswer } from "./tool-answer.ts";

export type CodeProtocolOptions = {
  /** The language of cells: what stands behind the three ticks. A fence without a word is taken for it. */
  readonly language: string;
  /** The turn has to end with a value that a cell finished with; words alone are not enough. */
  readonly requireFinish: boolean;
  /** Other words that stand behind the ticks for the same language. */
  readonly aliases: readonly string[];
  /** A reply without a word is an error, or completes the turn. */
  readonly onEmptyReply: "complete" | "error";
  /** Stop after one reply, or after one reply and its cell. */
  readonly stopAfter: "reply" | "step" | null;
};

/** The protocol in which the model writes cells of code that call tools. Default language: `javascript`. */
export function codeProtocol<P extends TurnProtocol = UnitTurnProtocol>(
  options: Partial<CodeProtocolOptions> = {},
): ProtocolDriver<P> {
  const chosen: CodeProtocolOptions = {
    language: "javascript",
    requireFinish: false,
    aliases: ["js", "mjs"],
    onEmptyReply: "error",
    stopAfter: null,
    ...options,
  };
  return {
    prepareProtocolIteration: () => [{ type: "start_llm", useTools: false, overrides: {}, driverState: null }],
    handleLlmSuccess: (context, reply) => onReply(chosen, context, reply),
    // Calls of a conversation that had tools of its own, which somebody has consented to since.
    handleToolResults: chatProtocol<P>({ stopAfter: chosen.stopAfter }).handleToolResults,
    handleExecResult: (context, result, calls) => onCell(chosen, context, result, calls),
  };
}

function onReply(options: CodeProtocolOptions, context: Context, reply: ModelReply): readonly DriverAction[] {
  const said = replyMessage(reply, messageId(context, "reply"));
  const text = messageText(said);
  const why = "tools are called by the code of a cell here, not by themselves";
  const unrun = said.toolCalls.map((call, slot) =>
    unrunAnswer(call, "not_run", why, messageId(context, `answer/${slot}`)),
  );
  const append: DriverAction = { type: "append_events", messages: [said, ...unrun] };
  const outcome = outcomeOfText(reply, text);
  const done = (how: TurnOutcome): DriverAction => (options.stopAfter === null ? complete(how) : finish(how));
  if (outcome.type === "incomplete" || outcome.type === "filtered") return [append, ...stepEnd(reply), done(outcome)];
  if (text.trim() === "" && unrun.length > 0) return [append, ...goOn(options, context, reply, [errorPart(`${why}.`)])];
  if (text.trim() === "" && options.onEmptyReply === "complete") return [append, ...stepEnd(reply), done(outcome)];
  if (text.trim() === "") {
    const message = "Model returned no assistant text or code.";
    const failure = adapterFailure("malformed_response", { message, code: "empty_response" });
    const error: DriverAction = { type: "emit", event: { type: "error", error: failure } };
    return [error, ...stepEnd(reply), finish({ type: "provider_error", failure })];
  }
  const [cell, ...more] = cellsIn(text, [options.language, ...options.aliases]);
  if (cell === undefined) {
    if (!options.requireFinish) return [append, ...stepEnd(reply), done(outcome)];
    const missing = "The turn ends when a cell finishes with a value. Write a cell that does.";
    return [append, ...goOn(options, context, reply, [errorPart(missing)])];
  }
  if (more.length > 0) {
    const crowd = `One cell a reply: this one had ${more.length + 1}, and none of them was run.`;
    return [append, ...goOn(options, context, reply, [errorPart(crowd)])];
  }
  if (options.stopAfter === "reply") return [append, ...stepEnd(reply), finish({ type: "stop_after" })];
  return [append, { type: "start_exec", language: options.language, code: cell, driverState: null }];
}

function onCell(
  options: CodeProtocolOptions,
  context: Context,
  result: CodeFinished | CodeFailed,
  calls: readonly CellCall[],
): readonly DriverAction[] {
  const reply = context.openReply;
  if (result.type === "code_failed") return goOn(options, context, reply, [cellFailed(whyFailed(result), calls)]);
  const seen = [
    ...result.observations.map((text) => textPart(text, { kind: "output" })),
    ...(result.error === null ? [] : [errorPart(result.error)]),
  ];
  const { finish: end } = result;
  if (end === null)
    return goOn(options, context, reply, seen.length > 0 ? seen : [textPart("The cell printed nothing.")]);
  const issues = end.type === "value" ? end.issues : [];
  if (issues.length > 0) {
    const wrong = `The value the cell finished with does not fit: ${issues.map(renderIssue).join("; ")}`;
    return goOn(options, context, reply, [...seen, errorPart(wrong)]);
  }
  const how: TurnOutcome = { type: end.type === "value" ? "final_value" : "submitted_error", value: end.value };
  return [
    { type: "append_events", messages: seen.length > 0 ? [observation(context, seen)] : [] },
    ...stepEnd(reply),
    options.stopAfter === null ? complete(how) : finish(how),
  ];
}

function whyFailed({ message, reason }: CodeFailed): string {
  return reason === "diverged" ? `The cell did not go the same way twice and was given up. ${message}` : message;
}

function errorPart(text: string): TextPart {
  return textPart(text, { kind: "error" });
}

/** Tells the model what came of its reply and lets it go on, as far as the limit allows. A cell of an earlier turn had no reply here. */
function goOn(
  options: CodeProtocolOptions,
  context: Context,
  reply: ModelReply | null,
  seen: readonly TextPart[],
): readonly DriverAction[] {
  const told: DriverAction = { type: "append_events", messages: [observation(context, seen)] };
  if (options.stopAfter !== null) return [told, ...stepEnd(reply), finish({ type: "stop_after" })];
  return [told, ...stepEnd(reply), ...nextIteration(context, reply === null)];
}

function observation(context: Context, seen: readonly TextPart[]): SystemMessage {
  return cellNote(seen, messageId(context, "observation"));
}

function stepEnd(reply: ModelReply | null): readonly DriverAction[] {
  return reply === null ? [] : [{ type: "end_step", ...replyStepEnd(reply) }];
}

/**
 * The cells of a reply: what stands between a line of three or more ticks, in the language or in none that is named, and the next line of
 * as many ticks with nothing behind them, or the end.
 */
function cellsIn(text: string, languages: readonly string[]): readonly string[] {
  const cells: string[] = [];
  let open: { readonly ticks: number; readonly isCell: boolean; readonly lines: string[] } | null = null;
  for (const line of text.split("\n")) {
    const [, ticks = "", language = "", rest = ""] = /^ {0,3}(`{3,})\s*(\S*)(.*)$/.exec(line) ?? [];
    if (open === null) {
      const isCell = language === "" || languages.includes(language.toLowerCase());
      if (ticks !== "") open = { ticks: ticks.length, isCell, lines: [] };
    } else if (ticks.length >= open.ticks && language === "" && rest.trim() === "") {
      if (open.isCell) cells.push(open.lines.join("\n"));
      open = null;
    } else {
      open.lines.push(line);
    }
  }
  if (open?.isCell === true) cells.push(open.lines.join("\n"));
  return cells;
}
