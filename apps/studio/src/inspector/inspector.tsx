// The inspector: everything that is stored about the selected effect, or about the turn if none is selected.

import type { ReactNode } from "react";

export function Inspector({
  turnId,
  effect,
}: {
  readonly sessionId: string;
  readonly turnId: string | null;
  readonly effect: number | null;
}): ReactNode {
  return (
    <p className="loading">
      {turnId} {effect}
    </p>
  );
}
