// The audit log, for administrators: who decided, cancelled, deleted, exported and changed keys, in all tenants. The
// filter is in the address, so a page has a link.

import type { AuditRoute } from "../route.ts";
import type { Inspector } from "everturn/client";
import type { FormEvent, ReactNode } from "react";

import { useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { count, dateTime } from "../parts/format.ts";
import { saveFile } from "../parts/take-out.ts";
import { visibleName } from "../parts/text.ts";
import { auditRoute, hrefOf, navigate, sessionRoute } from "../route.ts";
import { Button } from "../shell/button.tsx";
import { Link } from "../shell/link.tsx";
import { tenantName } from "../shell/tenant-switch.tsx";
import { useTitle } from "../shell/title.ts";
import { notify } from "../shell/toasts.tsx";
import { actions, localTime, optionsOf, timeOf } from "./filter.ts";
import "../overview/overview.css";
import "./audit.css";

type Entry = Awaited<ReturnType<Inspector["audit"]>>["items"][number];

export function AuditPage({ route }: { readonly route: AuditRoute }): ReactNode {
  useTitle("Audit");
  const { inspector, server } = useConnection();
  const key = server.tenants ? `audit:${hrefOf(route)}` : null;
  const page = useQuery(key, (signal) => inspector.audit({ ...optionsOf(route), signal }));
  if (!server.tenants) {
    return (
      <div className="dashboard">
        <p className="pad">Only operators that name no tenant and have the scope admin read the audit log.</p>
      </div>
    );
  }
  const { data, error, isLoading, refresh } = page;
  return (
    <div className="dashboard">
      <div className="dashboard-bar">
        <h1>Audit</h1>
        <Button look="small" disabled={isLoading} onClick={refresh}>
          Refresh
        </Button>
        <Export route={route} />
      </div>
      {/* The fields begin with the values of the address again when it changes. */}
      <Filter key={hrefOf({ ...route, after: null })} route={route} />
      {error !== null && (
        <p className="bad" role="alert">
          The audit log could not be read: {error.message}
        </p>
      )}
      {data !== null && <Rows entries={data.items} hasMore={data.next !== null} />}
      {data !== null && (
        <nav className="audit-pages" aria-label="Pages">
          {route.after !== null && <Link to={{ ...route, after: null }}>Newest</Link>}
          {data.next !== null && <Link to={{ ...route, after: data.next }}>Older</Link>}
        </nav>
      )}
    </div>
  );
}

function Filter({ route }: { readonly route: AuditRoute }): ReactNode {
  const { inspector } = useConnection();
  const tenants = useQuery("tenants", (signal) => inspector.tenants({ limit: 200, signal }));
  return (
    <form className="audit-filter" aria-label="Filter" onSubmit={showFiltered}>
      <label>
        Actor
        <input className="input" name="actor" defaultValue={route.actor ?? ""} autoComplete="off" />
      </label>
      <label>
        Action
        <select className="select" name="action" defaultValue={route.action ?? ""}>
          <option value="">all</option>
          {actions.map((action) => (
            <option key={action}>{action}</option>
          ))}
        </select>
      </label>
      <label>
        Tenant
        <input
          className="input"
          name="of"
          defaultValue={route.of ?? ""}
          placeholder="all"
          list="audit-tenants"
          autoComplete="off"
        />
      </label>
      <datalist id="audit-tenants">
        {tenants.data?.items.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <label>
        From
        <input className="input" name="from" type="datetime-local" defaultValue={localTime(route.from)} />
      </label>
      <label>
        Until
        <input className="input" name="until" type="datetime-local" defaultValue={localTime(route.until)} />
      </label>
      <div className="audit-actions">
        <Button type="submit" look="primary">
          Filter
        </Button>
        <Button onClick={() => navigate(auditRoute())}>Clear</Button>
      </div>
    </form>
  );
}

/** Shows the newest rows of what the form says. */
function showFiltered(event: FormEvent<HTMLFormElement>): void {
  event.preventDefault();
  const fields = new FormData(event.currentTarget);
  const text = (name: string): string | null => {
    const value = fields.get(name);
    return typeof value === "string" && value.trim() !== "" ? value.trim() : null;
  };
  const [actor, action, of] = [text("actor"), text("action"), text("of")];
  const [from, until] = [timeOf(text("from") ?? ""), timeOf(text("until") ?? "")];
  navigate(auditRoute({ actor, action, of, from, until }));
}

function Rows({ entries, hasMore }: { readonly entries: readonly Entry[]; readonly hasMore: boolean }): ReactNode {
  if (entries.length === 0) {
    return (
      <p className="pad muted">
        {hasMore ? "None of the newest rows matches. Older ones may." : "The audit log has no such rows."}
      </p>
    );
  }
  return (
    <div className="audit-rows">
      <table>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Action</th>
            <th scope="col">Actor</th>
            <th scope="col">Tenant</th>
            <th scope="col">Session</th>
            <th scope="col">Target</th>
            <th scope="col">Digest</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <Row key={`${entry.at}:${entry.id}`} entry={entry} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ entry }: { readonly entry: Entry }): ReactNode {
  const { at, action, actor, tenant, sessionId, target, digest } = entry;
  return (
    <tr>
      <td className="tnum">
        <time dateTime={new Date(at).toISOString()}>{dateTime(at)}</time>
      </td>
      <td className="mono">{visibleName(action)}</td>
      <td>{actor === null ? <span className="muted">a program</span> : <bdi>{visibleName(actor)}</bdi>}</td>
      <td>
        <bdi>{tenantName(tenant)}</bdi>
      </td>
      <td>
        {sessionId !== null && (
          // The page is loaded again: it shows one tenant.
          <a href={hrefOf(sessionRoute(sessionId), tenant)} className="mono">
            <bdi>{visibleName(sessionId)}</bdi>
          </a>
        )}
      </td>
      <td className="mono">
        <bdi>{visibleName(target ?? "")}</bdi>
      </td>
      <td className="mono">{digest === null ? "" : visibleName(digest)}</td>
    </tr>
  );
}

/** Saves all rows of the filter as lines of JSON, newest first. */
function Export({ route }: { readonly route: AuditRoute }): ReactNode {
  const { inspector } = useConnection();
  const [read, setRead] = useState<number | null>(null);
  const save = async (): Promise<void> => {
    setRead(0);
    try {
      const lines: string[] = [];
      for (let after: string | null = null; ;) {
        const page: Awaited<ReturnType<Inspector["audit"]>> = await inspector.audit({
          ...optionsOf({ ...route, after }),
          limit: 200,
        });
        lines.push(...page.items.map((entry) => `${JSON.stringify(entry)}\n`));
        setRead(lines.length);
        if (page.next === null) break;
        after = page.next;
      }
      saveFile("audit.jsonl", new Blob(lines, { type: "application/jsonl" }));
      notify(`Exported ${count(lines.length)} rows`);
    } catch (error) {
      notify(`The export failed: ${error instanceof Error ? error.message : String(error)}`);
    } finally {
      setRead(null);
    }
  };
  return (
    <Button
      look="small"
      title="All rows of this filter, as lines of JSON"
      disabled={read !== null}
      onClick={() => void save()}
    >
      {read === null ? "Export" : `Exporting… ${count(read)}`}
    </Button>
  );
}
