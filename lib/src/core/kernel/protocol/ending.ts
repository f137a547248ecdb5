// Constructors of `Ending`, and the outcome of a reply that is text.

import type { ModelReply, TurnOutcome } from "../../model/internal.ts";
import type { Ending } from "../machine/turn.ts";

import { isDraft } from "../../model/internal.ts";

/** An ending with nothing pending. */
export function ending(outcome: TurnOutcome): Ending {
  return { outcome, pendingToolCalls: [], suspendedCell: null, partial: null, pass1: null, pass2Error: null };
}

/** The ending of a turn that reached `maxTurns`. */
export function maxTurnsEnding(maxTurns: number | null): Ending {
  return ending({ type: "max_turns", maxTurns: maxTurns ?? 0 });
}

/** Has the model generated an image or another file? Such a reply is an answer, also without text. */
function hasMedia({ message }: ModelReply): boolean {
  if (message === null || typeof message.content === "string") return false;
  return message.content.some(({ type, metadata }) => (type === "image" || type === "file") && !isDraft(metadata));
}

/** The outcome of a turn that ends with a text reply, by the finish reason of the reply. */
export function outcomeOfText(reply: ModelReply, text: string): TurnOutcome {
  switch (reply.finishReason) {
    case "length":
      return { type: "incomplete" };
    case "content_filter":
      return { type: "filtered" };
    case "stop":
      return text.trim() === "" && !hasMedia(reply) ? { type: "empty" } : { type: "assistant_message", text };
    case "tool_calls":
    case "paused":
    case "other":
    case "error":
    case null:
      return { type: "other" };
  }
}
