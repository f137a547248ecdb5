// Whether the server answers. Every request of the page passes `trackedFetch`, so the page knows at once when a
// connection is refused, while the client still repeats the request.

import { Store, useStore } from "./store.ts";

const online = new Store(true);

/** `fetch` that records whether a response arrived. An aborted request says nothing about the server. */
export async function trackedFetch(url: string, init: RequestInit): Promise<Response> {
  try {
    const response = await fetch(url, init);
    online.set(true);
    return response;
  } catch (error) {
    if (init.signal?.aborted !== true) online.set(false);
    throw error;
  }
}

/** Whether the last request got a response. */
export function useOnline(): boolean {
  return useStore(online);
}
