// The connection to the server: its clients, the token, and what the server says about itself. Every view takes them
// from `useConnection`.

import type { EverturnClient, Inspector, ServerView } from "everturn/client";
import type { ReactNode } from "react";

import { ClientError, createClient, createInspector } from "everturn/client";
import { createContext, useCallback, useContext, useEffect, useMemo, useState } from "react";

import { apiUrl, shownTenant, takeTenant } from "../route.ts";
import { forgetTexts } from "../shell/draft.ts";
import { forgetLink, logInByLink } from "./link-login.ts";
import { trackedFetch } from "./online.ts";
import { startPulse } from "./pulse.ts";
import { tenantHeaders } from "./tenant-headers.ts";

/** What views need to talk to the server. */
export type Connection = {
  readonly client: EverturnClient;
  readonly inspector: Inspector;
  readonly server: ServerView;
  /** Forgets the token and shows the login. */
  readonly logOut: () => void;
};

const ConnectionContext = createContext<Connection | null>(null);

/** The connection. Only inside {@link ConnectionProvider}. */
export function useConnection(): Connection {
  const connection = useContext(ConnectionContext);
  if (connection === null) throw new Error("useConnection is used outside of ConnectionProvider");
  return connection;
}

/** The state of the connection before it is ready. */
export type ConnectionState =
  | { readonly type: "connecting" }
  /** `rejected`: what the server has refused before, the token or the code of the link. */
  | { readonly type: "login"; readonly rejected: "token" | "link" | null }
  | { readonly type: "failed"; readonly message: string };

type Clients = Pick<Connection, "client" | "inspector">;

/** The clients of a token, which act in a tenant; `null`: in that of the key. */
function clientsOf(token: string | null, tenant: string | null): Clients {
  const options = {
    url: apiUrl(),
    fetch: trackedFetch,
    ...(token === null ? {} : { token }),
    headers: tenantHeaders(tenant),
  };
  return { client: createClient(options), inspector: createInspector(options) };
}

/** The token is kept for the tab only: session storage is not shared with other tabs, and is removed with the tab. */
const tokenKey = "everturn-token";

/**
 * Asks the server who it is, and renders `children` once it has answered. Before that, `render` shows the state;
 * `logIn` tries a token, and `retry` tries again.
 */
export function ConnectionProvider({
  children,
  render,
}: {
  readonly children: ReactNode;
  readonly render: (
    state: ConnectionState,
    actions: { readonly logIn: (token: string) => void; readonly retry: () => void },
  ) => ReactNode;
}): ReactNode {
  const [token, setToken] = useState<string | null>(() => sessionStorage.getItem(tokenKey));
  const [state, setState] = useState<ConnectionState>({ type: "connecting" });
  const [server, setServer] = useState<ServerView | null>(null);
  const [attempt, setAttempt] = useState(0);

  useEffect(() => {
    const aborting = new AbortController();
    setState({ type: "connecting" });
    const ask = async (): Promise<void> => {
      let isLinkRejected = false;
      try {
        const link = await logInByLink();
        if (aborting.signal.aborted) return;
        isLinkRejected = link === "rejected";
        // The effect runs again with the token of the link.
        if (link !== null && link !== "rejected" && link.token !== token) return setToken(link.token);
        const view = await clientsOf(token, null).inspector.server({ signal: aborting.signal });
        if (token !== null) sessionStorage.setItem(tokenKey, token);
        // The link of an operator shows the tenant of the key to others.
        if (!view.tenants) takeTenant("");
        setServer({ ...view, tenant: shownTenant() ?? view.tenant });
      } catch (error) {
        if (aborting.signal.aborted) return;
        setServer(null);
        setState(stateOfError(error, token !== null ? "token" : isLinkRejected ? "link" : null));
      }
    };
    void ask();
    return () => aborting.abort();
  }, [token, attempt]);

  const logOut = useCallback(() => {
    forgetLink();
    forgetTexts();
    sessionStorage.removeItem(tokenKey);
    setServer(null);
    setToken(null);
  }, []);
  const connection = useMemo(
    () => (server === null ? null : { ...clientsOf(token, shownTenant()), server, logOut }),
    [token, server, logOut],
  );
  useEffect(() => (connection === null ? undefined : startPulse(connection.client)), [connection]);
  if (connection === null) {
    return render(state, { logIn: setToken, retry: () => setAttempt((count) => count + 1) });
  }
  return <ConnectionContext value={connection}>{children}</ConnectionContext>;
}

function stateOfError(error: unknown, rejected: "token" | "link" | null): ConnectionState {
  if (error instanceof ClientError && error.status === 401) return { type: "login", rejected };
  return { type: "failed", message: error instanceof Error ? error.message : String(error) };
}
