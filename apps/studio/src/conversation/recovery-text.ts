// One line that says what happened when a process died and another one continued a turn, from the timeline.

import type { TurnTimeline } from "everturn/client";

import { duration } from "../parts/format.ts";
import { visibleName } from "../parts/text.ts";

/** The last takeover of a turn in words; `null`: there was none. */
export function recoveryText({ claims, effects }: TurnTimeline): string | null {
  const position = claims.findLastIndex(({ takesOver }) => takesOver);
  const claim = claims[position];
  if (claim === undefined) return null;
  const before = claims[position - 1];
  const replayed = effects.filter(({ epoch }) => epoch < claim.epoch).length;
  const repeated = effects.filter(({ epoch, state }) => epoch < claim.epoch && state === "superseded").length;
  const lastSign = effects
    .flatMap(({ epoch, endedAt, discarded }) => [
      epoch < claim.epoch ? endedAt : null,
      ...discarded.map((attempt) => (attempt.epoch < claim.epoch ? attempt.startedAt : null)),
    ])
    .reduce<number>((latest, time) => Math.max(latest, time ?? 0), 0);
  const gap = lastSign > 0 && lastSign <= claim.since ? ` after ${duration(claim.since - lastSign)}` : "";
  const dead = before === undefined ? "a worker died" : `${workerName(before.owner)} died`;
  return `${dead} · ${workerName(claim.owner)} continued${gap} · ${replayed} recorded ${
    replayed === 1 ? "effect" : "effects"
  } replayed, ${repeated} repeated`;
}

/** The name of a process is long and random: its end tells processes apart. */
function workerName(owner: string): string {
  const name = visibleName(owner);
  return `worker ${name.length > 12 ? `…${name.slice(-6)}` : name}`;
}
