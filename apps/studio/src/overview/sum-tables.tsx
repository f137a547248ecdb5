// Tables of sums: by engine or tenant, and by tool.

import type { ToolSum } from "everturn/advanced";
import type { Overview } from "everturn/client";
import type { ReactNode } from "react";

import { cost, count, duration, percent } from "../parts/format.ts";

/** Sums by engine or by tenant. `unnamed`: what stands for an empty name. */
export function SumTable({
  title,
  rows,
  unnamed = "",
  hrefOfRow = noLink,
}: {
  readonly title: string;
  readonly rows: Overview["engines"];
  readonly unnamed?: string;
  /** The address that a name links to. Default: none. */
  readonly hrefOfRow?: (name: string) => string | null;
}): ReactNode {
  return (
    <Table
      title={title}
      empty="No turn ended in this period."
      columns={["turns", "failed", "median", "95 %", "tokens", "cost"]}
      rows={rows.map((row) => ({
        name: row.name === "" ? unnamed : row.name,
        href: hrefOfRow(row.name),
        cells: [
          count(row.turns),
          share((row.outcomes["failed"] ?? 0) + (row.outcomes["parked"] ?? 0), row.turns),
          timeOf(row.duration.p50),
          timeOf(row.duration.p95),
          count(row.inputTokens + row.outputTokens),
          cost(row.cost),
        ],
      }))}
    />
  );
}

/** Sums by tool. */
export function ToolTable({ rows }: { readonly rows: readonly ToolSum[] }): ReactNode {
  return (
    <Table
      title="Tools"
      empty="No tool was called in this period."
      columns={["calls", "failed", "median", "95 %"]}
      rows={rows.map(({ name, calls, failed, duration: times }) => ({
        name,
        href: null,
        cells: [count(calls), share(failed, calls), timeOf(times.p50), timeOf(times.p95)],
      }))}
    />
  );
}

function noLink(): null {
  return null;
}

type TableRow = { readonly name: string; readonly href: string | null; readonly cells: readonly string[] };

function Table({
  title,
  empty,
  columns,
  rows,
}: {
  readonly title: string;
  readonly empty: string;
  readonly columns: readonly string[];
  readonly rows: readonly TableRow[];
}): ReactNode {
  return (
    <section className="panel">
      <h2>{title}</h2>
      {rows.length === 0 ? (
        <p className="muted">{empty}</p>
      ) : (
        <div className="sums" tabIndex={0} role="region" aria-label={title}>
          <table>
            <thead>
              <tr>
                <th scope="col">name</th>
                {columns.map((column) => (
                  <th key={column} scope="col">
                    {column}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map(({ name, href, cells }) => (
                <tr key={name}>
                  <th scope="row" title={name}>
                    {href === null ? (
                      <bdi>{name}</bdi>
                    ) : (
                      <a href={href}>
                        <bdi>{name}</bdi>
                      </a>
                    )}
                  </th>
                  {cells.map((cell, index) => (
                    <td key={columns[index]}>{cell}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** A quantile as a text; a dash without values. */
export function timeOf(value: number | null): string {
  return value === null ? "–" : duration(value);
}

function share(part: number, whole: number): string {
  return part === 0 ? "0" : `${count(part)} (${percent(part / whole)})`;
}
