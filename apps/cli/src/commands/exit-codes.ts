// Exit codes of the command. Scripts depend on them: they do not change.

import type { TurnEnd } from "everturn/runtime";

export const exitCodes = {
  ok: 0,
  /** The turn failed, its answer is incomplete, or a check found a problem. */
  failed: 1,
  /** The command line or the configuration is invalid, or the configuration file is not trusted. */
  usage: 2,
  /** The session waits for a person: an answer, an approval or a tool result. */
  waiting: 3,
  /** 128 + SIGINT (2), as shells report it. */
  interrupted: 130,
  /** 128 + SIGTERM (15). */
  terminated: 143,
} as const;

export const exitCodeHelp = `
Exit codes:
  0    success
  1    the turn failed, its answer is incomplete, or a check found a problem
  2    the command line or the configuration is invalid, or not trusted
  3    the session waits for an answer, an approval or a tool result
  130  interrupted (Ctrl-C); the turn is cancelled
  143  terminated (SIGTERM); another process can continue the turn`;

/**
 * Returns the exit code for the end of a turn. A truncated answer is a failure, because a script would take it for
 * complete.
 */
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
