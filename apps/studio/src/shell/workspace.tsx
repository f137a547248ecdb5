// The view of sessions: the list at the left, and the session that is open, or what to do first.

import type { Route } from "../route.ts";
import type { ReactNode } from "react";

import { lazy, Suspense, useEffect } from "react";

import { navigate } from "../route.ts";
import { NoSession } from "../sessions/no-session.tsx";
import { SessionList } from "../sessions/session-list.tsx";
import { ErrorBoundary } from "./error-boundary.tsx";
import { useShortcuts } from "./keyboard.ts";
import { Resizer, togglePane, usePane } from "./panes.tsx";

/**
 * A session with its conversation, timeline and inspector is most of the code of the page. The list is shown before it
 * is loaded.
 */
const loadSessionPage = async () => import("../session/session-page.tsx");
const SessionPage = lazy(async () => ({ default: (await loadSessionPage()).SessionPage }));
/** How long after the list the code of a session is loaded, if none is opened before, in milliseconds. */
const preloadMs = 1000;

export function Workspace({ route }: { readonly route: Extract<Route, { view: "sessions" | "session" }> }): ReactNode {
  const list = usePane("sessions");
  useShortcuts({
    "[": () => togglePane("sessions"),
    n: () => navigate({ view: "sessions" }),
  });
  useEffect(() => {
    // A failure is shown when a session is opened, which loads the code again.
    const timer = setTimeout(() => void loadSessionPage().catch(() => undefined), preloadMs);
    return () => clearTimeout(timer);
  }, []);
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
          <Suspense
            fallback={
              <p className="loading" role="status">
                Loading…
              </p>
            }
          >
            {route.view === "session" ? <SessionPage key={route.sessionId} route={route} /> : <NoSession />}
          </Suspense>
        </ErrorBoundary>
      </main>
    </div>
  );
}
