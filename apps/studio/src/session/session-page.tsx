// A session: its bar, the conversation with the composer, the timeline of the turn below, and the inspector at the right.

import type { SessionRoute } from "../route.ts";
import type { ReactNode } from "react";

import { Conversation } from "../conversation/conversation.tsx";
import { Inspector } from "../inspector/inspector.tsx";
import { clearSelection } from "../selection.ts";
import { ErrorBoundary } from "../shell/error-boundary.tsx";
import { useShortcuts } from "../shell/keyboard.ts";
import { Resizer, togglePane, usePane } from "../shell/panes.tsx";
import { Timeline } from "../timeline/timeline.tsx";
import { SessionBar } from "./session-bar.tsx";

export function SessionPage({ route }: { readonly route: SessionRoute }): ReactNode {
  const { sessionId, turnId, effect } = route;
  const timeline = usePane("timeline");
  const inspector = usePane("inspector");
  useShortcuts({
    "]": () => togglePane("inspector"),
    "\\": () => togglePane("timeline"),
    Escape: () => clearSelection(route),
  });
  return (
    <div
      className="session"
      style={{
        gridTemplateColumns: inspector.isHidden ? "minmax(0, 1fr)" : `minmax(0, 1fr) ${inspector.size}px`,
        gridTemplateRows: timeline.isHidden ? "46px minmax(0, 1fr)" : `46px minmax(0, 1fr) ${timeline.size}px`,
      }}
    >
      <SessionBar sessionId={sessionId} />
      <section className="talk-pane" aria-label="Conversation">
        <ErrorBoundary>
          <Conversation route={route} />
        </ErrorBoundary>
      </section>
      {!timeline.isHidden && (
        <section className="timeline-pane" aria-label="Timeline">
          <Resizer pane="timeline" side="below" label="Height of the timeline" />
          <ErrorBoundary>
            <Timeline sessionId={sessionId} turnId={turnId} />
          </ErrorBoundary>
        </section>
      )}
      {!inspector.isHidden && (
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
