// The outcome of a tool call, in two forms: `ToolOutcome` is for the program and the journal; the parts of a tool
// message are for the model. This file owns the first form and the default conversion to the second
// (`toolOutcomeParts`).

import type { ToolFailure } from "../failure/failure.ts";
import type { ToolMessageStatus, UserPart } from "../message/message.ts";
import type { InferUnion, Shape } from "../parse/shape.ts";
import type { AnswerForm } from "./pending.ts";

import { toolFailureShape } from "../failure/failure.ts";
import { awaitingUserContent, messageShape } from "../message/message.ts";
import { textPart } from "../message/part.ts";
import { emptyObject } from "../parse/json.ts";
import { array, fallback, json, nullable, oneOf, required, settings, string, variant } from "../parse/shape.ts";
import { answerForms } from "./pending.ts";
import { toolValueParts, toolValueShape } from "./tool-value.ts";

const controlCases = {
  /** Ends the turn with this value as its result. */
  finish: { value: required(json) },
  /** Ends the turn as failed. */
  fail: { failure: required(toolFailureShape) },
  /** Ends the turn and names the agent that continues, its task and the messages it starts with. */
  handoff: {
    target: required(string),
    task: fallback(nullable(string), null),
    initialMessages: fallback(array(messageShape), []),
  },
  /** Continues the turn, and replaces old messages by a summary before the next model call. */
  compact: { instructions: fallback(nullable(string), null) },
};

/** How a successful tool ends the turn it runs in, or what happens before the next model call. */
export type ToolControl = InferUnion<"type", typeof controlCases>;

const controlShape: Shape<ToolControl> = variant("type", controlCases);

const outcomeCases = {
  success: {
    value: required(toolValueShape),
    /** What the tool requests of its turn; `null`: nothing, the turn continues. */
    control: fallback(nullable(controlShape), null),
  },
  failure: { failure: required(toolFailureShape) },
  cancelled: { message: fallback(string, ""), raw: fallback(json, null) },
  /**
   * The tool asks the user a question. With `answerAs: "user_message"` the answer is the next user message; with
   * `"tool_result"` it is the result of the call, which stays pending until then. `opts` are hints for the user
   * interface.
   */
  ask_user: {
    question: required(string),
    answerAs: fallback(oneOf<AnswerForm>(answerForms), "user_message"),
    opts: fallback(settings, emptyObject),
  },
  /** The tool ends the run with a reason of its own. */
  halt: { reason: required(string), value: fallback(toolValueShape, null) },
};

/**
 * The result of a tool call, for the program: success, failure, cancellation, a question to the user, or the end
 * of the turn.
 */
export type ToolOutcome = InferUnion<"type", typeof outcomeCases>;

export const toolOutcomeShape: Shape<ToolOutcome> = variant("type", outcomeCases);

/** Renders an outcome for the model. This is the default of the encoder option. The list has at least one part. */
export function toolOutcomeParts(outcome: ToolOutcome): readonly UserPart[] {
  switch (outcome.type) {
    case "success":
    case "halt":
      return toolValueParts(outcome.value);
    case "failure":
      return [textPart(toolFailureText(outcome.failure))];
    case "cancelled":
      return notice("[Tool execution cancelled]", outcome.message);
    case "ask_user":
      return [textPart(awaitingUserContent)];
  }
}

/** What the model reads of a call whose tool the engine does not have. No performer has run it. */
export const unknownToolText = (name: string): string => `there is no tool named ${name}`;

/** Returns the status of the tool message that answers a call with this outcome. */
export function toolOutcomeStatus(outcome: ToolOutcome): ToolMessageStatus {
  switch (outcome.type) {
    case "success":
    case "halt":
      return "success";
    case "failure":
      return outcome.failure.reason === "not_run" ? "not_run" : "failure";
    case "cancelled":
      return "cancelled";
    case "ask_user":
      return "awaiting_user";
  }
}

/**
 * The text of a failure for the model: `{"error": message}`. All failures have this format, wherever they occur, unless
 * the encoder of the run has another.
 */
export function toolFailureText({ message }: Pick<ToolFailure, "message">): string {
  return JSON.stringify({ error: message });
}

/**
 * A line that states what happened, and the message if there is one. `raw` is left out: its content is not meant for
 * the model.
 */
function notice(head: string, message: string): readonly UserPart[] {
  return [textPart(message === "" ? head : `${head}\n${message}`)];
}
