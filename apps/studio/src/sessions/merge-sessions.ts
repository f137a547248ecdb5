// The loaded part of the list of sessions, merged with a newer first page. Pure functions; session-list.tsx calls them.

import type { SessionSummary } from "../data/types.ts";

/** The loaded sessions, most recently changed first. */
export type LoadedSessions = {
  readonly items: readonly SessionSummary[];
  /** The cursor of the page after the loaded ones; `null`: all are loaded. */
  readonly next: string | null;
  /** Sessions of the newest first page that are not in `items`, because the reader has scrolled. */
  readonly unseen: readonly SessionSummary[];
};

export type SessionPage = { readonly items: readonly SessionSummary[]; readonly next: string | null };

/**
 * Merges a newer first page. `keepsOrder`: the reader has scrolled, so rows keep their places and new sessions wait in
 * `unseen`; otherwise the list is in the order of the last change. A session of the page's range that the page does not
 * have was deleted, or has left the filter.
 */
export function mergeFirstPage(
  loaded: LoadedSessions | null,
  page: SessionPage,
  { keepsOrder }: { readonly keepsOrder: boolean },
): LoadedSessions {
  if (loaded === null) return { ...page, unseen: [] };
  const newest = new Map(page.items.map((item) => [item.id, item]));
  const oldestOfPage = page.items.at(-1);
  const isRemoved = ({ id, changedAt }: SessionSummary): boolean =>
    !newest.has(id) && (page.next === null || (oldestOfPage !== undefined && changedAt > oldestOfPage.changedAt));
  const remaining = loaded.items.filter((item) => !isRemoved(item));
  const known = new Set(remaining.map(({ id }) => id));
  if (keepsOrder) {
    const items = remaining.map((item) => newerOf(item, newest.get(item.id)));
    return unlessSame(loaded, { items, next: loaded.next, unseen: page.items.filter(({ id }) => !known.has(id)) });
  }
  const older = remaining.filter(({ id }) => !newest.has(id));
  const previous = new Map(loaded.items.map((item) => [item.id, item]));
  const items = page.items.map((item) => newerOf(previous.get(item.id) ?? item, item));
  const next = older.length === 0 ? page.next : loaded.next;
  return unlessSame(loaded, { items: [...items, ...older], next, unseen: [] });
}

/** The old object if nothing has changed, so that a poll without news renders nothing. */
function unlessSame(loaded: LoadedSessions, merged: LoadedSessions): LoadedSessions {
  const isSame =
    merged.next === loaded.next &&
    merged.items.length === loaded.items.length &&
    merged.unseen.length === loaded.unseen.length &&
    merged.items.every((item, index) => item === loaded.items[index]);
  return isSame ? loaded : merged;
}

/** Adds the next page at the end. Sessions that have changed since, and are loaded already, are not repeated. */
export function appendPage(loaded: LoadedSessions, page: SessionPage): LoadedSessions {
  const known = new Set(loaded.items.map(({ id }) => id));
  return { ...loaded, items: [...loaded.items, ...page.items.filter(({ id }) => !known.has(id))], next: page.next };
}

/** The object of an unchanged session stays the same, so that its row is not rendered again. */
function newerOf(item: SessionSummary, newer: SessionSummary | undefined): SessionSummary {
  if (newer === undefined) return item;
  const isSame =
    newer.version === item.version &&
    newer.turnStatus === item.turnStatus &&
    newer.status === item.status &&
    newer.changedAt === item.changedAt &&
    newer.turnId === item.turnId;
  return isSame ? item : newer;
}
