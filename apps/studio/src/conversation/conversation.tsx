// The conversation of a session.

import type { SessionRoute } from "../route.ts";
import type { ReactNode } from "react";

export function Conversation({ route }: { readonly route: SessionRoute }): ReactNode {
  return <p className="loading">{route.sessionId}</p>;
}
