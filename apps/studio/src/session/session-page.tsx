// A session: its bar, the conversation with the composer, the timeline of the turn below, and the inspector at the
// right.

import type { SessionRoute } from "../route.ts";
import type { ReactNode } from "react";

import { useMemo, useState } from "react";

import { ChildTranscript } from "../conversation/child-transcript.tsx";
import { Conversation } from "../conversation/conversation.tsx";
import { lastTurnOf } from "../conversation/session-store.ts";
import {
  ConversationProvider,
  useConversationPart,
  useFeedState,
  useNewConversationStore,
} from "../conversation/use-conversation.ts";
import { WaitingSessionProvider } from "../conversation/waiting-session.ts";
import { useConnection } from "../data/connection.tsx";
import { refreshSession } from "../data/session-feed.ts";
import { Inspector } from "../inspector/inspector.tsx";
import { clearSelection } from "../selection.ts";
import { ErrorBoundary } from "../shell/error-boundary.tsx";
import { useShortcuts } from "../shell/keyboard.ts";
import { Resizer, togglePane, usePane } from "../shell/panes.tsx";
import { SessionTimeline } from "../timeline/timeline.tsx";
import { isInnerTurn } from "../timeline/turns.ts";
import { SessionBar } from "./session-bar.tsx";

export function SessionPage({ route }: { readonly route: SessionRoute }): ReactNode {
  const store = useNewConversationStore(route.sessionId);
  return (
    <ConversationProvider value={store}>
      <ShownSession sessionId={route.sessionId}>
        <SessionPanes route={route} />
      </ShownSession>
    </ConversationProvider>
  );
}

/** Forms of waiting calls answer calls of this session. The composer answers its question. */
function ShownSession({
  sessionId,
  children,
}: {
  readonly sessionId: string;
  readonly children: ReactNode;
}): ReactNode {
  const { client } = useConnection();
  const engine = useConversationPart(({ head }) => head?.engine ?? null);
  const composed = useConversationPart(({ head }) => head?.session.pendingToolCallId ?? null);
  const value = useMemo(
    () => ({ sessionId, engine, composed, read: () => refreshSession(client, sessionId) }),
    [client, sessionId, engine, composed],
  );
  return <WaitingSessionProvider value={value}>{children}</WaitingSessionProvider>;
}

function SessionPanes({ route }: { readonly route: SessionRoute }): ReactNode {
  const { sessionId, effect } = route;
  const openTurnId = useConversationPart(({ head, turn }) => head?.openTurn?.turnId ?? turn?.turnId ?? null);
  const lastTurnId = useConversationPart(({ head }) => lastTurnOf(head));
  const turnId = route.turnId ?? openTurnId ?? lastTurnId;
  const child = route.turnId !== null && isInnerTurn(route.turnId) ? route.turnId : null;
  const timeline = usePane("timeline");
  const isGone = useFeedState() === "gone";
  const inspector = usePane("inspector");
  // On a narrow screen the inspector covers the conversation while it is open.
  const [isSheetOpen, setSheetOpen] = useState(false);
  useShortcuts({
    "]": () => togglePane("inspector"),
    "\\": () => togglePane("timeline"),
    Escape: () => {
      setSheetOpen(false);
      clearSelection(route);
    },
  });
  return (
    <div
      className={isSheetOpen ? "session sheet-open" : "session"}
      style={{
        gridTemplateColumns: inspector.isHidden || isGone ? "minmax(0, 1fr)" : `minmax(0, 1fr) ${inspector.size}px`,
        gridTemplateRows:
          timeline.isHidden || isGone ? "46px minmax(0, 1fr)" : `46px minmax(0, 1fr) ${timeline.size}px`,
      }}
    >
      <SessionBar turnId={turnId} toggleSheet={() => setSheetOpen(!isSheetOpen)} />
      <section className="talk-pane" aria-label="Conversation">
        <ErrorBoundary>
          {child === null ? (
            <Conversation route={route} />
          ) : (
            <ChildTranscript key={child} route={route} turnId={child} />
          )}
        </ErrorBoundary>
      </section>
      {!timeline.isHidden && !isGone && (
        <section className="timeline-pane" aria-label="Timeline">
          <Resizer pane="timeline" side="below" label="Height of the timeline" />
          <ErrorBoundary>
            <SessionTimeline sessionId={sessionId} turnId={turnId} />
          </ErrorBoundary>
        </section>
      )}
      {(!inspector.isHidden || isSheetOpen) && !isGone && (
        <aside className="inspector-pane" aria-label="Inspector">
          <Resizer pane="inspector" side="right" label="Width of the inspector" />
          <ErrorBoundary>
            <Inspector sessionId={sessionId} turnId={turnId} effect={effect} />
          </ErrorBoundary>
        </aside>
      )}
    </div>
  );
}
