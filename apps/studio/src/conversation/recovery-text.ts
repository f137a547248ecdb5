// What happened when a process died and another one continued a turn, in one line for each takeover, from the timeline.

import type { TurnClaim } from "everturn/advanced";
import type { TurnTimeline } from "everturn/client";

import { duration } from "../parts/format.ts";
import { visibleName } from "../parts/text.ts";

/**
 * A takeover in words, its lease epoch, and the first effect that the new process performed; `null`: it has performed
 * none yet.
 */
export type Recovery = { readonly text: string; readonly epoch: number; readonly ordinal: number | null };

/** The takeovers of a turn, in order. */
export function recoveriesOf(timeline: TurnTimeline): readonly Recovery[] {
  return timeline.claims.flatMap((claim, position) =>
    claim.takesOver ? [recoveryOf(timeline, claim, timeline.claims[position - 1])] : [],
  );
}

function recoveryOf({ effects }: TurnTimeline, claim: TurnClaim, before: TurnClaim | undefined): Recovery {
  const recorded = effects.filter(({ epoch }) => epoch < claim.epoch);
  const repeated = recorded.filter(({ state }) => state === "superseded").length;
  const lastSign = effects
    .flatMap(({ epoch, endedAt, discarded }) => [
      epoch < claim.epoch ? endedAt : null,
      ...discarded.map((attempt) => (attempt.epoch < claim.epoch ? attempt.endedAt : null)),
    ])
    .reduce<number>((latest, time) => Math.max(latest, time ?? 0), before?.since ?? 0);
  const gap = lastSign > 0 && lastSign < claim.since ? ` after ${duration(claim.since - lastSign)}` : "";
  const text = [
    before === undefined ? "a worker died" : `${workerName(before.owner)} died`,
    `${workerName(claim.owner)} continued${gap}`,
    `${recorded.length} recorded ${recorded.length === 1 ? "effect" : "effects"} replayed, ${repeated} repeated`,
  ].join(" · ");
  const first = effects.find(({ epoch, kind }) => epoch >= claim.epoch && (kind === "model" || kind === "tool"));
  return { text, epoch: claim.epoch, ordinal: first?.ordinal ?? null };
}

/**
 * The name of a process. A long one is random: its kind and its end tell processes apart. A number is the id of a
 * process.
 */
function workerName(owner: string): string {
  const name = visibleName(owner);
  if (/^\d+$/.test(name)) return `worker ${name}`;
  return name.length > 18 ? `${/^[a-z]+-/.exec(name)?.[0] ?? ""}…${name.slice(-6)}` : name;
}
