// A pending call as text for a person who may decide about it: in the chat, and in the output of `run`, `show`,
// `sessions` and the demo.
//
// Invariant: the text is that of the innermost call, which an approval runs (A1), and nothing of it is left out: every
// decision of the command carries the digest of the call, and so states that a person could read all that the digest
// covers (A3).

import type { Json, PendingToolCall } from "everturn";
import type { SessionSummary } from "everturn/runtime";

import { approvalText, callPath, isEverturnError, visibleText } from "everturn";

import { safeLine, safeText } from "../terminal/safe-text.ts";
import { brief, shellQuote } from "./text.ts";

export type PendingCallText = {
  /** The tools that lead to the call, and its own: `summarize_mail → wire_transfer`. */
  readonly title: string;
  /** All arguments as JSON, and what a crash while the tool runs leads to. */
  readonly details: readonly string[];
};

/** What runs if the call is approved, safe for a terminal. */
export function pendingCallText(call: PendingToolCall): PendingCallText {
  const path = callPath(call.shown);
  const details = approvalText(call).slice(path.length + 1);
  return { title: safeLine(path), details: safeText(details).split("\n") };
}

/** The calls that wait for a decision or a result. A question is shown by its text instead. */
function undecidedCalls(calls: readonly PendingToolCall[]): readonly PendingToolCall[] {
  return calls.filter(({ decision, reason }) => decision === null && reason !== "question");
}

/**
 * All calls of a session that wait for a decision or a result, with the commands that answer them. Lines are not cut.
 */
export function waitingLines(
  sessionId: string,
  pending: readonly PendingToolCall[],
  tenant: string | null = null,
): readonly string[] {
  const session = sessionFlags(sessionId, tenant);
  const calls = undecidedCalls(pending);
  const lines = calls.flatMap((call) => {
    const { title, details } = pendingCallText(call);
    return [
      `? ${title} waits (${call.reason}):`,
      ...details.map((detail) => `    ${detail}`),
      call.reason === "manual"
        ? `  answer: everturn chat ${session}`
        : `  approve: everturn run ${session} --approve ${call.digest}`,
    ];
  });
  return calls.some(isDecidable) ? [...lines, `  deny: everturn run ${session} --deny`] : lines;
}

/** The flags with which `run` and `chat` continue a session. */
export function sessionFlags(sessionId: string, tenant: string | null): string {
  return `--session ${shellQuote(sessionId)}${tenantFlag(tenant)}`;
}

/** The flag of a command that acts in the tenant; empty for the one without a name. */
export function tenantFlag(tenant: string | null): string {
  return tenant === null || tenant === "" ? "" : ` --tenant ${shellQuote(tenant)}`;
}

/** The status of a session in a list: that of its open turn, or what it waits for, with the innermost tools. */
export function statusText({
  status,
  turnStatus,
  pendingToolCalls,
}: Pick<SessionSummary, "status" | "turnStatus" | "pendingToolCalls">): string {
  if (turnStatus !== null) return turnStatus;
  const names = undecidedCalls(pendingToolCalls).map(({ shown }) => visibleText(shown.name));
  return names.length === 0 ? status : `${status} (${brief(names.join(", "), 60)})`;
}

/** Returns whether the call can be approved or denied. */
export function isDecidable({ decision, reason }: PendingToolCall): boolean {
  return decision === null && (reason === "approval" || reason === "outcome_unknown");
}

/**
 * What changed since a call was shown, if this is the error of a decision about a call that has changed; otherwise
 * `null`.
 */
export function changeText(error: unknown): string | null {
  if (!isEverturnError(error) || error.reason !== "call_changed") return null;
  const { changed } = error.failure.metadata;
  const parts = Array.isArray(changed) ? changed.map(partText) : [];
  return `The decision was not accepted. Changed since the call was shown: ${parts.join(", ")}.`;
}

/** The parts of a call that its digest covers, in words. */
const partTexts: { readonly [part: string]: string } = {
  tool: "its tool",
  arguments: "its arguments",
  path: "the tools that lead to it",
  policy: "its replay policy",
  wait: "the call itself (another one waits now)",
};

function partText(part: Json): string {
  return partTexts[String(part)] ?? String(part);
}

/**
 * A value as JSON in which invisible characters are escaped (`\u202e`), so that a person who edits it sees them. The
 * value is the same.
 */
export function editableJson(value: Json): string {
  return [...JSON.stringify(value)]
    .map((character) => (visibleText(character) === character ? character : escaped(character)))
    .join("");
}

function escaped(character: string): string {
  return character
    .split("")
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
}
