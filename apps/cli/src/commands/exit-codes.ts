// What a command ends with, for scripts.

import type { TurnEnd } from "everturn/runtime";

export const exitCodes = {
  ok: 0,
  /** The turn failed, or what was checked is broken. */
  failed: 1,
  /** The command line, the configuration or what they name cannot be used. */
  usage: 2,
  /** Somebody has to answer, consent or do something first. */
  waiting: 3,
  /** As a shell has it: 128 and the number of SIGINT. */
  interrupted: 130,
  /** The same for SIGTERM. */
  terminated: 143,
} as const;

export const exitCodeHelp = `
Exit codes:
  0    it worked
  1    the turn failed, or its answer is not whole; something is broken
  2    the command line or the configuration cannot be used
  3    the session waits for somebody: a question, an approval, a result
  130  interrupted; the turn was cancelled
  143  told to stop; the turn is left for the next process`;

/** The exit code for what a turn came to. An answer that was cut is no success: a script would take it for whole. */
export function exitCodeOf({ status, outcome }: Pick<TurnEnd, "status" | "outcome">): number {
  if (status === "parked") return exitCodes.failed;
  if (status === "waiting") return exitCodes.waiting;
  switch (outcome.type) {
    case "assistant_message":
    case "final_value":
    case "tool_value":
    case "empty":
    case "other":
    case "handoff":
    case "halted":
    case "halt_when":
    case "stop_after":
      return exitCodes.ok;
    case "incomplete":
    case "filtered":
    case "max_turns":
    case "budget":
    case "tool_error":
    case "submitted_error":
    case "provider_error":
    case "runtime_error":
      return exitCodes.failed;
    case "ask_user":
    case "manual_tool_calls":
    case "approval":
    case "outcome_unknown":
      return exitCodes.waiting;
    case "cancelled":
      return exitCodes.interrupted;
  }
}
