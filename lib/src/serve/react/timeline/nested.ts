// The lanes of child agents in the timeline of a turn: each child turn has its lanes below the lane of the call in which
// it ran, on the same axis. Pure.

import type { TurnTimeline } from "../../../core/model/internal.ts";
import type { Bar, Lane, TurnLayout } from "./layout.ts";

import { layoutOf } from "./layout.ts";
import { openEffects } from "./open-effects.ts";

/** Timelines of child turns, by the id of the turn. */
export type ChildTimelines = ReadonlyMap<string, TurnTimeline>;

/** `end`: when the last child of the lane ended. */
type NestedLane = { readonly lane: Lane; readonly bars: Bar[]; end: number };

/**
 * The layout of a turn with the lanes of those of its children, and of their children, that are given. `now`: the present
 * time of the server, in milliseconds: the end of what runs.
 */
export function withChildren(
  layout: TurnLayout,
  { turn, effects, open }: Pick<TurnTimeline, "turn" | "effects" | "open">,
  children: ChildTimelines,
  now: number,
): TurnLayout {
  const childrenOf = new Map<string, readonly { readonly turnId: string | null }[]>([
    ...effects.map((effect) => [`r${effect.ordinal}`, effect.children] as const),
    ...open.map((call) => [`open:${call.toolCallId}`, call.children] as const),
  ]);
  const placed = layout.lanes.flatMap((lane, index) => {
    const own = layout.bars[index] ?? [];
    const nested: NestedLane[] = [];
    for (const bar of own) {
      if (bar.kind === "discarded") continue;
      for (const { turnId } of childrenOf.get(bar.id) ?? []) {
        const child = turnId === null ? undefined : children.get(turnId);
        if (child === undefined) continue;
        const isRunning = bar.isOpen && bar.kind !== "wait";
        const childLayout = layoutOf(child, { open: isRunning ? openEffects(child) : [], now });
        const inner = withChildren(childLayout, child, children, now);
        addLanes(nested, inner, { lane, bar, child, shift: child.turn.acceptedAt - turn.acceptedAt });
      }
    }
    return [{ lane, bars: own }, ...nested];
  });
  return {
    ...layout,
    lanes: placed.map(({ lane }) => lane),
    bars: placed.map(({ bars }, lane) => bars.map((bar) => ({ ...bar, lane }))),
  };
}

type Place = {
  readonly lane: Lane;
  /** The call in which the child ran. */
  readonly bar: Bar;
  readonly child: TurnTimeline;
  /** When the child began after the turn around it, in milliseconds. */
  readonly shift: number;
};

/** Adds the lanes of a child turn. A lane of an earlier child that has ended is used again. */
function addLanes(nested: NestedLane[], inner: TurnLayout, { lane, bar: around, child, shift }: Place): void {
  const { turnId } = child.turn;
  const used = new Set<NestedLane>();
  const all = inner.bars.flat();
  const childStart = all.reduce((first, bar) => Math.min(first, bar.start), Infinity) + shift;
  const childEnd = within(all.reduce((last, bar) => Math.max(last, bar.end), 0) + shift, around);
  for (const [index, innerLane] of inner.lanes.entries()) {
    const bars = (inner.bars[index] ?? []).map((bar): Bar => {
      const start = within(bar.start + shift, around);
      const end = within(bar.end + shift, around);
      // Ids of bars are unique in the layout.
      return { ...bar, id: `${turnId}:${bar.id}`, turnId: bar.turnId ?? turnId, start, end };
    });
    if (bars.length === 0) continue;
    const depth = innerLane.depth + 1;
    const parent = innerLane.parent ?? lane.label;
    const free = nested.find(
      (other) =>
        !used.has(other) &&
        other.lane.depth === depth &&
        other.lane.kind === innerLane.kind &&
        other.lane.label === innerLane.label &&
        other.lane.parent === parent &&
        other.end <= childStart,
    );
    const target = free ?? { lane: { ...innerLane, depth, parent }, bars: [], end: childEnd };
    if (free === undefined) nested.push(target);
    target.bars.push(...bars);
    target.end = childEnd;
    used.add(target);
  }
}

/** A time of a child. Clocks of two processes may differ, and a child that waits has no end of its own. */
function within(time: number, { start, end }: Bar): number {
  return Math.min(Math.max(time, start), end);
}
