// A session as lists and results show it, from its rows.

import type { SessionSummary } from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { OpenTurnStatus } from "../drive/session-rows.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { SessionHead } from "../rows/values.ts";

import { openTurnStatuses } from "../drive/session-rows.ts";
import { titleText } from "../rows/session-write.ts";
import { forkOriginOf } from "./fork-origin.ts";

/** A session as `list` and results show it: without messages. */
export function summary(head: SessionHead, version: number, open: OpenTurnStatus | null): SessionSummary {
  const { session, length, turn, engine, owner, startedBy, createdAt, changedAt } = head;
  const { id, status, pendingToolCalls, pendingQuestion, usage, metadata } = session;
  const { title } = metadata;
  return {
    id: id ?? "",
    title: typeof title === "string" ? titleText(title) : head.title,
    engine,
    owner,
    startedBy,
    status,
    version,
    length,
    pendingToolCalls,
    pendingQuestion,
    usage,
    metadata,
    turnId: turn,
    turnStatus: open?.status ?? null,
    limitWait: open?.limitWait ?? null,
    forkedFrom: forkOriginOf(metadata),
    createdAt,
    changedAt,
  };
}

/** The summary of a session whose rows were read just now. Usually no turn is open, and nothing is read. */
export async function currentSummary(
  context: VerbContext,
  key: SessionKey,
  head: SessionHead,
  version: number,
): Promise<SessionSummary> {
  const [open = null] = await openTurnStatuses(context, [{ key, turn: head.turn }]);
  return summary(head, version, open);
}
