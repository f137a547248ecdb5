// What a person reads before deciding about a pending call, as plain text: for terminals, messages and elicitations.
// Interfaces with a form of their own show the fields of `shown` instead.

import type { PendingToolCall, ShownCall } from "./pending.ts";
import type { ReplayPolicy } from "./tool.ts";

import { visibleText } from "../message/visible-text.ts";

/**
 * Returns what runs if a pending call is approved, as text for the person who decides: the tools that lead to the call,
 * all its arguments, and what a crash while it runs leads to. Nothing is left out; invisible characters are replaced by
 * their code points ({@link visibleText}).
 *
 * @example
 * ```ts
 * import { approvalText, newSession } from "everturn"; import { toolCall } from "everturn/advanced";
 *
 * const call = { ...toolCall({ id: "c1", name: "pay", arguments: { euros: 5 } }), reason: "approval" } as const;
 * const [pending] = newSession({ pendingToolCalls: [call] }).pendingToolCalls;
 * pending && approvalText(pending); // => 'pay\n{\n  "euros": 5\n}'
 * ```
 */
export function approvalText({ shown, rawArguments, reason }: PendingToolCall): string {
  const args = shown.arguments === null ? (rawArguments ?? "null") : JSON.stringify(shown.arguments, null, 2);
  const lines = [callPath(shown), args];
  if (reason === "outcome_unknown") lines.push("It was running when its process stopped, and its outcome is unknown.");
  if (shown.replay !== null) lines.push(replayTexts[shown.replay]);
  return visibleText(lines.join("\n"));
}

/** The tools that lead to a call, and its own: `summarize_mail → wire_transfer`. */
export function callPath({ parents, name }: ShownCall): string {
  return visibleText([...parents, name].join(" → "));
}

/** What a crash while a tool runs leads to, by its replay policy, for people. */
const replayTexts: { readonly [P in ReplayPolicy]: string } = {
  safe: "If the process stops while it runs, it runs again.",
  never: "If the process stops while it runs, it is not run again.",
  ask: "If the process stops while it runs, you are asked whether it runs again.",
};
