// The playground: one message, up to four columns with different engines and settings, run side by side. Every run is a
// session of the server. A run that is kept stays as a session, or as a fork of the session that the playground was
// opened from; the others are deleted before the next run. Those that are left when the page is left stay as sessions,
// and are listed at the next visit (unkept-runs.ts).

import type { ColumnSettings } from "./column-settings.ts";
import type { Run } from "./run.ts";
import type { EngineView } from "everturn/advanced";
import type { ReactNode } from "react";

import { TurnView } from "everturn/advanced";
import { useEffect, useRef, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { useEngines } from "../data/engines.ts";
import { useQuery } from "../data/query.ts";
import { seenEvent } from "../data/session-events.ts";
import { Button } from "../shell/button.tsx";
import { withModifier } from "../shell/keyboard.ts";
import { useTitle } from "../shell/title.ts";
import { notifyError } from "../shell/toasts.tsx";
import { enginesFor, optionsOf, newColumnSettings, withoutEngine } from "./column-settings.ts";
import { Column } from "./column.tsx";
import { beginRun, withEnd, withEvent } from "./run.ts";
import "../styles/conversation.css";
import "./playground.css";
import { forgetRuns, rememberRun, unkeptRuns } from "./unkept-runs.ts";

type ColumnState = {
  readonly key: number;
  readonly settings: ColumnSettings;
  readonly run: Run | null;
  readonly isKept: boolean;
};

const maxColumns = 4;

/** `from`: the session whose messages each run begins with; `null`: each run begins a new conversation. */
export function PlaygroundPage({ from }: { readonly from: string | null }): ReactNode {
  useTitle("Playground");
  const { client, server } = useConnection();
  const engines = useEngines();
  const [columns, setColumns] = useState<readonly ColumnState[]>([]);
  const [message, setMessage] = useState("");
  const nextKey = useRef(0);
  const original = useQuery(from === null ? null : `playground:${from}`, (signal) =>
    from === null ? Promise.resolve(null) : client.get(from, { messages: 0, signal }),
  );
  const isReady = from === null || original.data !== null;
  const known = isReady ? enginesFor(engines.data ?? [], original.data?.engine ?? null) : [];
  const addColumn = (engine: EngineView, settings?: ColumnSettings): void => {
    const key = nextKey.current++;
    setColumns((list) => [...list, { key, settings: settings ?? newColumnSettings(engine), run: null, isKept: false }]);
  };
  const change = (key: number, update: (column: ColumnState) => ColumnState): void =>
    setColumns((list) => list.map((column) => (column.key === key ? update(column) : column)));
  const discard = async ({ run, isKept }: ColumnState): Promise<void> => {
    // The run of a session that cannot be deleted now stays in the list of sessions, where it can be deleted.
    if (run === null || run.sessionId === null || isKept) return;
    const { sessionId } = run;
    await client.delete(sessionId).then(
      () => forgetRuns([sessionId]),
      () => undefined,
    );
  };
  const start = async (column: ColumnState): Promise<void> => {
    const { key, settings } = column;
    const { options, issues } = optionsOf(settings, server.allow);
    if (issues.length > 0) return;
    const update = (apply: (run: Run) => Run): void =>
      change(key, (current) => (current.run === null ? current : { ...current, run: apply(current.run) }));
    change(key, (current) => ({ ...current, isKept: false, run: beginRun(Date.now()) }));
    try {
      await discard(column);
      const turn =
        from === null
          ? await client.start(message, { ...options, metadata: { title: titleOf(message) } })
          : await client.reply(await client.fork(from), message, withoutEngine(options));
      rememberRun(turn.sessionId);
      update((run) => ({ ...run, sessionId: turn.sessionId }));
      const view = new TurnView();
      for await (const event of turn.events) {
        const [seen, now] = [seenEvent(view, event), Date.now()];
        const { snapshot } = view;
        update((run) => withEvent(run, seen, snapshot, now));
      }
      const end = await turn.result;
      update((run) => withEnd(run, end, Date.now()));
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      update((run) => ({ ...run, failure: text, endedAt: Date.now() }));
    }
  };
  const isRunning = columns.some(({ run }) => run !== null && run.endedAt === null);
  const canRun = message.trim() !== "" && !isRunning && known.length > 0;
  const runAll = (): void => {
    if (!canRun) return;
    for (const column of columns) void start(column);
  };
  const [first] = known;
  const isEmpty = columns.length === 0;
  useEffect(() => {
    if (!isEmpty || first === undefined) return;
    const settings = newColumnSettings(first);
    const create = (): ColumnState => ({ key: nextKey.current++, settings, run: null, isKept: false });
    setColumns((list) => (list.length > 0 ? list : [create(), create()]));
  }, [isEmpty, first]);
  return (
    <div className="dashboard playground">
      <div className="dashboard-bar">
        <h1>Playground</h1>
        <span className="muted">
          {from === null ? (
            "each run begins a new conversation"
          ) : (
            <>
              each run begins with a fork of <bdi>{from}</bdi>
            </>
          )}
        </span>
        <span className="spacer" />
        <Button
          disabled={first === undefined || columns.length >= maxColumns}
          onClick={() => {
            const last = columns.at(-1);
            if (first !== undefined) addColumn(first, last?.settings);
          }}
        >
          Add a column
        </Button>
      </div>
      <EarlierRuns />
      {original.error !== null && (
        <p className="notice bad" role="alert">
          The session could not be read: {original.error.message}
        </p>
      )}
      {engines.error !== null && (
        <p className="notice bad" role="alert">
          The engines could not be read: {engines.error.message}
        </p>
      )}
      <form
        className="playground-input"
        onSubmit={(event) => {
          event.preventDefault();
          runAll();
        }}
      >
        <label htmlFor="playground-message">Message</label>
        <textarea
          id="playground-message"
          rows={3}
          value={message}
          placeholder="The same message goes to every column"
          onChange={(event) => setMessage(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) runAll();
          }}
        />
        <Button type="submit" look="primary" disabled={!canRun}>
          {columns.length > 1 ? `Run ${columns.length} side by side` : "Run"}{" "}
          <span className="kbd">{withModifier("⏎")}</span>
        </Button>
      </form>
      <div className="playground-columns">
        {columns.map((column, index) => (
          <Column
            key={column.key}
            name={String.fromCodePoint(65 + index)}
            engines={known}
            allow={server.allow}
            settings={column.settings}
            run={column.run}
            isKept={column.isKept}
            onChange={(settings) => change(column.key, (current) => ({ ...current, settings }))}
            onKeep={() => {
              if (column.run !== null && column.run.sessionId !== null) forgetRuns([column.run.sessionId]);
              change(column.key, (current) => ({ ...current, isKept: true }));
            }}
            onStop={() => {
              if (column.run !== null && column.run.sessionId !== null)
                void client.cancel(column.run.sessionId).catch(() => undefined);
            }}
            onRemove={
              columns.length === 1
                ? null
                : () => {
                    void discard(column);
                    setColumns((list) => list.filter(({ key }) => key !== column.key));
                  }
            }
          />
        ))}
      </div>
    </div>
  );
}

/** The runs of earlier visits that were not kept. */
function EarlierRuns(): ReactNode {
  const { client } = useConnection();
  const [runs, setRuns] = useState(unkeptRuns);
  const [isBusy, setBusy] = useState(false);
  if (runs.length === 0) return null;
  const remove = async (): Promise<void> => {
    setBusy(true);
    const removed: string[] = [];
    for (const id of runs) {
      try {
        await client.delete(id);
        removed.push(id);
      } catch (error) {
        // Another page has deleted it.
        if (error instanceof Error && "status" in error && error.status === 404) removed.push(id);
        else notifyError(error);
      }
    }
    forgetRuns(removed);
    setRuns((list) => list.filter((id) => !removed.includes(id)));
    setBusy(false);
  };
  return (
    <p className="notice" role="status">
      {runs.length === 1 ? "1 earlier run was" : `${runs.length} earlier runs were`} not kept.{" "}
      <Button look="small danger" disabled={isBusy} onClick={() => void remove()}>
        {runs.length === 1 ? "Delete it" : "Delete them"}
      </Button>{" "}
      <Button
        look="small"
        disabled={isBusy}
        onClick={() => {
          forgetRuns(runs);
          setRuns([]);
        }}
      >
        {runs.length === 1 ? "Keep it" : "Keep them"}
      </Button>
    </p>
  );
}

function titleOf(message: string): string {
  const line = message.trim().split("\n", 1)[0] ?? "";
  return `Playground: ${line.slice(0, 80)}`;
}
