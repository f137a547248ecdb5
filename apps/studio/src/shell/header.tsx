// The header: views, search, the state of the host, theme, and the dialogs that every view has (command palette,
// keyboard help).

import type { Route } from "../route.ts";
import type { WorkerView } from "everturn/advanced";
import type { ReactNode } from "react";

import { useCallback, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { useOnline } from "../data/online.ts";
import { useQuery } from "../data/query.ts";
import { auditRoute, overviewRoute, useRoute, waitingRoute } from "../route.ts";
import { useSessionCounts } from "../sessions/waiting-count.ts";
import { IconButton } from "./button.tsx";
import { KeyboardHelp } from "./keyboard-help.tsx";
import { useShortcuts, withModifier } from "./keyboard.ts";
import { Link } from "./link.tsx";
import { Logo } from "./logo.tsx";
import { Palette, usePaletteShortcut } from "./palette.tsx";
import { TenantSwitch } from "./tenant-switch.tsx";
import { nextTheme, setTheme, useTheme } from "./theme.ts";

const themeSigns = { system: "◐", light: "☀", dark: "☾" };

export function Header(): ReactNode {
  const { server, logOut } = useConnection();
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  const [isHelpOpen, setHelpOpen] = useState(false);
  const theme = useTheme();
  const openPalette = useCallback(() => setPaletteOpen(true), []);
  usePaletteShortcut(openPalette);
  useShortcuts({ "?": () => setHelpOpen(true), "/": openPalette });
  return (
    <header className="header">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <Link to={{ view: "sessions" }} className="logo" aria-label="Everturn, all sessions">
        <Logo />
        <span>Everturn</span>
      </Link>
      <Views />
      <div className="spacer" />
      <button type="button" className="search" onClick={openPalette}>
        <span className="search-text">
          {server.search ? "Search messages, tools, ids" : "Search sessions, actions"}
        </span>
        <span className="kbd">{withModifier("K")}</span>
      </button>
      <TenantSwitch />
      <HostState />
      <IconButton
        look="theme"
        title={`Theme: ${theme}`}
        label={`Theme: ${theme}. Change it.`}
        onClick={() => setTheme(nextTheme(theme))}
      >
        {themeSigns[theme]}
      </IconButton>
      <IconButton
        look="only-wide"
        title="Keyboard shortcuts"
        label="Keyboard shortcuts"
        onClick={() => setHelpOpen(true)}
      >
        ?
      </IconButton>
      {isPaletteOpen && (
        <Palette close={() => setPaletteOpen(false)} openHelp={() => setHelpOpen(true)} logOut={logOut} />
      )}
      {isHelpOpen && <KeyboardHelp close={() => setHelpOpen(false)} />}
    </header>
  );
}

function Views(): ReactNode {
  const { view } = useRoute();
  const { server } = useConnection();
  const waiting = useSessionCounts()?.waiting ?? null;
  const current = (...views: readonly Route["view"][]) => (views.includes(view) ? "page" : undefined);
  return (
    <nav className="views" aria-label="Views">
      <Link to={{ view: "sessions" }} aria-current={current("sessions", "session", "compare")}>
        Sessions
      </Link>
      <Link to={waitingRoute()} aria-current={current("waiting")}>
        Waiting {waiting !== null && waiting.count > 0 && <b className="tnum">{waiting.text}</b>}
      </Link>
      <Link to={overviewRoute()} aria-current={current("overview")}>
        Overview
      </Link>
      <Link to={{ view: "playground", from: null }} aria-current={current("playground")}>
        Playground
      </Link>
      {server.tenants && (
        <Link to={auditRoute()} aria-current={current("audit")}>
          Audit
        </Link>
      )}
    </nav>
  );
}

/** The kind of storage and the number of processes that drive turns now, or that the server does not answer. */
function HostState(): ReactNode {
  const { server, inspector } = useConnection();
  const workers = useQuery("workers", async (signal) => (server.operator ? inspector.workers({ signal }) : []), {
    live: true,
  });
  const storage = server.storage ?? (server.durability === "durable" ? "durable" : "in memory");
  const text = workers.data === null || !server.operator ? storage : `${storage} · ${workersText(workers.data)}`;
  const isLost = !useOnline();
  return (
    <span className="host" title={`Everturn ${server.version}`} role="status">
      <span className={isLost ? "dot lost" : "dot"} aria-hidden="true" />
      {isLost ? "reconnecting" : text}
    </span>
  );
}

/** The number of processes that hold the lease of an open turn, or that this server is an idle worker. */
function workersText(workers: readonly WorkerView[]): string {
  const count = workers.filter(({ turns }) => turns > 0).length;
  if (count === 0) return workers.length > 0 ? "1 idle worker" : "no active worker";
  return count === 1 ? "1 active worker" : `${count} active workers`;
}
