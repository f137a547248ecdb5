// What fills the context window in one request: a bar, and the same numbers as a table.

import type { WindowUse } from "everturn/advanced";
import type { ReactNode } from "react";

import { useId } from "react";

import { count, percent } from "../parts/format.ts";
import "./context.css";
import { windowRows, windowText } from "./window-rows.ts";

export function WindowBar({ window: use }: { readonly window: WindowUse }): ReactNode {
  const title = useId();
  const rows = windowRows(use);
  const { input, compactAt } = use;
  const whole = rows.reduce((sum, { tokens }) => sum + tokens, 0);
  return (
    <section className="window" aria-labelledby={title}>
      <h3 id={title}>Context window</h3>
      <p className="tnum">
        {windowText(use)} <Source of={input.source} />
      </p>
      {/* The table below has the same numbers. */}
      <div className="window-bar" aria-hidden="true">
        {rows.map(({ name, tokens }) =>
          tokens === 0 ? null : <span key={name} className={`window-part ${name}`} style={{ flexGrow: tokens }} />,
        )}
        {compactAt !== null && compactAt < whole && (
          <span className="window-mark" style={{ left: `${(100 * compactAt) / whole}%` }} />
        )}
      </div>
      <table className="window-table">
        <thead className="visually-hidden">
          <tr>
            <th scope="col">Part</th>
            <th scope="col">Tokens</th>
            <th scope="col">Share</th>
            <th scope="col">How it is known</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, label, tokens, source }) => (
            <tr key={name}>
              <th scope="row">
                <span className={`window-key ${name}`} aria-hidden="true" />
                {label}
              </th>
              <td className="tnum">{count(tokens)}</td>
              <td className="tnum">{whole === 0 ? "–" : percent(tokens / whole)}</td>
              <td className="muted">{source ?? "setting"}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {compactAt !== null && (
        <p className="muted">
          <span className="window-key compacts" aria-hidden="true" />
          Older messages are summarized at {count(compactAt)} tokens.
        </p>
      )}
    </section>
  );
}

/** Whether the provider has reported the number. */
function Source({ of }: { readonly of: WindowUse["input"]["source"] }): ReactNode {
  const title = of === "counted" ? "The provider has reported this number" : "Estimated from the length of the texts";
  return (
    <span className={`tag ${of === "counted" ? "tool" : ""}`} title={title}>
      {of}
    </span>
  );
}
