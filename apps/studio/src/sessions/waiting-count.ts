// The numbers of sessions that run and that wait for a person, for the header and the filters.

import { useConnection } from "../data/connection.tsx";
import { useQuery } from "../data/query.ts";
import { matchesFilter } from "./session-label.ts";

/** More are shown as `100+`. */
const maxCounted = 100;

type Count = { readonly count: number; readonly text: string };

/** The counts; `null` before the first answer. */
export function useSessionCounts(): { readonly running: Count; readonly waiting: Count } | null {
  const { client } = useConnection();
  const { data } = useQuery(
    "session-counts",
    async (signal) => {
      const read = async (status: "running" | "waiting"): Promise<Count> => {
        const filter = { status };
        const page = await client.list({ limit: maxCounted, signal, ...filter });
        const count = page.items.filter((item) => matchesFilter(item, status)).length;
        return { count, text: `${count}${page.next !== null && count >= maxCounted ? "+" : ""}` };
      };
      return { running: await read("running"), waiting: await read("waiting") };
    },
    { live: true },
  );
  return data;
}
