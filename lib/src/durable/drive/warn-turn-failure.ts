// The line for a turn that was driven without success, for programs that set no `onTurnFailure`.

import type { TurnFailure } from "./types.ts";

import { toCause } from "../../core/model/internal.ts";

const statusTexts: { readonly [Status in TurnFailure["status"]]: string } = {
  failed: "failed",
  parked: "is parked until recover(id)",
  left: "was left by this process and is tried again",
  call_not_run: "continues, but an approved call did not run",
};

/** Writes one line to `console.warn`. */
export function warnTurnFailure({ tenant, sessionId, turnId, status, failure, error }: TurnFailure): void {
  const where = `turn ${turnId} of session ${JSON.stringify(sessionId)}${tenant === "" ? "" : ` of tenant ${JSON.stringify(tenant)}`}`;
  const why = failure === null ? (toCause(error)?.message ?? String(error)) : `${failure.reason}: ${failure.message}`;
  console.warn(oneLine(`everturn: ${where} ${statusTexts[status]}: ${why}`));
}

/**
 * A text as one line of at most 2,000 characters. Texts of providers, tools and callers may have line breaks, which
 * would forge other lines of the log, and control characters, which would control the terminal that shows it.
 */
export function oneLine(text: string): string {
  return text.replaceAll(/[\s\p{Cc}\p{Cf}]+/gu, " ").slice(0, 2000);
}
