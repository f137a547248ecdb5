// The code protocol: the model writes one code cell in each reply, the cell runs, and its output goes back to the
// model.
//
// Tools are functions that the cell calls. Each call is an effect of its own; after it, `run_code` is ordered again,
// and the executor resumes the cell or runs it again from the start with the recorded answers (Q5). A turn ends when
// the model replies without a cell, or when a cell ends it with a value. A cell is a Markdown code block in the
// language of the executor; see `cellsIn`.

import type { CellCall, ModelReply, SystemMessage, TextPart, TurnOutcome } from "../../model/internal.ts";
import type { CodeFailed, CodeFinished } from "../machine/response.ts";
import type { ProtocolDriver, TurnProtocol, UnitTurnProtocol } from "./protocol.ts";
import type { Context, DriverAction } from "./shared-actions.ts";

import { adapterFailure, messageText, renderIssue, textPart } from "../../model/internal.ts";
import { cellFailed, cellNote } from "./cell-note.ts";
import { chatProtocol } from "./chat-protocol.ts";
import { outcomeOfText } from "./ending.ts";
import { replyMessage, replyStepEnd } from "./reply-message.ts";
import { complete, continuePaused, finish, messageId, nextIteration, stoppingWhere } from "./shared-actions.ts";
import { unrunAnswer } from "./tool-answer.ts";

/** Options of the code protocol. All but `aliases` are stored with the turn (core/run/plan/pinned.ts). */
export type CodeProtocolOptions = {
  /**
   * The language of cells, as written after the opening backticks. A code block without a language counts as a cell.
   * Default: `javascript`.
   */
  readonly language: string;
  /**
   * A reply without a cell does not end the turn: the model is asked for a cell that finishes with a value. Default:
   * false.
   */
  readonly requireFinish: boolean;
  /** Other names of the language after the opening backticks. Default: `js`, `mjs`. */
  readonly aliases: readonly string[];
  /** A reply without text is an error, or completes the turn. Default: `error`. */
  readonly onEmptyReply: "complete" | "error";
  /**
   * End the turn after one reply, or after one reply and its cell. Default: `null`, where the configuration of the turn
   * says.
   */
  readonly stopAfter: "reply" | "step" | null;
};

/** The protocol in which the model writes cells of code that call tools. Default language: `javascript`. */
export function codeProtocol<P extends TurnProtocol = UnitTurnProtocol>(
  options: Partial<CodeProtocolOptions> = {},
): ProtocolDriver<P> {
  const settings: CodeProtocolOptions = {
    language: "javascript",
    requireFinish: false,
    aliases: ["js", "mjs"],
    onEmptyReply: "error",
    stopAfter: null,
    ...options,
  };
  return {
    prepareProtocolIteration: () => [{ type: "start_llm", useTools: false, overrides: {}, driverState: null }],
    handleLlmSuccess: (context, reply) => onReply(stoppingWhere(settings, context), context, reply),
    // Approved calls of an earlier turn that used the chat protocol.
    handleToolResults: chatProtocol<P>({ stopAfter: settings.stopAfter }).handleToolResults,
    handleExecResult: (context, result, calls) => onCell(stoppingWhere(settings, context), context, result, calls),
  };
}

/**
 * A reply: run its cell, or complete the turn with its text. Native calls and several cells are reported to the model,
 * and the turn continues.
 */
function onReply(options: CodeProtocolOptions, context: Context, reply: ModelReply): readonly DriverAction[] {
  const message = replyMessage(reply, messageId(context, "reply"));
  const text = messageText(message);
  const why = "tools can only be called by the code of a cell";
  const unrun = message.toolCalls.map((call, slot) =>
    unrunAnswer(call, "not_run", why, messageId(context, `answer/${slot}`), context.revision),
  );
  const append: DriverAction = { type: "append_events", messages: [message, ...unrun] };
  const outcome = outcomeOfText(reply, text);
  const end = (how: TurnOutcome): DriverAction => (options.stopAfter === null ? complete(how) : finish(how));
  if (reply.finishReason === "paused")
    return [append, ...stepEnd(reply), ...continuePaused(context, options.stopAfter !== null)];
  if (outcome.type === "incomplete" || outcome.type === "filtered") return [append, ...stepEnd(reply), end(outcome)];
  if (text.trim() === "" && unrun.length > 0)
    return [append, ...continueWith(options, context, reply, [errorPart(`${why}.`)])];
  if (text.trim() === "" && options.onEmptyReply === "complete") return [append, ...stepEnd(reply), end(outcome)];
  if (text.trim() === "") {
    const message = "Model returned no assistant text or code.";
    const failure = adapterFailure("malformed_response", { message, code: "empty_response" });
    const error: DriverAction = { type: "emit", event: { type: "error", error: failure } };
    return [error, ...stepEnd(reply), finish({ type: "provider_error", failure })];
  }
  const [cell, ...more] = cellsIn(text, [options.language, ...options.aliases]);
  if (cell === undefined) {
    if (!options.requireFinish) return [append, ...stepEnd(reply), end(outcome)];
    const missing = "The turn ends when a cell finishes with a value. Write a cell that does.";
    return [append, ...continueWith(options, context, reply, [errorPart(missing)])];
  }
  if (more.length > 0) {
    const tooMany = `A reply may have one cell: this one had ${more.length + 1}, and none of them was run.`;
    return [append, ...continueWith(options, context, reply, [errorPart(tooMany)])];
  }
  if (options.stopAfter === "reply") return [append, ...stepEnd(reply), finish({ type: "stop_after" })];
  return [append, { type: "start_exec", language: options.language, code: cell, driverState: null }];
}

/** The end of a cell: its output goes to the model, or its final value ends the turn. */
function onCell(
  options: CodeProtocolOptions,
  context: Context,
  result: CodeFinished | CodeFailed,
  calls: readonly CellCall[],
): readonly DriverAction[] {
  const reply = context.openReply;
  if (result.type === "code_failed")
    return continueWith(options, context, reply, [cellFailed(whyFailed(result), calls)]);
  const output = [
    ...result.observations.map((text) => textPart(text, { kind: "output" })),
    ...(result.error === null ? [] : [errorPart(result.error)]),
  ];
  const { finish: end } = result;
  if (end === null)
    return continueWith(options, context, reply, output.length > 0 ? output : [textPart("The cell printed nothing.")]);
  const issues = end.type === "value" ? end.issues : [];
  if (issues.length > 0) {
    const mismatch = `The value the cell finished with does not match the schema: ${issues.map(renderIssue).join("; ")}`;
    return continueWith(options, context, reply, [...output, errorPart(mismatch)]);
  }
  const how: TurnOutcome = { type: end.type === "value" ? "final_value" : "submitted_error", value: end.value };
  return [
    { type: "append_events", messages: output.length > 0 ? [observation(context, output)] : [] },
    ...stepEnd(reply),
    options.stopAfter === null ? complete(how) : finish(how),
  ];
}

function whyFailed({ message, reason }: CodeFailed): string {
  return reason === "diverged"
    ? `The cell was abandoned because it made different calls when it ran again. ${message}`
    : message;
}

function errorPart(text: string): TextPart {
  return textPart(text, { kind: "error" });
}

/**
 * Appends the output of a cell or an error for the model, and continues with the next step within `maxTurns`. `reply`
 * is `null` for a resumed cell: its reply belongs to an earlier turn.
 */
function continueWith(
  options: CodeProtocolOptions,
  context: Context,
  reply: ModelReply | null,
  output: readonly TextPart[],
): readonly DriverAction[] {
  const append: DriverAction = { type: "append_events", messages: [observation(context, output)] };
  if (options.stopAfter !== null) return [append, ...stepEnd(reply), finish({ type: "stop_after" })];
  return [append, ...stepEnd(reply), ...nextIteration(context, reply === null)];
}

function observation(context: Context, output: readonly TextPart[]): SystemMessage {
  return cellNote(output, messageId(context, "observation"));
}

function stepEnd(reply: ModelReply | null): readonly DriverAction[] {
  return reply === null ? [] : [{ type: "end_step", ...replyStepEnd(reply) }];
}

/**
 * The cells of a reply: Markdown code blocks (CommonMark "fenced code blocks" with backticks) in one of the languages,
 * or without a language. A block opens with a line of three or more backticks, indented by at most three spaces, and
 * closes with a line of at least as many backticks and nothing else, or at the end of the text. Linear in the length of
 * the text.
 */
function cellsIn(text: string, languages: readonly string[]): readonly string[] {
  const cells: string[] = [];
  let open: { readonly ticks: number; readonly isCell: boolean; readonly lines: string[] } | null = null;
  for (const line of text.split("\n")) {
    const [, ticks = "", language = "", afterLanguage = ""] = /^ {0,3}(`{3,})\s*(\S*)(.*)$/.exec(line) ?? [];
    if (open === null) {
      const isCell = language === "" || languages.includes(language.toLowerCase());
      if (ticks !== "") open = { ticks: ticks.length, isCell, lines: [] };
    } else if (ticks.length >= open.ticks && language === "" && afterLanguage.trim() === "") {
      if (open.isCell) cells.push(open.lines.join("\n"));
      open = null;
    } else {
      open.lines.push(line);
    }
  }
  if (open?.isCell === true) cells.push(open.lines.join("\n"));
  return cells;
}
