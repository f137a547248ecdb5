// A turn as a whole: how it ended, what it used, why it failed, and which processes drove it.

import type { TurnTimeline } from "everturn/client";
import type { ReactNode } from "react";

import { summarizeTimeline, usageTexts } from "everturn/react";

import { count, dateTime, duration } from "../parts/format.ts";
import { jsonText } from "../parts/take-out.ts";
import { visibleName } from "../parts/text.ts";
import { CopyButton } from "../text/copy-button.tsx";
import { isInnerTurn, turnStatus } from "../timeline/turns.ts";
import { FailureView, Tile } from "./parts.tsx";
import { inputName, outputName } from "./usage-text.ts";

export function TurnView({
  name,
  timeline,
  nextTurnAt,
  window,
  actions,
}: {
  readonly name: string;
  readonly timeline: TurnTimeline;
  readonly nextTurnAt: number | null;
  /** What fills the context window; `null`: the server does not tell. */
  readonly window: ReactNode;
  readonly actions: ReactNode;
}): ReactNode {
  const { turn, claims } = timeline;
  const { totals, crashes } = summarizeTimeline(timeline, { nextTurnAt });
  const { text, className } = turnStatus(turn);
  const failure = turn.failure ?? turnFailure(timeline);
  const { inputTokens, outputTokens, cost: totalCost } = totals;
  const usage = turn.end?.usage ?? { inputTokens, cachedInputTokens: null, outputTokens, totalCost };
  return (
    <div className="insp">
      <h2>
        <span className="tag">turn</span>
        <span>{name}</span>
        <span className={`status ${className}`}>{text}</span>
      </h2>
      <dl className="insp-tiles">
        <Tile name="first token">{totals.firstTokenMs === null ? "–" : duration(totals.firstTokenMs)}</Tile>
        {totals.lostMs < 50 ? (
          <Tile name="active">{duration(totals.activeMs)}</Tile>
        ) : (
          <Tile name="active · lost in a crash">
            {duration(totals.activeMs)} · {duration(totals.lostMs)}
          </Tile>
        )}
        <Tile name={inputName(usage)}>{usageTexts(usage).input}</Tile>
        <Tile name={outputName(usage)}>{usageTexts(usage).output}</Tile>
        <Tile name="steps · commits">
          {count(totals.steps)} · {count(totals.commits)}
        </Tile>
        <Tile name="discarded attempts">{count(totals.discarded)}</Tile>
      </dl>
      <dl className="insp-facts">
        <dt>engine</dt>
        <dd>{visibleName(turn.engine)}</dd>
        <dt>accepted</dt>
        <dd>{dateTime(turn.acceptedAt)}</dd>
        <dt>turn</dt>
        <dd className="mono">{visibleName(turn.turnId)}</dd>
      </dl>
      {failure !== null && (
        <section>
          <h3>{turn.status === "parked" ? "Why it is parked" : "Why it failed"}</h3>
          <FailureView failure={failure} />
        </section>
      )}
      {claims.length > 0 && (
        <section>
          <h3>{claims.length === 1 ? "Process" : "Processes"}</h3>
          <ol className="insp-claims">
            {claims.map(({ owner, epoch, since, takesOver }) => {
              const crash = takesOver
                ? crashes.find(({ resumedAt }) => resumedAt === Math.max(0, since - turn.acceptedAt))
                : undefined;
              return (
                <li key={epoch}>
                  <span className="mono">{visibleName(owner)}</span>
                  <span className="muted tnum">
                    epoch {epoch} ·{" "}
                    {since < turn.acceptedAt
                      ? `held since ${isInnerTurn(turn.turnId) ? "the turn around it" : "an earlier turn"}`
                      : `claimed after ${duration(since - turn.acceptedAt)}`}
                  </span>
                  {crash !== undefined && (
                    <span className="insp-takeover">
                      took over from {crash.died === null ? "a process" : visibleName(crash.died)} that died
                      {crash.resumedAt > crash.time && ` ${duration(crash.resumedAt - crash.time)} before`} ·{" "}
                      {count(crash.replayed)} recorded {crash.replayed === 1 ? "effect" : "effects"} replayed, 0
                      repeated
                    </span>
                  )}
                </li>
              );
            })}
          </ol>
        </section>
      )}
      {window}
      <p className="muted">Select a bar, a message or a tool card to see what is stored about it.</p>
      <div className="insp-actions">
        <CopyButton label="Copy as JSON" text={() => jsonText(JSON.parse(JSON.stringify(timeline)))} />
        {actions}
      </div>
    </div>
  );
}

/** The failure of the outcome of a turn that failed. */
function turnFailure({ turn }: TurnTimeline): TurnTimeline["turn"]["failure"] {
  const outcome = turn.end?.outcome;
  return outcome !== undefined && "failure" in outcome ? outcome.failure : null;
}
