// The timelines of the child turns of a turn, for the nested lanes. A child is in the timeline once the call in which it
// ran is recorded, so it is read once. Only the first children are read; the others have links in the inspector.

import type { ChildTimelines } from "./nested.ts";
import type { Inspector, TurnTimeline } from "everturn/client";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { readTimeline } from "./turn-data.ts";

/** How many child turns are shown below one turn, and how deep. */
const maxChildren = 20;
const maxDepth = 3;

const none: ChildTimelines = new Map();

/** The children of a turn, and the one that is shown, if it is among many; `timeline: null`: nothing is read. */
export function useChildren(sessionId: string, timeline: TurnTimeline | null, shown: string | null): ChildTimelines {
  const { inspector } = useConnection();
  const ids = timeline === null ? [] : childIds(timeline, shown);
  const key = ids.length === 0 ? null : `children ${sessionId} ${JSON.stringify(ids)}`;
  const { data } = useQuery(key, async () => readChildren(inspector, sessionId, ids));
  return data ?? none;
}

async function readChildren(inspector: Inspector, sessionId: string, ids: readonly string[]): Promise<ChildTimelines> {
  const timelines = new Map<string, TurnTimeline>();
  let level = ids;
  for (let depth = 0; depth < maxDepth && level.length > 0; depth += 1) {
    const found = await Promise.all(level.map(async (turnId) => readTimeline(inspector, sessionId, turnId, null)));
    for (const timeline of found) timelines.set(timeline.turn.turnId, timeline);
    level = found.flatMap((timeline) => childIds(timeline, null)).slice(0, maxChildren);
  }
  return timelines;
}

/** The first child turns of a turn, and the one that is shown or has it inside. */
function childIds({ effects }: TurnTimeline, shown: string | null): readonly string[] {
  const all = effects.flatMap(({ children }) => children.flatMap(({ turnId }) => turnId ?? []));
  return all.filter((turnId, index) => index < maxChildren || turnId === shown || shown?.startsWith(`${turnId}/`));
}
