// How turns end, in small.

import type { ModelReply, TurnOutcome } from "../../model/internal.ts";
import type { Ending } from "../machine/turn.ts";

/** An ending with nothing left open. */
export function ending(outcome: TurnOutcome): Ending {
  return { outcome, pendingToolCalls: [], suspendedCell: null, partial: null, pass1: null, pass2Error: null };
}

export function maxTurnsEnding(maxTurns: number | null): Ending {
  return ending({ type: "max_turns", maxTurns: maxTurns ?? 0 });
}

/** How a reply that is all text ends a turn. */
export function outcomeOfText(reply: ModelReply, text: string): TurnOutcome {
  switch (reply.finishReason) {
    case "length":
      return { type: "incomplete" };
    case "content_filter":
      return { type: "filtered" };
    case "stop":
      return text.trim() === "" ? { type: "empty" } : { type: "assistant_message", text };
    case "tool_calls":
    case "other":
    case "error":
    case null:
      return { type: "other" };
  }
}
