// The effects that a running turn performs, as far as its rows say it: for child turns, which have no events, and for
// pages that read no events.

import type { TurnTimeline } from "../../../core/model/internal.ts";
import type { OpenEffect } from "./layout.ts";

/**
 * The effects that a running turn performs, by its rows: the calls of the newest reply that have no row, otherwise a
 * model call. They began when the newest row was recorded.
 */
export function openEffects({ turn, effects, open, claims }: TurnTimeline): readonly OpenEffect[] {
  if (turn.status !== "running") return [];
  const last = effects.at(-1);
  // After a takeover, the time of the claim.
  const startedAt = Math.max(turn.acceptedAt, last?.endedAt ?? 0, claims.at(-1)?.since ?? 0);
  const common = { startedAt, firstAt: null, discarded: null } as const;
  if (open.length > 0) {
    const step = last?.step ?? 0;
    return open.map(({ toolCallId, name }) => ({ ...common, id: toolCallId ?? name, kind: "tool", name, step }));
  }
  // After a reply without calls the turn ends.
  if (last?.kind === "model") return [];
  const step = effects.filter(({ kind, state }) => kind === "model" && state !== "superseded").length;
  return [{ ...common, id: "model", kind: "model", name: "model", step }];
}
