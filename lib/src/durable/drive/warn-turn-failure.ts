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
  console.warn(`everturn: ${where} ${statusTexts[status]}: ${why.replaceAll(/\s+/g, " ").slice(0, 1000)}`);
}
