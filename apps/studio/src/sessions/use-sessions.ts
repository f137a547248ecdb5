// Reads the sessions of a filter, page by page, for the list of sessions and the inbox.

import type { LoadedSessions } from "./merge-sessions.ts";
import type { EverturnClient } from "everturn/client";
import type { RefObject } from "react";

import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { notifyError } from "../shell/toasts.tsx";
import { appendPage, mergeFirstPage } from "./merge-sessions.ts";

const pageSize = 50;
/** A list that is scrolled by less shows its newest session. */
const scrolledPx = 28;

type ListedStatus = NonNullable<NonNullable<Parameters<EverturnClient["list"]>[0]>["status"]>;

/** The sessions that are loaded: the first page is read again when sessions change, further pages on demand. */
export function useSessions({
  status,
  engine,
  scroller,
}: {
  /** `null`: all. */
  readonly status: ListedStatus | null;
  readonly engine: string | null;
  readonly scroller: RefObject<HTMLElement | null>;
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
    () => ({ limit: pageSize, ...(status === null ? {} : { status }), ...(engine === null ? {} : { engine }) }),
    [status, engine],
  );
  const key = `sessions:${JSON.stringify([status, engine])}`;
  const first = useQuery(key, async (signal) => client.list({ ...options, signal }), { live: true });
  // The list of another filter is not merged into this one.
  const [source, setSource] = useState(options);
  if (source !== options) {
    setSource(options);
    setLoaded(null);
  }
  const isScrolled = (): boolean => (scroller.current?.scrollTop ?? 0) > scrolledPx;
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
export function useNow(): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 15_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
