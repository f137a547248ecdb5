// The view of a replay file.

import type { ReactNode } from "react";

export function Replay(): ReactNode {
  return <h1 className="page-title">Replay file</h1>;
}
