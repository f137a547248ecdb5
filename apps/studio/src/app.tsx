// The page: the connection, then the header and the view that the URL names. Views other than the sessions are loaded
// when they are first shown.

import type { ReactNode } from "react";

import { CSPProvider } from "@base-ui/react/csp-provider";
import { lazy, Suspense } from "react";

import { ConnectionProvider } from "./data/connection.tsx";
import { useRoute } from "./route.ts";
import { ConnectionGate } from "./shell/connection-gate.tsx";
import { ErrorBoundary } from "./shell/error-boundary.tsx";
import { Header } from "./shell/header.tsx";
import { Toasts } from "./shell/toasts.tsx";
import { Workspace } from "./shell/workspace.tsx";

const Overview = lazy(async () => ({ default: (await import("./overview/overview-page.tsx")).OverviewPage }));
const Inbox = lazy(async () => ({ default: (await import("./inbox/inbox-page.tsx")).InboxPage }));
const Audit = lazy(async () => ({ default: (await import("./audit/audit-page.tsx")).AuditPage }));
const Playground = lazy(async () => ({ default: (await import("./playground/playground-page.tsx")).PlaygroundPage }));
const Compare = lazy(async () => ({ default: (await import("./compare/compare-page.tsx")).ComparePage }));
const Replay = lazy(async () => ({ default: (await import("./replay/replay.tsx")).Replay }));

export function App(): ReactNode {
  const route = useRoute();
  // The strict Content-Security-Policy forbids style elements, which some components of Base UI would add.
  return (
    <CSPProvider disableStyleElements>
      {route.view === "replay" ? (
        // A replay file is shown without a server.
        <div className="page">
          <Page>
            <Replay />
          </Page>
        </div>
      ) : (
        <ConnectionProvider render={(state, actions) => <ConnectionGate state={state} {...actions} />}>
          <div className="page">
            <Header />
            <View />
          </div>
        </ConnectionProvider>
      )}
      <Toasts />
    </CSPProvider>
  );
}

function View(): ReactNode {
  const route = useRoute();
  switch (route.view) {
    case "sessions":
    case "session":
      return <Workspace route={route} />;
    case "waiting":
      return (
        <Page>
          <Inbox route={route} />
        </Page>
      );
    case "overview":
      return (
        <Page>
          <Overview period={route.period} />
        </Page>
      );
    case "audit":
      return (
        <Page>
          <Audit route={route} />
        </Page>
      );
    case "playground":
      return (
        <Page>
          <Playground from={route.from} />
        </Page>
      );
    case "compare":
      return (
        <Page>
          <Compare left={route.left} right={route.right} />
        </Page>
      );
    case "replay":
      return null;
  }
}

/** A view that takes the whole width below the header. */
function Page({ children }: { readonly children: ReactNode }): ReactNode {
  const { view } = useRoute();
  return (
    <main className="page-view" id="main">
      <ErrorBoundary key={view}>
        <Suspense fallback={<p className="loading">Loading…</p>}>{children}</Suspense>
      </ErrorBoundary>
    </main>
  );
}
