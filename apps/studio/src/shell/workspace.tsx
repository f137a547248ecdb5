// The view of sessions: the list at the left, and the session that is open, or what to do first.

import type { Route } from "../route.ts";
import type { ReactNode } from "react";

import { navigate } from "../route.ts";
import { SessionPage } from "../session/session-page.tsx";
import { NoSession } from "../sessions/no-session.tsx";
import { SessionList } from "../sessions/session-list.tsx";
import { ErrorBoundary } from "./error-boundary.tsx";
import { useShortcuts } from "./keyboard.ts";
import { Resizer, togglePane, usePane } from "./panes.tsx";

export function Workspace({ route }: { readonly route: Extract<Route, { view: "sessions" | "session" }> }): ReactNode {
  const list = usePane("sessions");
  useShortcuts({
    "[": () => togglePane("sessions"),
    n: () => navigate({ view: "sessions" }),
  });
  const columns = list.isHidden ? "minmax(0, 1fr)" : `${list.size}px minmax(0, 1fr)`;
  return (
    <div
      className={`workspace ${route.view === "session" ? "has-session" : "no-session"}`}
      style={{ gridTemplateColumns: columns }}
    >
      {!list.isHidden && (
        <aside className="sessions" aria-label="Sessions">
          <SessionList selected={route.view === "session" ? route.sessionId : null} />
          <Resizer pane="sessions" side="left" label="Width of the sessions" />
        </aside>
      )}
      <main className="workspace-main" id="main">
        <ErrorBoundary key={route.view === "session" ? route.sessionId : ""}>
          {route.view === "session" ? <SessionPage key={route.sessionId} route={route} /> : <NoSession />}
        </ErrorBoundary>
      </main>
    </div>
  );
}
