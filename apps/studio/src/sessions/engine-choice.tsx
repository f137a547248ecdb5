// Chooses the engine whose sessions a list shows, if there are several.

import type { ReactNode } from "react";

import { useEngines } from "../data/engines.ts";

export function EngineChoice({
  engine,
  change,
}: {
  /** `null`: all. */
  readonly engine: string | null;
  readonly change: (engine: string | null) => void;
}): ReactNode {
  const engines = useEngines();
  // An engine of the address stays visible, also if this server has only one.
  if (engines.data === null || (engines.data.length < 2 && engine === null)) return null;
  const names = new Set([...engines.data.map(({ name }) => name), ...(engine === null ? [] : [engine])]);
  return (
    <select
      className="select small"
      aria-label="Engine"
      value={engine ?? ""}
      onChange={({ target }) => change(target.value || null)}
    >
      <option value="">All engines</option>
      {[...names].map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}
