// One column of the playground: its settings, and the answer of its last run.

import type { ColumnSettings, SettingIssue } from "./column-settings.ts";
import type { Run } from "./run.ts";
import type { TurnCall, EngineView } from "everturn/advanced";
import type { ReactNode } from "react";

import { useId } from "react";

import { cost, count, duration } from "../parts/format.ts";
import { sessionRoute } from "../route.ts";
import { Button } from "../shell/button.tsx";
import { Link } from "../shell/link.tsx";
import { Markdown } from "../text/markdown.tsx";
import { optionsOf } from "./column-settings.ts";
import { runText } from "./run.ts";
import { ToolChoice } from "./tool-choice.tsx";

export function Column({
  name,
  engines,
  allow,
  settings,
  run,
  isKept,
  onChange,
  onKeep,
  onStop,
  onRemove,
}: {
  readonly name: string;
  readonly engines: readonly EngineView[];
  readonly allow: readonly string[];
  readonly settings: ColumnSettings;
  readonly run: Run | null;
  readonly isKept: boolean;
  readonly onChange: (settings: ColumnSettings) => void;
  readonly onKeep: () => void;
  readonly onStop: () => void;
  /** `null`: the only column cannot be removed. */
  readonly onRemove: (() => void) | null;
}): ReactNode {
  const { issues } = optionsOf(settings, allow);
  const engine = engines.find((candidate) => candidate.name === settings.engine);
  return (
    <section className="panel column" aria-label={`column ${name}`}>
      <div className="column-head">
        <h2>{name}</h2>
        <select
          aria-label="engine"
          value={settings.engine}
          onChange={(event) => onChange({ ...settings, engine: event.target.value, tools: null })}
        >
          {engines.map((candidate) => (
            <option key={candidate.name}>{candidate.name}</option>
          ))}
        </select>
        <span className="spacer" />
        {onRemove !== null && (
          <Button look="quiet" onClick={onRemove}>
            Remove
          </Button>
        )}
      </div>
      {engine !== undefined && (
        <details className="column-settings" open={run === null}>
          <summary>{summaryOf(settings, engine)}</summary>
          <Settings {...{ settings, engine, allow, issues, onChange }} />
        </details>
      )}
      {run !== null && <RunView {...{ run, isKept, onKeep, onStop }} />}
    </section>
  );
}

/** The settings in one line. */
function summaryOf({ model, instructions, temperature, tools }: ColumnSettings, engine: EngineView): string {
  const offered = tools === null ? engine.tools.length : tools.length;
  return [
    model.trim() === "" ? (engine.model ?? "no model") : model.trim(),
    ...(instructions.trim() === "" ? [] : ["own instructions"]),
    ...(temperature.trim() === "" ? [] : [`temperature ${temperature}`]),
    offered === 1 ? "1 tool" : `${offered} tools`,
  ].join(" · ");
}

function Settings({
  settings,
  engine,
  allow,
  issues,
  onChange,
}: {
  readonly settings: ColumnSettings;
  readonly engine: EngineView;
  readonly allow: readonly string[];
  readonly issues: readonly SettingIssue[];
  readonly onChange: (settings: ColumnSettings) => void;
}): ReactNode {
  const id = useId();
  const names = (["model", "temperature", "maxTokens", "maxTurns"] as const).filter((field) => allow.includes(field));
  return (
    <div className="column-form">
      {!allow.includes("model") && !allow.includes("instructions") && (
        <p className="muted">This server does not allow callers to change settings (option `allow`).</p>
      )}
      {allow.includes("instructions") && (
        <label>
          instructions
          <textarea
            rows={4}
            value={settings.instructions}
            placeholder={engine.instructions ?? "none, or computed for each turn"}
            onChange={(event) => onChange({ ...settings, instructions: event.target.value })}
          />
        </label>
      )}
      {names.map((field) => {
        const issue = issues.find((candidate) => candidate.field === field);
        return (
          <label key={field}>
            {labels[field]}
            <input
              value={settings[field]}
              placeholder={field === "model" ? (engine.model ?? "provider:model") : "as the engine"}
              aria-invalid={issue !== undefined}
              aria-describedby={issue === undefined ? undefined : `${id}-${field}`}
              onChange={(event) => onChange({ ...settings, [field]: event.target.value })}
            />
            {issue !== undefined && (
              <span id={`${id}-${field}`} className="bad">
                {issue.message}
              </span>
            )}
          </label>
        );
      })}
      {allow.includes("activeTools") && engine.tools.length > 0 && (
        <ToolChoice tools={engine.tools} chosen={settings.tools} change={(tools) => onChange({ ...settings, tools })} />
      )}
    </div>
  );
}

function isFailed(state: TurnCall["state"]): boolean {
  return state === "failed" || state === "cancelled";
}

const labels = {
  model: "model",
  temperature: "temperature",
  maxTokens: "longest reply, tokens",
  maxTurns: "most model calls",
};

function RunView({
  run,
  isKept,
  onKeep,
  onStop,
}: {
  readonly run: Run;
  readonly isKept: boolean;
  readonly onKeep: () => void;
  readonly onStop: () => void;
}): ReactNode {
  const { sessionId, startedAt, firstAt, endedAt, calls, end, failure } = run;
  const text = runText(run);
  return (
    <>
      <dl className="column-numbers tnum">
        <div>
          <dt>first token</dt>
          <dd>{firstAt === null ? "–" : duration(firstAt - startedAt)}</dd>
        </div>
        <div>
          <dt>duration</dt>
          <dd>{endedAt === null ? "runs" : duration(endedAt - startedAt)}</dd>
        </div>
        <div>
          <dt>tokens</dt>
          <dd>
            {end === null ? "–" : `${count(end.usage.inputTokens ?? 0)} in · ${count(end.usage.outputTokens ?? 0)} out`}
          </dd>
        </div>
        <div>
          <dt>cost</dt>
          <dd>{end === null ? "–" : cost(end.usage.totalCost) || "unknown"}</dd>
        </div>
      </dl>
      {calls.length > 0 && (
        <ul className="column-calls">
          {calls.map(({ id, name, state, durationMs }) => (
            <li key={id}>
              <span className="mono">{name}</span>
              <span className={`tag ${state === "waiting" ? "wait" : isFailed(state) ? "crash" : "tool"}`}>
                {durationMs === null ? state : duration(durationMs)}
              </span>
            </li>
          ))}
        </ul>
      )}
      {endedAt === null ? (
        // Markdown is parsed once, at the end: parsing it for every word would cost more with every word.
        <div className="column-text growing" dir="auto">
          {text}
        </div>
      ) : (
        <div className="column-text prose" aria-live="polite">
          <Markdown text={text} />
        </div>
      )}
      {failure !== null && (
        <p className="bad" role="alert">
          {failure}
        </p>
      )}
      <div className="column-actions">
        {endedAt === null && (
          <Button look="danger" onClick={onStop}>
            Stop
          </Button>
        )}
        {sessionId !== null && endedAt !== null && !isKept && <Button onClick={onKeep}>Keep</Button>}
        {isKept && <span className="status done">kept</span>}
        {sessionId !== null && <Link to={sessionRoute(sessionId)}>Open the session</Link>}
        {end !== null && end.haltedReason !== "completed" && <span className="muted">ended: {end.haltedReason}</span>}
      </div>
    </>
  );
}
