// The calls and questions that wait, from the summaries of their sessions. Pure functions; inbox-page.tsx shows them.

import type { PendingCall, SessionSummary } from "../data/types.ts";

import { beginning, exactName } from "../parts/text.ts";

/** A call that waits for a person, with its session. */
export type WaitingItem = {
  readonly session: Pick<SessionSummary, "id" | "title" | "metadata" | "engine" | "owner" | "startedBy" | "changedAt">;
  readonly call: PendingCall;
};

/** Why a call waits. */
export type Reason = PendingCall["reason"];
export const reasons: readonly Reason[] = ["approval", "question", "manual", "outcome_unknown"];

/** The undecided calls of these sessions, in their order. `reason`: only those that wait for it; `null`: all. */
export function waitingItems(sessions: readonly SessionSummary[], reason: string | null): readonly WaitingItem[] {
  return sessions.flatMap((session) =>
    session.pendingToolCalls
      .filter((call) => call.decision === null && (reason === null || call.reason === reason))
      .map((call) => ({ session, call })),
  );
}

/** What the list shows of the arguments of a call. The form shows all of them. */
const maxArguments = 300;

/** The arguments of a call on one line: `order: 1042 · amount: 189`. */
export function argumentsText({ shown, rawArguments }: PendingCall): string {
  const parts =
    shown.arguments === null
      ? [rawArguments ?? ""]
      : Object.entries(shown.arguments).map(
          ([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`,
        );
  const text = parts.map((part) => beginning(part, maxArguments + 1)).join(" · ");
  return exactName(text.length > maxArguments ? `${beginning(text, maxArguments)}…` : text);
}

/** The item after the one that is selected, to continue with; `null`: there is no other one. */
export function nextItem(
  items: readonly WaitingItem[],
  selected: { readonly sessionId: string; readonly call: string },
): WaitingItem | null {
  const isSelected = ({ session, call }: WaitingItem): boolean =>
    session.id === selected.sessionId && call.id === selected.call;
  const position = items.findIndex(isSelected);
  return items[position + 1] ?? items.find((item) => !isSelected(item)) ?? null;
}

/**
 * Who may answer, as far as the page knows: a program may replace the rule about decisions (`decide` of the handler),
 * and the server checks every answer.
 */
export function whoMayAnswer({ call, session }: WaitingItem): string {
  const owner = session.owner === null ? null : `the owner ${nameOf(session.owner)}`;
  if (call.reason === "question" || call.reason === "manual") {
    return owner === null ? "Operators" : `Operators and ${owner}`;
  }
  const starters = session.startedBy.map(nameOf);
  if (starters.length === 0) return "Operators";
  return `Operators and other owners, not ${starters.join(", ")}, who started the turn, unless the server has another rule`;
}

function nameOf(caller: string): string {
  return caller === "" ? "a caller without a name" : exactName(caller);
}
