// Reads the frames of a session, which say where summaries stand for messages in requests. A session without a context
// policy has none, and costs no request.

import type { ConversationState } from "../conversation/session-store.ts";
import type { FrameMark } from "./frame-marks.ts";
import type { HistoryFrame } from "everturn/advanced";
import type { EverturnClient } from "everturn/client";

import { useEffect, useMemo } from "react";

import { nextIndex } from "../conversation/session-store.ts";
import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { frameMarks } from "./frame-marks.ts";

/** A session has one frame for many turns; older ones than these have no mark. */
const maxFrames = 1000;
const noFrames: readonly HistoryFrame[] = [];

/**
 * The marks of a conversation, by the index of the message that they precede. The frames are read again when a
 * compaction has ended or was undone.
 */
export function useFrameMarks({
  sessionId,
  head,
  length,
  turn,
}: Pick<ConversationState, "sessionId" | "head" | "length" | "turn">): ReadonlyMap<number, readonly FrameMark[]> {
  const { client } = useConnection();
  const window = head?.session.contextWindow ?? null;
  const { ended = 0 } = turn?.compaction ?? {};
  const hasFrames = window !== null || ended > 0;
  const { data, refresh } = useQuery(hasFrames ? `frames ${sessionId}` : null, async () =>
    readFrames(client, sessionId),
  );
  const newest = window?.frame?.id ?? null;
  useEffect(() => refresh(), [refresh, newest, ended]);
  const frames = data ?? noFrames;
  // The open turn has messages that are not committed.
  const shown = turn === null ? length : Math.max(length, nextIndex(turn.base, turn.items));
  return useMemo(() => frameMarks(frames, shown), [frames, shown]);
}

async function readFrames(client: EverturnClient, sessionId: string): Promise<readonly HistoryFrame[]> {
  const frames: HistoryFrame[] = [];
  let after: string | null = null;
  do {
    const cursor: { readonly after?: string } = after === null ? {} : { after };
    const page: Awaited<ReturnType<EverturnClient["frames"]>> = await client.frames(sessionId, cursor);
    frames.push(...page.items);
    after = page.next;
  } while (after !== null && frames.length < maxFrames);
  return frames;
}
