// A mark between two messages: what the model reads in place of the messages before it. It opens to the summary, the
// messages that it stands for, and what it cost. The messages stay in the conversation.

import type { FrameMark } from "./frame-marks.ts";
import type { HistoryFrame, TimelineEffect } from "everturn/advanced";
import type { ReactNode } from "react";

import { readTimeline } from "everturn/client";
import { usageTexts } from "everturn/react";
import { memo, useState } from "react";

import { useConversationPart } from "../conversation/use-conversation.ts";
import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { refreshSession } from "../data/session-feed.ts";
import { dateTime } from "../parts/format.ts";
import { visibleName } from "../parts/text.ts";
import { sessionRoute } from "../route.ts";
import { Button } from "../shell/button.tsx";
import { Link } from "../shell/link.tsx";
import { attempt } from "../shell/toasts.tsx";
import { Markdown } from "../text/markdown.tsx";
import "./context.css";
import { markText, messageNumbers } from "./frame-marks.ts";

/** `onOpen`: the reader wants to read it, so the list must not move on to its end. */
export const FrameRow = memo(function FrameRow({
  mark,
  onOpen,
}: {
  readonly mark: FrameMark;
  readonly onOpen: () => void;
}): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const { frame, state } = mark;
  return (
    <details
      className={`frame-mark ${state}`}
      onToggle={({ currentTarget }) => {
        setOpen(currentTarget.open);
        if (currentTarget.open) onOpen();
      }}
    >
      <summary>
        <span className="frame-line">
          <span className="frame-text">{markText(mark)}</span>
        </span>
      </summary>
      {isOpen && (
        <div className="frame-body">
          {frame.summary === null ? (
            <p className="muted">No summary could be made.</p>
          ) : (
            <section aria-label="Summary" className="frame-summary" tabIndex={0}>
              <Markdown text={frame.summary} />
            </section>
          )}
          <Facts frame={frame} />
          {state === "used" && <Undo frame={frame} />}
        </div>
      )}
    </details>
  );
});

/** Which messages, by which turn, and what it cost. */
function Facts({ frame }: { readonly frame: HistoryFrame }): ReactNode {
  const sessionId = useConversationPart((state) => state.sessionId);
  const { data: effect, error } = useFrameEffect(sessionId, frame.id);
  const { to, pinned, undoneAt } = frame;
  const from = effect?.frame?.from ?? 0;
  return (
    <dl className="insp-facts">
      <dt>messages</dt>
      <dd>
        {messageRange(0, to)}
        {from > 0 && `; of these ${messageRange(0, from)} by the summary before it`}
      </dd>
      {pinned.length > 0 && (
        <>
          <dt>as they are</dt>
          <dd>{messageNumbers(pinned)}</dd>
        </>
      )}
      <dt>tokens</dt>
      <dd className="tnum">
        {effect === null
          ? error === null
            ? "Loading…"
            : "not known: the journal of the turn is not in this session"
          : `in ${usageTexts(effect.usage).input} · out ${usageTexts(effect.usage).output}`}
      </dd>
      {effect !== null && (
        <>
          <dt>made by</dt>
          <dd>
            <Link to={sessionRoute(sessionId, { turnId: turnOf(frame.id), effect: effect.ordinal })}>
              step {effect.step + 1}
              {effect.name !== null && ` · ${visibleName(effect.name)}`}
            </Link>
          </dd>
        </>
      )}
      {undoneAt !== null && (
        <>
          <dt>undone</dt>
          <dd>{dateTime(undoneAt)}</dd>
        </>
      )}
    </dl>
  );
}

/** The numbers of the messages from a position to before another one, as people count them. */
function messageRange(from: number, to: number): string {
  return messageNumbers(Array.from({ length: to - from }, (_, index) => from + index));
}

/** Undoes the compaction. A turn that is open has begun with the summary. */
function Undo({ frame }: { readonly frame: HistoryFrame }): ReactNode {
  const { client } = useConnection();
  const sessionId = useConversationPart((state) => state.sessionId);
  const isOpen = useConversationPart(({ head, turn }) => turn !== null || (head?.openTurn ?? null) !== null);
  const undo = (): void =>
    attempt(async () => {
      await client.undoCompaction(sessionId, { frame: frame.id });
      refreshSession(client, sessionId);
    });
  return (
    <div className="actions">
      <Button look="small" disabled={isOpen} onClick={undo}>
        Undo the summary
      </Button>
      <span className="muted">
        {isOpen ? "Possible when the turn has ended" : "The next request contains the messages again"}
      </span>
    </div>
  );
}

/** The id of a frame begins with that of its turn. */
function turnOf(frameId: string): string {
  return frameId.split("/")[0] ?? "";
}

/** The compaction that has made a frame. A fork has the frame without the turn. */
function useFrameEffect(
  sessionId: string,
  frameId: string,
): { readonly data: TimelineEffect | null; readonly error: Error | null } {
  const { inspector } = useConnection();
  return useQuery(`frame ${sessionId} ${frameId}`, async () => {
    const { effects } = await readTimeline(inspector, sessionId, turnOf(frameId));
    const effect = effects.find(({ frame }) => frame?.id === frameId);
    if (effect === undefined) throw new Error("the journal of the turn has no such compaction");
    return effect;
  });
}
