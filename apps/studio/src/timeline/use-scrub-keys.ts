// The arrow keys of the page move the playhead of the timeline by commits.

import type { TurnTimeline } from "everturn/client";

import { movePlayhead } from "everturn/react";

import { useShortcuts } from "../shell/keyboard.ts";

/** `timeline: null`: nothing is shown, and the keys belong to the browser. */
export function useScrubKeys(
  timeline: TurnTimeline | null,
  at: number | null,
  onScrub: (at: number | null) => void,
): void {
  const move = (direction: -1 | 1) => (): boolean | void => {
    if (timeline === null || timeline.effects.length === 0 || (direction === 1 && at === null)) return false;
    onScrub(movePlayhead(timeline, at, direction));
  };
  useShortcuts({ ArrowLeft: move(-1), ArrowRight: move(1) });
}
