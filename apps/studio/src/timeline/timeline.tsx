// The timeline of a turn of a session, with the switcher between turns.

import type { SessionRoute } from "../route.ts";
import type { ShownTurn, Turns } from "./turns.ts";
import type { ReactNode } from "react";

import { Menu } from "@base-ui/react/menu";
import { Timeline } from "everturn/react";
import { useCallback } from "react";

import { useConnection } from "../data/connection.tsx";
import { ago } from "../parts/format.ts";
import { navigate, sessionRoute, useRoute } from "../route.ts";
import { selectEffect } from "../selection.ts";
import { useTurnData } from "./turn-data.ts";
import { isInnerTurn, outermostTurn, shownTurn, turnName, turnStatus, useTurns } from "./turns.ts";
import { useChildren } from "./use-children.ts";
import { useScrubKeys } from "./use-scrub-keys.ts";
import "./timeline.css";

/**
 * The timeline of a turn with its child agents; `turnId: null`: of the newest turn. For a child turn it is that of the
 * turn in which it ran.
 */
export function SessionTimeline({
  sessionId,
  turnId,
}: {
  readonly sessionId: string;
  readonly turnId: string | null;
}): ReactNode {
  const { inspector } = useConnection();
  const route = sessionRouteOf(useRoute(), sessionId);
  const turns = useTurns(sessionId);
  const child = turnId !== null && isInnerTurn(turnId) ? turnId : null;
  const shown = shownTurn(turns, turnId === null ? null : outermostTurn(turnId));
  const { timeline, open, clockOffset, error } = useTurnData(sessionId, shown.turnId);
  const shownId = shown.turnId;
  const load = useCallback(
    async (ordinal: number, signal: AbortSignal, ofChild: string | null) =>
      inspector.effect(sessionId, ofChild ?? shownId ?? "", ordinal, { signal }),
    [inspector, sessionId, shownId],
  );
  const children = useChildren(sessionId, timeline, child);
  const problem = error ?? turns.error;
  const scrub = (at: number | null): void => {
    if (timeline !== null) navigate({ ...route, turnId: timeline.turn.turnId, at }, { replace: true });
  };
  useScrubKeys(timeline, route.at, scrub);
  if (timeline === null) {
    return (
      <div className="everturn-timeline">
        <div className="everturn-tl-head">
          <b>{shownId === null ? "Timeline" : turnName(shown)}</b>
        </div>
        <p className="everturn-tl-empty" role="status">
          {problem !== null
            ? `The timeline cannot be read: ${problem.message}`
            : shownId === null && !turns.isLoading
              ? "This session has no turn yet."
              : "Loading…"}
        </p>
      </div>
    );
  }
  return (
    <Timeline
      timeline={timeline}
      open={open}
      clockOffset={clockOffset}
      nextTurnAt={shown.nextTurnAt}
      heading={<TurnSwitcher shown={shown} turns={turns} route={route} />}
      label={`Effects of ${turnName(shown).toLowerCase()}`}
      childTurns={children}
      selected={route.effect}
      selectedTurn={child}
      at={route.at}
      onSelect={(ordinal, ofChild) => selectEffect(route, ofChild ?? timeline.turn.turnId, ordinal)}
      onScrub={scrub}
      load={load}
    />
  );
}

function sessionRouteOf(route: ReturnType<typeof useRoute>, sessionId: string): SessionRoute {
  return route.view === "session" && route.sessionId === sessionId ? route : sessionRoute(sessionId);
}

function TurnSwitcher({
  shown,
  turns,
  route,
}: {
  readonly shown: ShownTurn;
  readonly turns: Turns;
  readonly route: SessionRoute;
}): ReactNode {
  if (turns.turns.length < 2 && shown.turn !== null) return <b>{turnName(shown)}</b>;
  return (
    <Menu.Root>
      <Menu.Trigger className="tl-turn">
        {turnName(shown)} <span aria-hidden="true">▾</span>
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner side="top" align="start" sideOffset={6} className="tl-menu-place">
          <Menu.Popup className="tl-menu">
            {turns.turns.map((turn, index) => {
              const { text, className } = turnStatus(turn);
              const number = turns.hasMore ? null : turns.turns.length - index;
              return (
                <Menu.Item
                  key={turn.turnId}
                  className="tl-menu-item"
                  aria-current={turn.turnId === shown.turnId ? "true" : undefined}
                  onClick={() => navigate(sessionRoute(route.sessionId, { turnId: index === 0 ? null : turn.turnId }))}
                >
                  <b>{turnName({ number, turnId: turn.turnId })}</b>
                  <span className={`status ${className}`}>{text}</span>
                  <span className="spacer" />
                  <span className="muted tnum">{ago(turn.acceptedAt, Date.now())}</span>
                </Menu.Item>
              );
            })}
            {turns.hasMore && (
              <Menu.Item className="tl-menu-item" closeOnClick={false} onClick={turns.loadMore}>
                Older turns…
              </Menu.Item>
            )}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
