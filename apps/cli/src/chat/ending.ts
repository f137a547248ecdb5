// The line that the chat prints at the end of a turn; empty where the reply or the pending prompt already shows how the
// turn ended.

import type { TurnOutcome } from "everturn";

import { brief, plural } from "../commands/text.ts";

type Failed = Extract<TurnOutcome, { readonly failure: unknown }>;

export function endingText(outcome: Exclude<TurnOutcome, Failed>): string {
  switch (outcome.type) {
    case "assistant_message":
    case "ask_user":
    case "manual_tool_calls":
    case "approval":
    case "outcome_unknown":
    case "stop_after":
    case "halt_when":
      return "";
    case "final_value":
    case "tool_value":
      return `The result: ${brief(outcome.value, 200)}`;
    case "empty":
      return "The model returned an empty reply.";
    case "incomplete":
      return "The answer was cut off at the output token limit.";
    case "filtered":
      return "The provider's content filter removed the rest of the answer.";
    case "other":
      return "The provider ended the answer without a reason.";
    case "handoff":
      return `Handed off to ${brief(outcome.target)}.`;
    case "halted":
      return `A tool stopped the turn: ${brief(outcome.reason)}.`;
    case "max_turns":
      return `Stopped after ${plural(outcome.maxTurns, "model call")}, the limit of one turn. /continue continues.`;
    case "budget":
      return `Stopped: the budget of ${outcome.budget.replaceAll("_", " ")} is used up. /continue continues.`;
    case "cancelled":
      return "Cancelled. The text so far is kept.";
    case "submitted_error":
      return `The code reported an error: ${brief(outcome.value, 200)}`;
  }
}
