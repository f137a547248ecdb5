// The inspector: everything that is stored about the selected effect, or about the turn if none is selected.

import type { ReactNode } from "react";

import { RunAgainButton } from "../again/run-again-button.tsx";
import { useConnection } from "../data/connection.tsx";
import { useEngines } from "../data/engines.ts";
import { useQuery } from "../data/query.ts";
import { curlOf, exportTurn } from "../parts/take-out.ts";
import { apiUrl, navigate } from "../route.ts";
import { Button } from "../shell/button.tsx";
import { attempt } from "../shell/toasts.tsx";
import { CopyButton } from "../text/copy-button.tsx";
import { useTurnData } from "../timeline/turn-data.ts";
import { isInnerTurn, shownTurn, turnName, useTurns } from "../timeline/turns.ts";
import { EffectView } from "./effect-view.tsx";
import { OpenEffectView } from "./open-effect-view.tsx";
import { callsModel, RequestView, TurnWindow } from "./request-view.tsx";
import "./inspector.css";
import { TurnView } from "./turn-view.tsx";

export function Inspector({
  sessionId,
  turnId,
  effect: ordinal,
}: {
  readonly sessionId: string;
  readonly turnId: string | null;
  readonly effect: number | null;
}): ReactNode {
  const { inspector, server, client } = useConnection();
  const turns = useTurns(sessionId);
  const shown = shownTurn(turns, turnId);
  const { timeline, open, error } = useTurnData(sessionId, shown.turnId);
  const engines = useEngines();
  const key = ordinal === null || shown.turnId === null ? null : `effect ${sessionId} ${shown.turnId} ${ordinal}`;
  const effect = timeline?.effects.find((row) => row.ordinal === ordinal) ?? null;
  const detail = useQuery(effect === null ? null : key, async (signal) =>
    inspector.effect(sessionId, shown.turnId ?? "", ordinal ?? 0, { signal }),
  );
  if (timeline === null) {
    return (
      <p className="insp-empty" role="status">
        {error !== null
          ? `The turn cannot be read: ${error.message}`
          : shown.turnId === null && !turns.isLoading
            ? "Send a message: the inspector shows what the turn does."
            : "Loading…"}
      </p>
    );
  }
  const { turn } = timeline;
  const path = ["sessions", sessionId, "turns", turn.turnId];
  const tools = engines.data?.find(({ name }) => name === turn.engine)?.tools ?? [];
  const rerunOf = (name: string | null): string | null => tools.find((tool) => tool.name === name)?.rerun ?? null;
  const { durability } = server;
  const playground = (
    <Button onClick={() => navigate({ view: "playground", from: sessionId })}>Open in playground</Button>
  );
  if (effect !== null) {
    return (
      <EffectView
        key={`${turn.turnId} ${effect.ordinal}`}
        effect={effect}
        turn={turn}
        detail={detail.data}
        detailError={detail.error}
        rerun={rerunOf(effect.name)}
        durability={durability}
        request={
          server.records && callsModel(effect) && !isInnerTurn(turn.turnId) ? (
            <RequestView sessionId={sessionId} turnId={turn.turnId} effects={timeline.effects} effect={effect} />
          ) : null
        }
        actions={
          <>
            {!isInnerTurn(turn.turnId) && <RunAgainButton timeline={timeline} ordinal={effect.ordinal} />}
            <CopyButton label="Copy as curl" text={() => curlOf(apiUrl(), [...path, "effects", `${effect.ordinal}`])} />
            {playground}
          </>
        }
      />
    );
  }
  const next = (timeline.effects.at(-1)?.ordinal ?? 0) + 1;
  const [only, ...others] = open.filter(({ discarded }) => discarded === null);
  if (ordinal === next && others.length === 0 && only !== undefined) {
    return <OpenEffectView effect={only} rerun={rerunOf(only.name)} durability={durability} />;
  }
  return (
    <TurnView
      name={turnName(shown)}
      timeline={timeline}
      nextTurnAt={shown.nextTurnAt}
      window={
        server.records && !isInnerTurn(turn.turnId) ? (
          <TurnWindow key={turn.turnId} sessionId={sessionId} turnId={turn.turnId} effects={timeline.effects} />
        ) : null
      }
      actions={
        <>
          {server.records && (
            <Button onClick={() => attempt(async () => exportTurn(client, sessionId, turn.turnId))}>
              Export record
            </Button>
          )}
          <CopyButton label="Copy as curl" text={() => curlOf(apiUrl(), [...path, "timeline"])} />
          {playground}
        </>
      }
    />
  );
}
