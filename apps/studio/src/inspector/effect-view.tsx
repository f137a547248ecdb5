// One row of the journal: what it is, its numbers, what is stored about it, and what a crash here would do.

import type { EffectDetail, TimelineEffect, TurnSummaryView } from "everturn/advanced";
import type { ServerView } from "everturn/client";
import type { ReactNode } from "react";

import { Tabs } from "@base-ui/react/tabs";
import { effectRequest, effectResponse } from "everturn/advanced";
import { usageTexts } from "everturn/react";

import { dateTime, duration } from "../parts/format.ts";
import { jsonText } from "../parts/take-out.ts";
import { visibleName } from "../parts/text.ts";
import { sessionRoute } from "../route.ts";
import { Link } from "../shell/link.tsx";
import { CopyButton } from "../text/copy-button.tsx";
import { crashDuring, crashSentence } from "./crash-sentence.ts";
import { journalOf, tagOf } from "./effect-parts.ts";
import { JsonTree } from "./json-tree.tsx";
import { FailureView, Tile } from "./parts.tsx";
import { inputName, outputName } from "./usage-text.ts";

export function EffectView({
  effect,
  turn,
  detail,
  detailError,
  rerun,
  durability,
  request,
  actions,
}: {
  readonly effect: TimelineEffect;
  readonly turn: TurnSummaryView;
  /** `null`: not read yet. */
  readonly detail: EffectDetail | null;
  readonly detailError: Error | null;
  /** The replay policy of the tool; `null`: not known. */
  readonly rerun: string | null;
  readonly durability: ServerView["durability"];
  /** The rebuilt request of a model call; `null`: what was ordered is shown. */
  readonly request: ReactNode;
  readonly actions: ReactNode;
}): ReactNode {
  const { kind, state, ordinal, name, step, failure, discarded } = effect;
  const crash = { kind, state, ordinal, name, rerun, durability, hasEnded: turn.end !== null } as const;
  const during = crashDuring(crash);
  return (
    <div className="insp">
      <h2>
        <span className={`tag ${tagOf(effect)}`}>{kind}</span>
        <span>
          step {step + 1}
          {name !== null && (
            <>
              {" · "}
              <span className="mono" title={visibleName(name)}>
                {shortModel(visibleName(name))}
              </span>
            </>
          )}
        </span>
        {state !== "ok" && (
          <span
            className={`status ${state === "waits" || state === "denied" ? "wait" : state === "superseded" ? "" : "bad"}`}
          >
            {state}
          </span>
        )}
      </h2>
      <Tiles effect={effect} turn={turn} />
      <Tabs.Root defaultValue={failure === null ? "journal" : "causes"} className="insp-tabs">
        <Tabs.List className="insp-tab-list">
          <Tabs.Tab value="journal">Journal</Tabs.Tab>
          <Tabs.Tab value="request">Request</Tabs.Tab>
          <Tabs.Tab value="response">Response</Tabs.Tab>
          {(discarded.length > 0 || effect.attempt > 1) && (
            <Tabs.Tab value="attempts">Attempts {Math.max(effect.attempt, discarded.length + 1)}</Tabs.Tab>
          )}
          {failure !== null && <Tabs.Tab value="causes">Cause</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="journal">
          <Stored
            detail={detail}
            error={detailError}
            render={(row) => <JsonTree label="Journal row" value={journalOf(row)} />}
          />
        </Tabs.Panel>
        <Tabs.Panel value="request">
          {request ?? (
            <Stored
              detail={detail}
              error={detailError}
              render={(row) => <JsonTree label="Request" value={effectRequest(row)} />}
            />
          )}
        </Tabs.Panel>
        <Tabs.Panel value="response">
          <Stored
            detail={detail}
            error={detailError}
            render={(row) => <JsonTree label="Response" value={effectResponse(row)} />}
          />
        </Tabs.Panel>
        <Tabs.Panel value="attempts">
          <Attempts effect={effect} turn={turn} detail={detail} />
        </Tabs.Panel>
        {failure !== null && (
          <Tabs.Panel value="causes">
            <FailureView failure={failure} />
          </Tabs.Panel>
        )}
      </Tabs.Root>
      {effect.children.length > 0 && (
        <section>
          <h3>Child agent</h3>
          <ul className="insp-list">
            {effect.children.map(({ sessionId, turnId }, index) => (
              <li key={`${sessionId} ${turnId ?? ""}`}>
                <Link to={sessionRoute(sessionId, { turnId })} title={visibleName(turnId ?? sessionId)}>
                  Turn {index + 1} of the child agent
                </Link>
              </li>
            ))}
          </ul>
        </section>
      )}
      <section>
        <h3>What happens if it crashes here?</h3>
        <p className="muted">{crashSentence(crash)}</p>
        {during !== null && <p className="muted insp-during">While it runs: {lowerFirst(during)}</p>}
      </section>
      <div className="insp-actions">
        <CopyButton label="Copy as JSON" text={() => jsonText(JSON.parse(JSON.stringify(detail ?? effect)))} />
        {actions}
      </div>
    </div>
  );
}

/** Names keep their case. */
function lowerFirst(sentence: string): string {
  return sentence.startsWith("The ") ? `t${sentence.slice(1)}` : sentence;
}

/** The name of a model without its provider. */
function shortModel(name: string): string {
  return name.slice(name.indexOf(":") + 1);
}

function Tiles({ effect, turn }: { readonly effect: TimelineEffect; readonly turn: TurnSummaryView }): ReactNode {
  const { startedAt, firstAt, endedAt, usage, kind, owner, epoch, attempt } = effect;
  const isModel = kind === "model";
  return (
    <dl className="insp-tiles">
      {isModel && (
        <Tile name="first token">
          {startedAt === null || firstAt === null ? "–" : duration(firstAt - lastStart(effect, startedAt))}
        </Tile>
      )}
      <Tile name="duration">{startedAt === null || endedAt === null ? "–" : duration(endedAt - startedAt)}</Tile>
      {!isModel && <Tile name="started after">{startedAt === null ? "–" : duration(startedAt - turn.acceptedAt)}</Tile>}
      {(isModel || kind === "compaction") && (
        <>
          <Tile name={inputName(usage)}>{usageTexts(usage).input}</Tile>
          <Tile name={outputName(usage)}>{usageTexts(usage).output}</Tile>
        </>
      )}
      <Tile name="process">
        <span className="mono insp-owner" title={owner ?? undefined}>
          {owner === null ? "–" : visibleName(owner)}
        </span>
      </Tile>
      <Tile name="epoch · attempt">
        {epoch} · {attempt}
      </Tile>
    </dl>
  );
}

/** When the recorded attempt began, as far as it is known: after the last retry. */
function lastStart({ discarded, firstAt }: TimelineEffect, startedAt: number): number {
  return discarded.reduce(
    (start, { endedAt }) =>
      endedAt !== null && firstAt !== null && endedAt <= firstAt ? Math.max(start, endedAt) : start,
    startedAt,
  );
}

/** What is stored about the row, once it has been read. */
function Stored({
  detail,
  error,
  render,
}: {
  readonly detail: EffectDetail | null;
  readonly error: Error | null;
  readonly render: (detail: EffectDetail) => ReactNode;
}): ReactNode {
  if (detail !== null) return render(detail);
  return <p className="insp-empty">{error === null ? "Loading…" : `The row cannot be read: ${error.message}`}</p>;
}

/** All attempts at an effect: those without a recorded result, and the recorded one. */
function Attempts({
  effect,
  turn,
  detail,
}: {
  readonly effect: TimelineEffect;
  readonly turn: TurnSummaryView;
  readonly detail: EffectDetail | null;
}): ReactNode {
  const after = (time: number | null): string => (time === null ? "?" : duration(time - turn.acceptedAt));
  return (
    <>
      <ol className="insp-attempts">
        {effect.discarded.map(({ reason, epoch, startedAt, endedAt, failure }, index) => (
          <li key={index}>
            <span className="tag crash">{reason === "crash" ? "ended by a crash" : "failed, retried"}</span>
            <span className="muted tnum">
              epoch {epoch} · from {after(startedAt)} to {after(endedAt)}
            </span>
            {failure !== null && <FailureView failure={failure} />}
          </li>
        ))}
        <li>
          <span className={`tag ${tagOf(effect)}`}>recorded</span>
          <span className="muted tnum">
            epoch {effect.epoch} · ended after {after(effect.endedAt)}
            {effect.endedAt !== null && ` · ${dateTime(effect.endedAt)}`}
          </span>
        </li>
      </ol>
      {detail !== null && detail.records.length > 0 && (
        <JsonTree
          label="Records inside the effect"
          value={Object.fromEntries(detail.records.map(({ name, value }) => [name, value]))}
        />
      )}
    </>
  );
}
