// The overview: what turns did in a period, what waits for a person, and which processes work. The sums come from the
// rollup table of the server.

import type { Period } from "../route.ts";
import type { Bar } from "./chart.tsx";
import type { OverviewSum } from "everturn/advanced";
import type { Overview } from "everturn/client";
import type { ReactNode } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { cost, count, dateTime, duration, percent } from "../parts/format.ts";
import { hrefOf, navigate, overviewRoute, periodNames, periodOf, periods } from "../route.ts";
import { Button, Toggle } from "../shell/button.tsx";
import { tenantName } from "../shell/tenant-switch.tsx";
import { useTitle } from "../shell/title.ts";
import { ParkedTurns, WaitingSessions } from "./attention.tsx";
import { BarChart } from "./chart.tsx";
import { SumTable, ToolTable, timeOf } from "./sum-tables.tsx";
import "./overview.css";
import { Workers } from "./workers.tsx";

/** The outcomes with their colours, in the order in which bars are stacked. */
const outcomes = [
  { name: "completed", className: "chart-ok" },
  { name: "waiting", className: "chart-wait" },
  { name: "cancelled", className: "chart-note" },
  { name: "limited", className: "chart-limited" },
  { name: "failed", className: "chart-crash" },
  { name: "parked", className: "chart-parked" },
] as const;

export function OverviewPage({ period }: { readonly period: Period | null }): ReactNode {
  useTitle("Overview");
  const { inspector, server } = useConnection();
  const periodMs = periods[period ?? "24h"];
  const { data, error, refresh } = useQuery(
    `overview:${periodMs}`,
    async (signal) =>
      server.operator ? inspector.overview({ from: Date.now() - periodMs, until: Date.now(), signal }) : null,
    { live: true },
  );
  return (
    <div className="dashboard">
      <div className="dashboard-bar">
        <h1>Overview</h1>
        <div role="group" aria-label="period" className="chips">
          {Object.entries(periodNames).map(([name, label]) => (
            <Toggle
              key={name}
              isOn={name === (period ?? "24h")}
              onClick={() => navigate(overviewRoute(periodOf(name)))}
            >
              {label}
            </Toggle>
          ))}
        </div>
        <span className="spacer" />
        {server.tenant !== "" && (
          <span className="muted">{`tenant ${tenantName(server.tenant)}${server.tenants ? "; the sums are those of all tenants" : ""}`}</span>
        )}
      </div>
      {error !== null && (
        <p className="notice bad" role="alert">
          The sums could not be read: {error.message} <Button onClick={refresh}>Try again</Button>
        </p>
      )}
      {data === null && error === null && (
        <p className="muted pad">{server.operator ? "Reading…" : "Sums over all callers are shown to operators."}</p>
      )}
      {data !== null && <Sums overview={data} period={period} />}
      <div className="columns">
        <WaitingSessions />
        <ParkedTurns />
        {server.operator && <Workers />}
      </div>
    </div>
  );
}

function Sums({ overview, period }: { readonly overview: Overview; readonly period: Period | null }): ReactNode {
  const { server } = useConnection();
  const { total, buckets, from, until, bucketMs } = overview;
  const bars = (valuesOf: (sum: OverviewSum) => Bar["values"]): readonly Bar[] =>
    buckets.map((bucket) => ({ at: bucket.at, label: dateTime(bucket.at), values: valuesOf(bucket) }));
  const axis = { from, until, bucketMs };
  return (
    <>
      <dl className="tiles">
        <Tile name="turns" value={count(total.turns)} detail={completedShare(total)} />
        <Tile
          name="duration, median"
          value={timeOf(total.duration.p50)}
          detail={`95 %: ${timeOf(total.duration.p95)}`}
        />
        <Tile
          name="first token, median"
          value={timeOf(total.firstContent.p50)}
          detail={`95 %: ${timeOf(total.firstContent.p95)}`}
        />
        <Tile
          name="tokens in"
          value={count(total.inputTokens)}
          detail={
            total.inputTokens === 0 ? "" : `${percent(total.cachedInputTokens / total.inputTokens)} from the cache`
          }
        />
        <Tile name="tokens out" value={count(total.outputTokens)} detail="" />
        <Tile
          name="cost"
          value={cost(total.cost)}
          detail={total.turns === 0 ? "" : `${cost(total.cost / total.turns)} a turn`}
        />
        <Tile
          name="crashes survived"
          value={count(total.takeovers)}
          detail={total.takeovers === 0 ? "no process was replaced" : "another process continued"}
        />
      </dl>
      <div className="charts">
        <BarChart
          title="Turns by outcome"
          measure="turns"
          series={outcomes}
          bars={bars(({ outcomes: counts }) => counts)}
          format={count}
          empty="No turn ended in this period."
          {...axis}
        />
        <BarChart
          title="Cost"
          measure="US dollars"
          series={[{ name: "US dollars", className: "chart-model" }]}
          bars={bars((sum) => ({ "US dollars": sum.cost }))}
          format={cost}
          empty="No cost in this period. Models without a known price and the offline model cost nothing."
          {...axis}
        />
        <BarChart
          title="Duration of a turn"
          measure="duration"
          series={[
            { name: "median", className: "chart-model" },
            { name: "up to 95 %", className: "chart-model-soft" },
          ]}
          bars={bars(({ duration: { p50, p95 } }) => ({
            median: p50 ?? 0,
            "up to 95 %": Math.max(0, (p95 ?? 0) - (p50 ?? 0)),
          }))}
          format={duration}
          empty="No turn ended in this period."
          {...axis}
        />
        <BarChart
          title="Tokens"
          measure="tokens"
          series={[
            { name: "in", className: "chart-tool" },
            { name: "out", className: "chart-model" },
          ]}
          bars={bars(({ inputTokens, outputTokens }) => ({ in: inputTokens, out: outputTokens }))}
          format={count}
          empty="No tokens in this period."
          {...axis}
        />
      </div>
      <div className="columns">
        <SumTable title="Engines" rows={overview.engines} />
        <ToolTable rows={overview.tools} />
        {(overview.tenants.length > 1 || (overview.tenants[0]?.name ?? "") !== "") && (
          <SumTable
            title="Tenants"
            rows={overview.tenants}
            unnamed="default tenant"
            hrefOfRow={(name) => (server.tenants ? hrefOf(overviewRoute(period), name) : null)}
          />
        )}
      </div>
    </>
  );
}

function Tile({
  name,
  value,
  detail,
}: {
  readonly name: string;
  readonly value: string;
  readonly detail: string;
}): ReactNode {
  return (
    <div className="tile">
      <dt>{name}</dt>
      <dd>
        <b className="tnum">{value}</b>
        <small className="tnum">{detail}</small>
      </dd>
    </div>
  );
}

function completedShare({ turns, outcomes: counts }: OverviewSum): string {
  if (turns === 0) return "none ended in this period";
  return `${percent((counts["completed"] ?? 0) / turns)} completed`;
}
