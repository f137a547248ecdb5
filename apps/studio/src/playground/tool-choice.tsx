// Chooses the tools that are offered to the model.

import type { EngineView } from "everturn/advanced";
import type { ReactNode } from "react";

export function ToolChoice({
  tools,
  chosen,
  change,
}: {
  readonly tools: EngineView["tools"];
  /** The names of the tools that are offered; `null`: all. */
  readonly chosen: readonly string[] | null;
  readonly change: (chosen: readonly string[]) => void;
}): ReactNode {
  const offered = chosen ?? tools.map(({ name }) => name);
  return (
    <fieldset>
      <legend>tools</legend>
      {tools.map(({ name, description }) => (
        <label key={name} className="check" title={description}>
          <input
            type="checkbox"
            checked={offered.includes(name)}
            onChange={({ target }) =>
              change(target.checked ? [...offered, name] : offered.filter((other) => other !== name))
            }
          />
          <span className="mono">{name}</span>
        </label>
      ))}
    </fieldset>
  );
}
