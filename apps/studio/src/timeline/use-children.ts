// The timelines of the child turns of a turn, for the nested lanes, also while they run. Only the first children are read;
// the others have links in the inspector.

import type { TurnTimeline } from "everturn/client";

import { useEffect, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { readerOf } from "./turn-data.ts";

/** How many child turns are shown below one turn, and how deep. */
const maxChildren = 20;
const maxDepth = 3;

/** Timelines of child turns, by the id of the turn. */
type ChildTimelines = ReadonlyMap<string, TurnTimeline>;

const none: ChildTimelines = new Map();

/** The children of a turn, and the one that is shown, if it is among many; `timeline: null`: nothing is read. */
export function useChildren(sessionId: string, timeline: TurnTimeline | null, shown: string | null): ChildTimelines {
  const { inspector } = useConnection();
  const [children, setChildren] = useState(none);
  const key = JSON.stringify(timeline === null ? [] : childIds(timeline, shown));
  useEffect(() => {
    const ids: readonly string[] = JSON.parse(key);
    const stops = new Map<string, () => void>();
    const update = (): void => {
      const timelines = new Map<string, TurnTimeline>();
      let level = ids;
      for (let depth = 0; depth < maxDepth && level.length > 0; depth += 1) {
        const found = level.flatMap((turnId) => {
          const reader = readerOf(inspector, sessionId, turnId);
          if (!stops.has(turnId)) {
            // Subscribing may call back before it returns.
            stops.set(turnId, () => undefined);
            stops.set(turnId, reader.subscribe(update));
          }
          return reader.current().timeline ?? [];
        });
        for (const child of found) timelines.set(child.turn.turnId, child);
        level = found.flatMap((child) => childIds(child, null)).slice(0, maxChildren);
      }
      setChildren(timelines);
    };
    if (ids.length > 0) update();
    else setChildren(none);
    return () => {
      for (const stop of stops.values()) stop();
    };
  }, [inspector, sessionId, key]);
  return children;
}

/** The first child turns of a turn, and the one that is shown or has it inside. */
function childIds({ effects, open }: TurnTimeline, shown: string | null): readonly string[] {
  const all = [...effects, ...open].flatMap(({ children }) => children.flatMap(({ turnId }) => turnId ?? []));
  return all.filter((turnId, index) => index < maxChildren || turnId === shown || shown?.startsWith(`${turnId}/`));
}
