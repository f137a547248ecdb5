// How a session is named and what its status is called, in the list, the bar and the palette.

import type { PendingCall, SessionSummary, ShownCall } from "../data/types.ts";

import { beginning, exactName, visibleName } from "../parts/text.ts";

/** A status as text, with the class that gives it its colour. */
export type StatusLabel = { readonly text: string; readonly kind: "run" | "wait" | "done" | "bad" | "idle" };

type Titled = Pick<SessionSummary, "id" | "metadata"> & { readonly title?: string | null };

/** The title of a session: the stored one, that of its metadata, or the id. */
export function titleOf({ id, metadata, title = null }: Titled): string {
  const stored = title ?? metadata["title"];
  return visibleName(typeof stored === "string" && stored.trim() !== "" ? stored : id);
}

type Stated = Pick<SessionSummary, "status" | "pendingToolCalls" | "pendingQuestion" | "turnStatus" | "limitWait">;

/** What the session does or waits for, in at most three words. */
export function statusOf({ status, pendingToolCalls, pendingQuestion, turnStatus, limitWait }: Stated): StatusLabel {
  if (turnStatus === "running") return { text: "running", kind: "run" };
  if (turnStatus === "queued") {
    return { text: limitWait === null ? "queued" : `queued: ${limitWait.limit} limit`, kind: "run" };
  }
  if (turnStatus === "parked") return { text: "parked", kind: "bad" };
  if (status === "error") return { text: "failed", kind: "bad" };
  const undecided = pendingToolCalls.filter(({ decision }) => decision === null);
  if (pendingQuestion !== null || undecided.some(({ reason }) => reason === "question")) {
    return { text: "question", kind: "wait" };
  }
  const [first] = undecided;
  if (first !== undefined) {
    const text = reasonText(first);
    return { text: undecided.length === 1 ? text : `${undecided.length} × ${text}`, kind: "wait" };
  }
  return status === "idle" ? { text: "idle", kind: "idle" } : { text: "completed", kind: "done" };
}

/** Why a call waits, in at most two words. */
export function reasonText({ reason }: Pick<PendingCall, "reason">): string {
  const texts = {
    approval: "approval",
    question: "question",
    manual: "manual tool",
    outcome_unknown: "outcome unknown",
  } as const;
  return texts[reason];
}

/** The first call of a session that waits for a decision or a result, and not for an answer; `null`: there is none. */
export function firstWaitingCall({ pendingToolCalls }: Pick<SessionSummary, "pendingToolCalls">): PendingCall | null {
  return pendingToolCalls.find(({ decision, reason }) => decision === null && reason !== "question") ?? null;
}

/**
 * The tools that lead to a call, and its own: `summarize_mail → wire_transfer`. The last one runs if the call is
 * approved.
 */
export function pathOf({ parents, name }: ShownCall): string {
  return [...parents, name].map(exactName).join(" → ");
}

const maxSummary = 160;

/** A waiting call on one line, cut if it is long: what runs, and with which arguments. */
export function summaryOfCall({ shown, rawArguments }: PendingCall): string {
  const input = shown.arguments === null ? (rawArguments ?? "") : JSON.stringify(shown.arguments);
  const text = exactName(input);
  return `${pathOf(shown)} ${text.length > maxSummary ? `${beginning(text, maxSummary)}…` : text}`;
}

/** Whether the title, the id, the owner or a waiting tool of a session contains all words of a text. */
export function matchesText(summary: SessionSummary, text: string): boolean {
  const { id, owner, pendingToolCalls } = summary;
  const whole = [titleOf(summary), id, owner ?? "", ...pendingToolCalls.map(({ shown }) => pathOf(shown))]
    .join("\n")
    .toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => whole.includes(word));
}

/** Whether a session belongs to a filter of the list. */
export function matchesFilter(summary: Stated, filter: "running" | "waiting" | "failed" | "parked"): boolean {
  const { kind } = statusOf(summary);
  switch (filter) {
    case "running":
      return kind === "run";
    case "waiting":
      return kind === "wait";
    case "parked":
      return summary.turnStatus === "parked";
    case "failed":
      return summary.status === "error" && summary.turnStatus === null;
  }
}
