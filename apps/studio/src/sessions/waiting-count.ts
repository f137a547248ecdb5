// The numbers of sessions that run and that wait for a person, for the header and the filters.

import type { SessionPage } from "./merge-sessions.ts";
import type { Queue } from "./queue.ts";

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { queueOf } from "./queue.ts";
import { matchesFilter } from "./session-label.ts";

/** More are shown as `100+`. */
const maxCounted = 100;

type Count = { readonly count: number; readonly text: string };

/** The counts, and the turns that wait for a worker or a limit; `null` before the first answer. */
export function useSessionCounts(): { readonly running: Count; readonly waiting: Count; readonly queue: Queue } | null {
  const { client } = useConnection();
  const { data } = useQuery(
    "session-counts",
    async (signal) => {
      const read = async (status: "running" | "waiting"): Promise<Count & Pick<SessionPage, "items">> => {
        const filter = { status };
        const page: SessionPage = await client.list({ limit: maxCounted, signal, ...filter });
        const items = page.items.filter((item) => matchesFilter(item, status));
        const count = items.length;
        return { items, count, text: `${count}${page.next !== null && count >= maxCounted ? "+" : ""}` };
      };
      const running = await read("running");
      return { running, waiting: await read("waiting"), queue: queueOf(running.items) };
    },
    { live: true },
  );
  return data;
}
