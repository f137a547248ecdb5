// What is shown when no session is open: a new session, and the scenarios of the offline model, which teach what the
// studio shows.

import type { ReactNode } from "react";

import { useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { navigate, sessionRoute } from "../route.ts";
import { useTitle } from "../shell/title.ts";
import { notifyError } from "../shell/toasts.tsx";
import { NewSession } from "./new-session.tsx";

export function NoSession(): ReactNode {
  useTitle(null);
  return (
    <div className="welcome">
      <div className="welcome-body">
        <h1>Start a session</h1>
        <p className="muted welcome-text">
          Everturn runs LLM turns that survive crashes: every reply of the model and every result of a tool is stored
          before the turn goes on, so after a crash another process continues it. This page shows what the turns of this
          server do, step by step, and lets you approve, steer, compare and repeat them.
        </p>
        <NewSession />
        <Scenarios />
      </div>
    </div>
  );
}

/** The prepared conversations of the server, one click each. */
function Scenarios(): ReactNode {
  const { server, inspector } = useConnection();
  const [started, setStarted] = useState<string | null>(null);
  if (server.scenarios.length === 0) return null;
  const start = async (name: string): Promise<void> => {
    setStarted(name);
    try {
      const { sessionId } = await inspector.startScenario(name);
      navigate(sessionRoute(sessionId));
    } catch (error) {
      notifyError(error);
    } finally {
      setStarted(null);
    }
  };
  return (
    <section aria-label="Scenarios">
      <h2>Or watch one</h2>
      <p className="muted">Each runs on this server with the offline model. No key is needed and nothing is paid.</p>
      <div className="scenarios">
        {server.scenarios.map(({ name, title, description }) => (
          <button
            key={name}
            type="button"
            className="scenario"
            disabled={started !== null}
            aria-busy={started === name}
            onClick={() => void start(name)}
          >
            <b>{title}</b>
            <span className="muted">{description}</span>
          </button>
        ))}
      </div>
    </section>
  );
}
