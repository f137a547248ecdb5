// How a session is named and what its status is called, in the list, the bar and the palette.

import type { SessionSummary } from "../data/types.ts";

import { visibleName } from "../parts/text.ts";

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
    const texts = { approval: "approval", manual: "manual tool", outcome_unknown: "outcome unknown" };
    const text = first.reason === "question" ? "question" : texts[first.reason];
    return { text: undecided.length === 1 ? text : `${undecided.length} × ${text}`, kind: "wait" };
  }
  return status === "idle" ? { text: "idle", kind: "idle" } : { text: "completed", kind: "done" };
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
