// Whether the server answers. Every request of the page passes `trackedFetch`, so the page knows at once when a
// connection is refused, while the client still repeats the request.

import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
let isOnline = true;

/** `fetch` that records whether a response arrived. An aborted request says nothing about the server. */
export async function trackedFetch(url: string, init: RequestInit): Promise<Response> {
  try {
    const response = await fetch(url, init);
    setOnline(true);
    return response;
  } catch (error) {
    if (init.signal?.aborted !== true) setOnline(false);
    throw error;
  }
}

/** Whether the last request got a response. */
export function useOnline(): boolean {
  return useSyncExternalStore(
    (changed) => {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
    () => isOnline,
  );
}

function setOnline(next: boolean): void {
  if (next === isOnline) return;
  isOnline = next;
  for (const changed of listeners) changed();
}
