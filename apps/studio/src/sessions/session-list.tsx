// The list of sessions: filters, paging, live updates, and the deletion of several. Only the visible rows are in the
// document.

import type { SessionSummary } from "../data/types.ts";
import type { ListFilter, Period } from "../route.ts";
import type { ServerView } from "everturn/client";
import type { ReactNode, RefObject } from "react";

import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useCallback, useEffect, useMemo, useRef, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { ago, cost, count, dateTime } from "../parts/format.ts";
import { exactName } from "../parts/text.ts";
import {
  changeFilter,
  listStatuses,
  navigate,
  periodNames,
  periodOf,
  periods,
  sessionRoute,
  useListFilter,
} from "../route.ts";
import { Button, IconButton, Toggle } from "../shell/button.tsx";
import { Link } from "../shell/link.tsx";
import { Confirm } from "../shell/modal.tsx";
import { tenantName } from "../shell/tenant-switch.tsx";
import { notify, notifyError } from "../shell/toasts.tsx";
import { EngineChoice } from "./engine-choice.tsx";
import { firstWaitingCall, matchesFilter, matchesText, pathOf, statusOf, titleOf } from "./session-label.ts";
import { useNow, useSessions } from "./use-sessions.ts";
import { useSessionCounts } from "./waiting-count.ts";

const rowHeight = 57;
/** The next page is read when the last loaded row is this many rows away. */
const readAhead = 15;

/** How many sessions are read for a text before the reader asks for more. */
const maxSearched = 500;

const statusNames = { running: "Running", waiting: "Waiting", failed: "Failed", parked: "Parked" } as const;

export function SessionList({ selected }: { readonly selected: string | null }): ReactNode {
  const { client, server } = useConnection();
  const [marked, setMarked] = useState<ReadonlySet<string> | null>(null);
  const [isConfirming, setConfirming] = useState(false);
  const scroller = useRef<HTMLDivElement>(null);
  const { status, engine, text, period } = useListFilter();
  const { loaded, error, loadMore, showUnseen, reload } = useSessions({ status, engine, scroller });
  const now = useNow();
  const since = period === null ? null : now - periods[period];
  const items = useMemo(
    () =>
      (loaded?.items ?? []).filter(
        (item) =>
          (status === null || matchesFilter(item, status)) &&
          (text === null || matchesText(item, text)) &&
          (since === null || item.changedAt >= since),
      ),
    [loaded, status, text, since],
  );
  const [searched, setSearched] = useState({ text, limit: maxSearched });
  if (searched.text !== text) setSearched({ text, limit: maxSearched });
  // The list is in the order of the last change: after the first session that is too old there is no other one.
  const isPast = since !== null && (loaded?.items.at(-1)?.changedAt ?? since) < since;
  const hasMore = loaded !== null && loaded.next !== null && !isPast;
  const hasSearchedEnough = text !== null && (loaded?.items.length ?? 0) >= searched.limit;

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
        <Filters status={status} />
        {marked === null ? (
          <>
            <EngineChoice engine={engine} change={(next) => changeFilter({ engine: next })} />
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
        <div className="filter-line">
          <input
            className="input grow"
            type="search"
            aria-label="Find sessions by title, id, owner or tool"
            placeholder="Title, id, owner or tool"
            value={text ?? ""}
            onChange={({ target }) => changeFilter({ text: target.value || null }, { replace: true })}
          />
          <PeriodFilter period={period} />
        </div>
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
      <div className="list-area">
        <Rows
          items={items}
          selected={selected}
          marked={marked}
          toggle={toggle}
          now={now}
          scroller={scroller}
          loadMore={hasMore && !hasSearchedEnough ? loadMore : null}
        />
        {loaded === null && error === null && <ListSkeleton />}
        {error !== null && loaded === null && (
          <p className="list-note error-text" role="alert">
            {error.message}
          </p>
        )}
        {loaded !== null && items.length === 0 && (
          <p className="list-note muted">
            {status === null && engine === null && text === null && period === null ? (
              emptyText(server)
            ) : (
              <>
                {hasMore ? "None yet. " : "None. "}
                <Button
                  look="small"
                  onClick={() => changeFilter({ status: null, engine: null, text: null, period: null })}
                >
                  Clear the filter
                </Button>
              </>
            )}
          </p>
        )}
      </div>
      {hasMore && hasSearchedEnough && (
        <Button
          look="quiet"
          onClick={() => {
            setSearched({ text, limit: (loaded?.items.length ?? 0) + maxSearched });
            loadMore();
          }}
        >
          {`${count(loaded?.items.length ?? 0)} sessions were searched. Search older ones`}
        </Button>
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

/** A button for each status, with the number of sessions that run and that wait. */
function Filters({ status }: { readonly status: ListFilter["status"] }): ReactNode {
  const counts = useSessionCounts();
  return (
    <>
      <Toggle isOn={status === null} onClick={() => changeFilter({ status: null })}>
        All
      </Toggle>
      {listStatuses.map((name) => {
        const shown = name === "running" || name === "waiting" ? counts?.[name] : undefined;
        return (
          <Toggle key={name} isOn={status === name} onClick={() => changeFilter({ status: name })}>
            {statusNames[name]}
            {shown !== undefined && shown.count > 0 && <b className={`tnum of-${name}`}> {shown.text}</b>}
          </Toggle>
        );
      })}
    </>
  );
}

/** Chooses when the sessions have changed last. */
function PeriodFilter({ period }: { readonly period: Period | null }): ReactNode {
  return (
    <select
      className="select small"
      aria-label="Changed in the last"
      title="When the sessions have changed last"
      value={period ?? ""}
      onChange={({ target }) => changeFilter({ period: periodOf(target.value) })}
    >
      <option value="">Any time</option>
      {Object.entries(periodNames).map(([name, label]) => (
        <option key={name} value={name}>
          {label}
        </option>
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
