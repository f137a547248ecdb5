// The dialect of AG-UI, as an option of the handler.

import type { Dialect } from "../../http/internal.ts";

import { agUiRoutes } from "./routes.ts";

/**
 * AG-UI, version 1.0: a {@link Dialect} that serves `HttpAgent` of `@ag-ui/client` at `/ag-ui`. The thread is the
 * session.
 */
export function agUi(): Dialect {
  return { name: "ag-ui", routes: ({ policy }) => agUiRoutes(policy) };
}
