// The list of sessions: filters, paging, live updates, and the deletion of several. Only the visible rows are in the
// document.

import type { SessionSummary } from "../data/types.ts";
import type { LoadedSessions } from "./merge-sessions.ts";
import type { ServerView } from "everturn/client";
import type { ReactNode, RefObject } from "react";

import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useCallback, useEffect, useMemo, useRef, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { useEngines } from "../data/engines.ts";
import { useQuery } from "../data/query.ts";
import { ago, cost, dateTime } from "../parts/format.ts";
import { exactName } from "../parts/text.ts";
import { navigate, sessionRoute } from "../route.ts";
import { Button, IconButton, Toggle } from "../shell/button.tsx";
import { Link } from "../shell/link.tsx";
import { Confirm } from "../shell/modal.tsx";
import { tenantName } from "../shell/tenant-switch.tsx";
import { notify, notifyError } from "../shell/toasts.tsx";
import { appendPage, mergeFirstPage } from "./merge-sessions.ts";
import { firstWaitingCall, matchesFilter, pathOf, statusOf, titleOf } from "./session-label.ts";
import { useSessionCounts } from "./waiting-count.ts";

const pageSize = 50;
const rowHeight = 57;
/** The next page is read when the last loaded row is this many rows away. */
const readAhead = 15;

const filters = [
  { name: "all", label: "All" },
  { name: "running", label: "Running" },
  { name: "waiting", label: "Waiting" },
  { name: "failed", label: "Failed" },
  { name: "parked", label: "Parked" },
] as const;
type SessionFilter = (typeof filters)[number]["name"];

export function SessionList({ selected }: { readonly selected: string | null }): ReactNode {
  const { client, server } = useConnection();
  const [filter, setFilter] = useState<SessionFilter>("all");
  const [engine, setEngine] = useState("");
  const [marked, setMarked] = useState<ReadonlySet<string> | null>(null);
  const [isConfirming, setConfirming] = useState(false);
  const scroller = useRef<HTMLDivElement>(null);
  const { loaded, error, loadMore, showUnseen, reload } = useSessions({ filter, engine, scroller });
  const items = useMemo(
    () =>
      filter === "all" ? (loaded?.items ?? []) : (loaded?.items ?? []).filter((item) => matchesFilter(item, filter)),
    [loaded, filter],
  );
  const now = useNow();

  const remove = async (ids: readonly string[]): Promise<void> => {
    let failed = 0;
    for (const id of ids) {
      try {
        await client.delete(id);
      } catch (error) {
        failed += 1;
        notifyError(error);
      }
    }
    if (failed < ids.length) notify(`${sessionCount(ids.length - failed)} deleted`);
    setMarked(null);
    if (selected !== null && ids.includes(selected)) navigate({ view: "sessions" });
    reload();
  };
  const toggle = useCallback((id: string) => {
    setMarked((previous) => {
      const next = new Set(previous);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  }, []);

  return (
    <>
      <div className="filters" role="group" aria-label="Filter">
        <Filters filter={filter} change={setFilter} />
        {marked === null ? (
          <>
            <EngineFilter engine={engine} change={setEngine} />
            <span className="spacer" />
            <IconButton
              look="framed"
              label="Select sessions"
              title="Select several"
              onClick={() => setMarked(new Set())}
            >
              ☑
            </IconButton>
            <Link
              to={{ view: "sessions" }}
              className="icon-btn framed"
              aria-label="New session"
              title="New session (n)"
            >
              +
            </Link>
          </>
        ) : (
          <MarkedActions marked={marked} items={items} change={setMarked} confirmDeletion={() => setConfirming(true)} />
        )}
      </div>
      {server.tenant !== "" && (
        <p className="list-tenant muted">
          Tenant <b>{tenantName(server.tenant)}</b>
        </p>
      )}
      {loaded !== null && loaded.unseen.length > 0 && (
        <button type="button" className="unseen" onClick={showUnseen}>
          ↑ {sessionCount(loaded.unseen.length)} changed
        </button>
      )}
      <Rows
        items={items}
        selected={selected}
        marked={marked}
        toggle={toggle}
        now={now}
        scroller={scroller}
        loadMore={loaded !== null && loaded.next !== null ? loadMore : null}
      />
      {loaded === null && error === null && <ListSkeleton />}
      {error !== null && loaded === null && (
        <p className="list-note error-text" role="alert">
          {error.message}
        </p>
      )}
      {loaded !== null && items.length === 0 && (
        <p className="list-note muted">{filter === "all" && engine === "" ? emptyText(server) : "None"}</p>
      )}
      {isConfirming && marked !== null && (
        <Confirm
          title={`Delete ${sessionCount(marked.size)}?`}
          text="Their messages, turns and journals are removed. This cannot be undone. Open turns are cancelled."
          action={`Delete ${sessionCount(marked.size)}`}
          run={() => void remove([...marked])}
          close={() => setConfirming(false)}
        />
      )}
    </>
  );
}

/** What an empty list says. A caller that reaches tenants must not read that there are no sessions at all. */
function emptyText({ tenant, tenants }: ServerView): string {
  return tenants ? `No sessions in ${tenant === "" ? "" : "tenant "}${tenantName(tenant)}` : "No sessions yet";
}

/** A button for each filter, with the number of sessions that run and that wait. */
function Filters({
  filter,
  change,
}: {
  readonly filter: SessionFilter;
  readonly change: (filter: SessionFilter) => void;
}): ReactNode {
  const counts = useSessionCounts();
  return filters.map(({ name, label }) => {
    const count = name === "running" || name === "waiting" ? counts?.[name] : undefined;
    return (
      <Toggle key={name} isOn={filter === name} onClick={() => change(name)}>
        {label}
        {count !== undefined && count.count > 0 && <b className={`tnum of-${name}`}> {count.text}</b>}
      </Toggle>
    );
  });
}

/** Chooses an engine, if there are several. */
function EngineFilter({
  engine,
  change,
}: {
  readonly engine: string;
  readonly change: (engine: string) => void;
}): ReactNode {
  const engines = useEngines();
  if (engines.data === null || engines.data.length < 2) return null;
  return (
    <select
      className="select small"
      aria-label="Engine"
      value={engine}
      onChange={(event) => change(event.target.value)}
    >
      <option value="">All engines</option>
      {engines.data.map(({ name }) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}

/** What can be done with the marked sessions. `change(null)` ends the marking. */
function MarkedActions({
  marked,
  items,
  change,
  confirmDeletion,
}: {
  readonly marked: ReadonlySet<string>;
  readonly items: readonly SessionSummary[];
  readonly change: (marked: ReadonlySet<string> | null) => void;
  readonly confirmDeletion: () => void;
}): ReactNode {
  const compare = (): void => {
    const [left, right] = marked;
    if (left === undefined || right === undefined) return;
    change(null);
    navigate({ view: "compare", left, right });
  };
  return (
    <>
      <span className="tnum">{marked.size} selected</span>
      <Button look="quiet small" onClick={() => change(new Set(items.map(({ id }) => id)))}>
        All loaded
      </Button>
      <span className="spacer" />
      <Button look="small" disabled={marked.size !== 2} title="Compare two sessions side by side" onClick={compare}>
        Compare
      </Button>
      <Button look="danger small" disabled={marked.size === 0} onClick={confirmDeletion}>
        Delete…
      </Button>
      <Button look="quiet small" onClick={() => change(null)}>
        Cancel
      </Button>
    </>
  );
}

function sessionCount(count: number): string {
  return count === 1 ? "1 session" : `${count} sessions`;
}

function rowSize(): number {
  return rowHeight;
}

function Rows({
  items,
  selected,
  marked,
  toggle,
  now,
  scroller,
  loadMore,
}: {
  readonly items: readonly SessionSummary[];
  readonly selected: string | null;
  readonly marked: ReadonlySet<string> | null;
  readonly toggle: (id: string) => void;
  readonly now: number;
  readonly scroller: RefObject<HTMLDivElement | null>;
  readonly loadMore: (() => void) | null;
}): ReactNode {
  // A stable function: the list computes the places of all rows again when it changes.
  const getItemKey = useCallback((index: number) => items[index]?.id ?? index, [items]);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: rowSize,
    getItemKey,
    overscan: 8,
  });
  const visible = rows.getVirtualItems();
  const last = visible.at(-1)?.index ?? -1;
  useEffect(() => {
    if (loadMore !== null && last >= items.length - readAhead) loadMore();
  }, [loadMore, last, items.length]);
  return (
    <div className="list-scroll" ref={scroller}>
      <ul className="list" style={{ height: rows.getTotalSize() }}>
        {visible.map(({ key, index, start }) => {
          const item = items[index];
          if (item === undefined) return null;
          return (
            <li
              key={key}
              className="list-row"
              style={{ transform: `translateY(${start}px)` }}
              aria-setsize={items.length}
              aria-posinset={index + 1}
            >
              <SessionRow
                item={item}
                isSelected={item.id === selected}
                isMarked={marked === null ? null : marked.has(item.id)}
                toggle={toggle}
                age={ago(item.changedAt, now)}
              />
            </li>
          );
        })}
      </ul>
    </div>
  );
}

const SessionRow = memo(function SessionRow({
  item,
  isSelected,
  isMarked,
  toggle,
  age,
}: {
  readonly item: SessionSummary;
  readonly isSelected: boolean;
  /** `null`: sessions are not being selected for deletion. */
  readonly isMarked: boolean | null;
  readonly toggle: (id: string) => void;
  readonly age: string;
}): ReactNode {
  const status = statusOf(item);
  const title = titleOf(item);
  const call = status.kind === "wait" ? firstWaitingCall(item) : null;
  return (
    <div className="session-row">
      {isMarked !== null && (
        <input type="checkbox" checked={isMarked} aria-label={`Select ${title}`} onChange={() => toggle(item.id)} />
      )}
      <Link
        to={sessionRoute(item.id)}
        className="session-link"
        aria-current={isSelected ? "page" : undefined}
        onClick={(event) => {
          if (isMarked === null) return;
          event.preventDefault();
          toggle(item.id);
        }}
      >
        <span className="row">
          <span className="title" dir="auto">
            {title}
          </span>
          <span className="sub tnum" title={dateTime(item.changedAt)}>
            {age}
          </span>
        </span>
        <span className="sub">
          <span className={`status ${status.kind}`}>{status.text}</span>
          {call !== null && (
            <span className="waits-for" title={pathOf(call.shown)}>
              {exactName(call.shown.name)}
            </span>
          )}
          {item.engine !== null && <span>{item.engine}</span>}
          <span className="tnum">{cost(item.usage.totalCost)}</span>
        </span>
      </Link>
    </div>
  );
});

function ListSkeleton(): ReactNode {
  return (
    <div className="skeleton" role="status" aria-label="Loading sessions">
      {Array.from({ length: 8 }, (_, index) => (
        <i key={index} />
      ))}
    </div>
  );
}

/** The loaded sessions of a filter: the first page is read again when sessions change, further pages on demand. */
function useSessions({
  filter,
  engine,
  scroller,
}: {
  readonly filter: SessionFilter;
  readonly engine: string;
  readonly scroller: RefObject<HTMLDivElement | null>;
}): {
  readonly loaded: LoadedSessions | null;
  readonly error: Error | null;
  readonly loadMore: () => void;
  readonly showUnseen: () => void;
  readonly reload: () => void;
} {
  const { client } = useConnection();
  const [loaded, setLoaded] = useState<LoadedSessions | null>(null);
  const isLoadingMore = useRef(false);
  const options = useMemo(
    () => ({ limit: pageSize, ...(filter === "all" ? {} : { status: filter }), ...(engine === "" ? {} : { engine }) }),
    [filter, engine],
  );
  const first = useQuery(`sessions:${filter}:${engine}`, async (signal) => client.list({ ...options, signal }), {
    live: true,
  });
  // The list of another filter is not merged into this one.
  const [source, setSource] = useState(options);
  if (source !== options) {
    setSource(options);
    setLoaded(null);
  }
  const isScrolled = (): boolean => (scroller.current?.scrollTop ?? 0) > rowHeight / 2;
  const page = first.data;
  useEffect(() => {
    if (page !== null) setLoaded((previous) => mergeFirstPage(previous, page, { keepsOrder: isScrolled() }));
  }, [page, source]);
  const next = loaded?.next ?? null;
  const loadMore = useCallback(() => {
    if (next === null || isLoadingMore.current) return;
    isLoadingMore.current = true;
    client
      .list({ ...options, after: next })
      .then((more) =>
        setLoaded((previous) => (previous === null || previous.next !== next ? previous : appendPage(previous, more))),
      )
      .catch(notifyError)
      .finally(() => {
        isLoadingMore.current = false;
      });
  }, [client, options, next]);
  const showUnseen = useCallback(() => {
    scroller.current?.scrollTo({ top: 0 });
    if (page !== null) setLoaded((previous) => mergeFirstPage(previous, page, { keepsOrder: false }));
  }, [page, scroller]);
  return { loaded, error: first.error, loadMore, showUnseen, reload: first.refresh };
}

/** The present time, read again every 15 seconds. */
function useNow(): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 15_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
