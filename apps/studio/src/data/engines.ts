// The engines of the server.

import type { Query } from "./query.ts";
import type { EngineView } from "everturn/advanced";

import { useConnection } from "./connection.tsx";
import { useQuery } from "./query.ts";

export function useEngines(): Query<readonly EngineView[]> {
  const { inspector } = useConnection();
  return useQuery("engines", async (signal) => inspector.engines({ signal }));
}
