// The timeline of a turn.

import type { ReactNode } from "react";

export function Timeline({ turnId }: { readonly sessionId: string; readonly turnId: string | null }): ReactNode {
  return <p className="loading">{turnId ?? "No turn"}</p>;
}
