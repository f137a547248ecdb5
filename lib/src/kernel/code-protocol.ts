// The protocol of code: the model writes one cell a reply, the cell runs, and what it printed goes back. Tools are functions the cell
// calls; each call is an effect of its own, and the cell runs again with the answers there are. A turn ends when the model says something
// without a cell, or when a cell finishes with a value.

import type { Message, ModelReply, TextPart, TurnOutcome } from "../model/index.ts";
import type { CodeFailed, CodeFinished } from "./effect.ts";
import type { DriverAction, DriverContextView, ProtocolDriver } from "./protocol.ts";

import { adapterFailure, messageText, runtimeFailure, system, textPart } from "../model/index.ts";
import { ending, maxTurnsEnding, outcomeOfText } from "./ending.ts";
import { replyMessage } from "./reply-message.ts";

export type CodeProtocolOptions = {
  /** The language of cells: what stands behind the three ticks. A fence without a word is taken for it. */
  readonly language: string;
  /** The turn has to end with a value that a cell finished with; words alone are not enough. */
  readonly requireFinish: boolean;
};

export function codeProtocol(options: Partial<CodeProtocolOptions> = {}): ProtocolDriver {
  const chosen: CodeProtocolOptions = { language: "javascript", requireFinish: false, ...options };
  return {
    prepareProtocolIteration: () => [{ type: "start_llm", useTools: false, overrides: {}, driverState: null }],
    handleLlmSuccess: (context, reply) => onReply(chosen, context, reply),
    handleToolResults: () => [finish({ type: "runtime_error", failure: noTools })],
    handleExecResult: (context, result) => onCell(context, result),
  };
}

const noTools = runtimeFailure("invalid_actions", { message: "in the code protocol tools are called by cells alone" });

function onReply(options: CodeProtocolOptions, context: DriverContextView, reply: ModelReply): readonly DriverAction[] {
  const said = replyMessage(reply, `${context.turnId}/${context.protocolIteration}/reply`);
  const text = messageText(said);
  const append: DriverAction = { type: "append_events", messages: [said] };
  const outcome = outcomeOfText(reply, text);
  if (outcome.type === "incomplete" || outcome.type === "filtered") return [append, stepEnd(reply), complete(outcome)];
  if (text.trim() === "") {
    const message = "Model returned no assistant text or code.";
    const failure = adapterFailure("malformed_response", { message, code: "empty_response" });
    const error: DriverAction = { type: "emit", event: { type: "error", error: failure } };
    return [error, stepEnd(reply), finish({ type: "provider_error", failure })];
  }
  const [cell, ...more] = cellsIn(text, options.language);
  if (cell === undefined) {
    if (!options.requireFinish) return [append, stepEnd(reply), complete(outcome)];
    const missing = "The turn ends when a cell finishes with a value. Write a cell that does.";
    return [append, ...goOn(context, reply, [textPart(missing, { kind: "error" })])];
  }
  if (more.length > 0) {
    const crowd = `One cell a reply: this one had ${more.length + 1}, and none of them was run.`;
    return [append, ...goOn(context, reply, [textPart(crowd, { kind: "error" })])];
  }
  return [append, { type: "start_exec", language: options.language, code: cell, driverState: null }];
}

function onCell(context: DriverContextView, result: CodeFinished | CodeFailed): readonly DriverAction[] {
  const reply = context.openReply;
  if (reply === null) return [finish({ type: "runtime_error", failure: noTools })];
  if (result.type === "code_failed") return goOn(context, reply, [textPart(result.message, { kind: "error" })]);
  const seen = [
    ...result.observations.map((text) => textPart(text, { kind: "output" })),
    ...(result.error === null ? [] : [textPart(result.error, { kind: "error" })]),
  ];
  if (result.finish === null)
    return goOn(context, reply, seen.length > 0 ? seen : [textPart("The cell printed nothing.")]);
  const notes = seen.length > 0 ? [observation(context, seen)] : [];
  return [
    { type: "append_events", messages: notes },
    stepEnd(reply),
    complete({ type: "final_value", value: result.finish.value }),
  ];
}

/** Tells the model what came of its reply and lets it go on, as far as the limit allows. */
function goOn(context: DriverContextView, reply: ModelReply, seen: readonly TextPart[]): readonly DriverAction[] {
  const { maxTurns } = context;
  const limit = maxTurns !== null && context.protocolIteration + 1 >= context.protocolRunOffset + maxTurns;
  return [
    { type: "append_events", messages: [observation(context, seen)] },
    stepEnd(reply),
    { type: "advance_protocol_iteration", free: false },
    {
      type: "start_checkpoint",
      checkpoint: "after_work",
      onEmpty: limit ? { type: "finish", ending: maxTurnsEnding(context.config) } : { type: "prepare_iteration" },
    },
  ];
}

function observation(context: DriverContextView, seen: readonly TextPart[]): Message {
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

function stepEnd(reply: ModelReply): DriverAction {
  return { type: "end_step", reply, toolResults: [], pendingToolCalls: [], manualToolCalls: [], mode: "auto" };
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
