// How a turn ended, in words for a person; nothing where what was said says it.

import type { TurnOutcome } from "everturn/model";

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
      return "The model said nothing.";
    case "incomplete":
      return "The answer was cut at the output limit.";
    case "filtered":
      return "The provider withheld the rest.";
    case "other":
      return "The answer ended for a reason the provider did not give.";
    case "handoff":
      return `Passed on to ${brief(outcome.target)}.`;
    case "halted":
      return `A tool stopped the turn: ${brief(outcome.reason)}.`;
    case "max_turns":
      return `Stopped after ${plural(outcome.maxTurns, "model call")}, the limit of a turn. /continue goes on.`;
    case "budget":
      return `Stopped: the budget of ${outcome.budget.replaceAll("_", " ")} is used up. /continue goes on.`;
    case "cancelled":
      return "Cancelled. What was said so far is kept.";
    case "submitted_error":
      return `The code gave up: ${brief(outcome.value, 200)}`;
  }
}
