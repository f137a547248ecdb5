// What is shown before the connection is ready: connecting, the login form, or the failure with a retry.

import type { ConnectionState } from "../data/connection.tsx";
import type { FormEvent, ReactNode } from "react";

import { useEffect, useId, useState } from "react";

import { Button } from "./button.tsx";
import { Logo } from "./logo.tsx";

/** A failed connection is tried again by itself after this many milliseconds. */
const retryMs = 3000;

export function ConnectionGate({
  state,
  logIn,
  retry,
}: {
  readonly state: ConnectionState;
  readonly logIn: (token: string) => void;
  readonly retry: () => void;
}): ReactNode {
  const isFailed = state.type === "failed";
  useEffect(() => {
    if (!isFailed) return undefined;
    const timer = setInterval(retry, retryMs);
    return () => clearInterval(timer);
  }, [isFailed, retry]);
  return (
    <main className="gate">
      <div className="gate-card">
        <h1 className="logo">
          <Logo />
          Everturn
        </h1>
        {state.type === "login" ? (
          <Login rejected={state.rejected} logIn={logIn} />
        ) : state.type === "failed" ? (
          <div className="gate-body" role="alert">
            <p>The server does not answer.</p>
            <p className="muted mono">{state.message}</p>
            <div className="actions">
              <Button look="primary" onClick={retry}>
                Try again
              </Button>
              <span className="muted">Tried every 3 s</span>
            </div>
          </div>
        ) : (
          <p className="muted" role="status">
            Connecting…
          </p>
        )}
      </div>
    </main>
  );
}

const hints = {
  none: "Open the link that the server printed when it started; the command everturn studio prints another. Or enter the token that the server was started with (EVERTURN_TOKEN). It is kept in this tab only.",
  token: "The server rejects this token.",
  link: "This link was used before, or has expired. The command everturn studio prints another.",
} as const;

function Login({
  rejected,
  logIn,
}: {
  readonly rejected: "token" | "link" | null;
  readonly logIn: (token: string) => void;
}): ReactNode {
  const [token, setToken] = useState("");
  const id = useId();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (token.trim() !== "") logIn(token.trim());
  };
  return (
    <form className="gate-body" onSubmit={submit}>
      <label htmlFor={id}>Access token</label>
      <input
        id={id}
        className="input mono"
        type="password"
        autoComplete="current-password"
        autoFocus
        value={token}
        aria-invalid={rejected === "token"}
        aria-describedby={`${id}-hint`}
        onChange={(event) => setToken(event.target.value)}
      />
      <p
        id={`${id}-hint`}
        className={rejected === null ? "muted" : "error-text"}
        role={rejected === null ? undefined : "alert"}
      >
        {hints[rejected ?? "none"]}
      </p>
      <div className="actions">
        <Button type="submit" look="primary" disabled={token.trim() === ""}>
          Log in
        </Button>
      </div>
    </form>
  );
}
