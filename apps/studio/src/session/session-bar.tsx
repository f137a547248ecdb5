// The bar of a session: title, status, totals and the actions on the session.

import type { ReactNode } from "react";

import { Link } from "../shell/link.tsx";

export function SessionBar({ sessionId }: { readonly sessionId: string }): ReactNode {
  return (
    <div className="session-bar">
      <Link to={{ view: "sessions" }} className="icon-btn only-small" aria-label="All sessions">
        ←
      </Link>
      <h1>{sessionId}</h1>
    </div>
  );
}
