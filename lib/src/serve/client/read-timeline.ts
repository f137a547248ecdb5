// Reads all pages of the timeline of a turn, or those after the rows that are known.

import type { TimelineEffect, TurnTimeline } from "../../core/model/internal.ts";
import type { Inspector } from "./inspector.ts";

const pageSize = 500;

/**
 * Reads all rows of a turn. With `before`, what was read before, it reads the rows after those: rows never change,
 * unless a step is restarted (`step_reset`), so a running turn is followed by repeated calls. The summary of the turn
 * is that of the last page.
 */
export async function readTimeline(
  inspector: Inspector,
  sessionId: string,
  turnId: string,
  { before = null, signal }: { readonly before?: TurnTimeline | null; readonly signal?: AbortSignal } = {},
): Promise<TurnTimeline> {
  const effects: TimelineEffect[] = [...(before?.effects ?? [])];
  // A page has the claims of the processes whose rows are in it.
  const claims = new Map((before?.claims ?? []).map((claim) => [claim.epoch, claim]));
  let after = effects.at(-1)?.ordinal ?? null;
  for (;;) {
    // Each page names the row after which the next one begins.
    const page = await inspector.timeline(sessionId, turnId, {
      limit: pageSize,
      ...(after === null ? {} : { after }),
      ...(signal === undefined ? {} : { signal }),
    });
    effects.push(...page.effects);
    for (const claim of page.claims) claims.set(claim.epoch, claim);
    if (page.next === null) {
      const recorded = new Set(effects.map(({ effectId }) => effectId));
      const open = page.open.filter(({ effectId }) => !recorded.has(effectId));
      return { ...page, effects, open, claims: [...claims.values()].toSorted((a, b) => a.epoch - b.epoch) };
    }
    after = page.next;
  }
}
