// The protocol of code: the model writes one cell a reply, the cell runs, and what it printed goes back. Tools are functions the cell
// calls; each call is an effect of its own, and the cell runs again with the answers there are. A turn ends when the model says something
// without a cell, or when a cell finishes with a value.

import type { CellCall, Issue, Json, Message, ModelReply, TextPart, TurnOutcome } from "../model/index.ts";
import type { CodeFailed, CodeFinished } from "./effect.ts";
import type {
  DriverAction as Action,
  DriverContextView,
  ProtocolDriver,
  TurnProtocol,
  UnitTurnProtocol,
} from "./protocol.ts";

import {
  adapterFailure,
  messageText,
  renderIssue,
  runtimeFailure,
  system,
  textPart,
  toolOutcomeStatus,
  truncateMiddle,
} from "../model/index.ts";
import { ending, maxTurnsEnding, outcomeOfText } from "./ending.ts";
import { replyMessage, replyStepEnd } from "./reply-message.ts";
import { unrunAnswer } from "./tool-answer.ts";

export type CodeProtocolOptions = {
  /** The language of cells: what stands behind the three ticks. A fence without a word is taken for it. */
  readonly language: string;
  /** The turn has to end with a value that a cell finished with; words alone are not enough. */
  readonly requireFinish: boolean;
  /** What is wrong with a value a cell wants to finish with; the model is told and tries again. Has to be pure. */
  readonly checkFinish: (value: Json) => readonly Issue[];
};

type Context = DriverContextView<TurnProtocol>;
type DriverAction = Action<{ event: never; termination: never; driverState: never }>;

/** The protocol of code. */
export function codeProtocol<P extends TurnProtocol = UnitTurnProtocol>(
  options: Partial<CodeProtocolOptions> = {},
): ProtocolDriver<P> {
  const chosen: CodeProtocolOptions = {
    language: "javascript",
    requireFinish: false,
    checkFinish: () => [],
    ...options,
  };
  return {
    prepareProtocolIteration: () => [{ type: "start_llm", useTools: false, overrides: {}, driverState: null }],
    handleLlmSuccess: (context, reply) => onReply(chosen, context, reply),
    handleToolResults: () => [finish({ type: "runtime_error", failure: noTools })],
    handleExecResult: (context, result, calls) => onCell(chosen, context, result, calls),
  };
}

const noTools = runtimeFailure("invalid_actions", { message: "in the code protocol tools are called by cells alone" });

function onReply(options: CodeProtocolOptions, context: Context, reply: ModelReply): readonly DriverAction[] {
  const said = replyMessage(reply, `${context.turnId}/${context.protocolIteration}/reply`);
  const text = messageText(said);
  const why = "tools are called by the code of a cell here, not by themselves";
  const unrun = said.toolCalls.map((call, slot) =>
    unrunAnswer(call, "not_run", why, `${context.turnId}/${context.protocolIteration}/answer/${slot}`),
  );
  const append: DriverAction = { type: "append_events", messages: [said, ...unrun] };
  const outcome = outcomeOfText(reply, text);
  if (outcome.type === "incomplete" || outcome.type === "filtered")
    return [append, ...stepEnd(reply), complete(outcome)];
  if (text.trim() === "" && unrun.length > 0) return [append, ...goOn(context, reply, [errorPart(`${why}.`)])];
  if (text.trim() === "") {
    const message = "Model returned no assistant text or code.";
    const failure = adapterFailure("malformed_response", { message, code: "empty_response" });
    const error: DriverAction = { type: "emit", event: { type: "error", error: failure } };
    return [error, ...stepEnd(reply), finish({ type: "provider_error", failure })];
  }
  const [cell, ...more] = cellsIn(text, options.language);
  if (cell === undefined) {
    if (!options.requireFinish) return [append, ...stepEnd(reply), complete(outcome)];
    const missing = "The turn ends when a cell finishes with a value. Write a cell that does.";
    return [append, ...goOn(context, reply, [errorPart(missing)])];
  }
  if (more.length > 0) {
    const crowd = `One cell a reply: this one had ${more.length + 1}, and none of them was run.`;
    return [append, ...goOn(context, reply, [errorPart(crowd)])];
  }
  return [append, { type: "start_exec", language: options.language, code: cell, driverState: null }];
}

function onCell(
  options: CodeProtocolOptions,
  context: Context,
  result: CodeFinished | CodeFailed,
  calls: readonly CellCall[],
): readonly DriverAction[] {
  const reply = context.openReply;
  if (result.type === "code_failed") return goOn(context, reply, [errorPart(whatRan(result, calls))]);
  const seen = [
    ...result.observations.map((text) => textPart(text, { kind: "output" })),
    ...(result.error === null ? [] : [errorPart(result.error)]),
  ];
  const { finish: end } = result;
  if (end === null) return goOn(context, reply, seen.length > 0 ? seen : [textPart("The cell printed nothing.")]);
  const issues = end.type === "value" ? options.checkFinish(end.value) : [];
  if (issues.length > 0) {
    const wrong = `The value the cell finished with does not fit: ${issues.map(renderIssue).join("; ")}`;
    return goOn(context, reply, [...seen, errorPart(wrong)]);
  }
  return [
    { type: "append_events", messages: seen.length > 0 ? [observation(context, seen)] : [] },
    ...stepEnd(reply),
    complete({ type: end.type === "value" ? "final_value" : "submitted_error", value: end.value }),
  ];
}

/** Why a cell came to no end, and which of its calls were made all the same. */
function whatRan({ message, reason }: CodeFailed, calls: readonly CellCall[]): string {
  const head = reason === "diverged" ? `The cell did not go the same way twice and was given up. ${message}` : message;
  const ran = calls.flatMap(({ call, answer }) =>
    answer === null ? [] : [`${call.name}(${argumentsOf(call)}): ${toolOutcomeStatus(answer)}`],
  );
  return ran.length === 0 ? head : `${head}\nWhat it had called by then:\n${ran.join("\n")}`;
}

function argumentsOf(call: CellCall["call"]): string {
  return truncateMiddle(JSON.stringify(call.arguments ?? {}), 200);
}

function errorPart(text: string): TextPart {
  return textPart(text, { kind: "error" });
}

/** Tells the model what came of its reply and lets it go on, as far as the limit allows. A cell of an earlier turn had no reply here. */
function goOn(context: Context, reply: ModelReply | null, seen: readonly TextPart[]): readonly DriverAction[] {
  const free = reply === null;
  return [
    { type: "append_events", messages: [observation(context, seen)] },
    ...stepEnd(reply),
    { type: "advance_protocol_iteration", free },
    {
      type: "start_checkpoint",
      checkpoint: "after_work",
      onEmpty:
        !free && context.isLastIteration
          ? { type: "finish", ending: maxTurnsEnding(context.maxTurns) }
          : { type: "prepare_iteration" },
    },
  ];
}

function observation(context: Context, seen: readonly TextPart[]): Message {
  const id = `${context.turnId}/${context.protocolIteration}/observation`;
  return system(seen, { id, origin: { type: "plugin", pluginId: "code", transient: false } });
}

function complete(outcome: TurnOutcome): DriverAction {
  return {
    type: "start_checkpoint",
    checkpoint: "before_completion",
    onEmpty: { type: "finish", ending: ending(outcome) },
  };
}

function finish(outcome: TurnOutcome): DriverAction {
  return { type: "finish", ending: ending(outcome) };
}

function stepEnd(reply: ModelReply | null): readonly DriverAction[] {
  return reply === null ? [] : [{ type: "end_step", ...replyStepEnd(reply) }];
}

/** The cells of a reply: what stands between lines of three ticks, in the language or in none that is named. */
function cellsIn(text: string, language: string): readonly string[] {
  const cells: string[] = [];
  let open: { readonly isCell: boolean; readonly lines: string[] } | null = null;
  for (const line of text.split("\n")) {
    const fence = /^```(\S*)\s*$/.exec(line.trimStart());
    if (open !== null && fence !== null && fence[1] === "") {
      if (open.isCell) cells.push(open.lines.join("\n"));
      open = null;
    } else if (open !== null) {
      open.lines.push(line);
    } else if (fence !== null) {
      open = { isCell: fence[1] === "" || fence[1] === language, lines: [] };
    }
  }
  return cells;
}
