// The view of a replay file: the timeline, the conversation and the inspector of a turn record that the reader opens.
// The file stays on the machine: nothing is sent.

import type { ReplayFile } from "./record.ts";
import type { DragEvent, ReactNode } from "react";

import { Timeline } from "everturn/react";
import { useCallback, useMemo, useRef, useState } from "react";

import { EffectView } from "../inspector/effect-view.tsx";
import { TurnView } from "../inspector/turn-view.tsx";
import { visibleName } from "../parts/text.ts";
import { conversationAt } from "../timeline/state-at.ts";
import { useScrubKeys } from "../timeline/use-scrub-keys.ts";
import { maxFileBytes, readReplayFile, ReplayFileError } from "./record.ts";
import { ReplayMessages } from "./replay-messages.tsx";
import "../inspector/inspector.css";
import "./replay.css";

type Opened = { readonly name: string; readonly file: ReplayFile };

export function Replay(): ReactNode {
  const [opened, setOpened] = useState<Opened | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isOver, setIsOver] = useState(false);
  const open = async (file: File | undefined): Promise<void> => {
    if (file === undefined) return;
    try {
      if (file.size > maxFileBytes) throw new ReplayFileError("The file is larger than 64 MB.");
      const read = readReplayFile(await file.text());
      setOpened({ name: file.name, file: read });
      setProblem(null);
    } catch (error) {
      setProblem(error instanceof Error ? `${visibleName(file.name)}: ${error.message}` : String(error));
    }
  };
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setIsOver(false);
    void open(event.dataTransfer.files[0]);
  };
  return (
    <div
      className="replay"
      data-over={isOver}
      onDragOver={(event) => {
        event.preventDefault();
        setIsOver(true);
      }}
      onDragLeave={() => setIsOver(false)}
      onDrop={drop}
    >
      {opened === null ? (
        <section className="replay-start">
          <h1>Open a replay file</h1>
          <p className="muted">
            A turn record that “Export record” or <code>everturn show ID --export FILE</code> has written. The file is
            read in this page and is sent nowhere.
          </p>
          <FileButton className="btn primary" label="Choose a file…" onFile={open} />
          <p className="muted">or drop it here</p>
          {problem !== null && (
            <p className="replay-problem" role="alert">
              {problem}
            </p>
          )}
        </section>
      ) : (
        <Shown key={opened.name} opened={opened} problem={problem} onFile={open} />
      )}
    </div>
  );
}

function FileButton({
  className,
  label,
  onFile,
}: {
  readonly className: string;
  readonly label: string;
  readonly onFile: (file: File | undefined) => Promise<void>;
}): ReactNode {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" className={className} onClick={() => input.current?.click()}>
        {label}
      </button>
      <input
        ref={input}
        type="file"
        accept=".json,application/json"
        hidden
        aria-label="Replay file"
        onChange={(event) => {
          void onFile(event.currentTarget.files?.[0]);
          // The same file can be chosen again after it was changed.
          event.currentTarget.value = "";
        }}
      />
    </>
  );
}

function Shown({
  opened: { name, file },
  problem,
  onFile,
}: {
  readonly opened: Opened;
  readonly problem: string | null;
  readonly onFile: (file: File | undefined) => Promise<void>;
}): ReactNode {
  const { timeline, messages, details, policies } = file;
  const [selected, setSelected] = useState<number | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const load = useCallback(
    async (ordinal: number) => {
      const detail = details.get(ordinal);
      if (detail === undefined) throw new Error(`There is no row ${ordinal}`);
      return detail;
    },
    [details],
  );
  const state = useMemo(
    () => (at === null ? null : conversationAt(timeline, messages.slice(timeline.turn.base), at)),
    [timeline, messages, at],
  );
  useScrubKeys(timeline, at, setAt);
  const effect = timeline.effects.find(({ ordinal }) => ordinal === selected) ?? null;
  return (
    <>
      <div className="replay-bar">
        <h1 title={visibleName(name)}>{visibleName(name)}</h1>
        <span className="tag">replay file</span>
        <span className="muted mono">{visibleName(file.sessionId)}</span>
        {problem !== null && (
          <span className="replay-problem" role="alert">
            {problem}
          </span>
        )}
        <span className="spacer" />
        <FileButton className="btn" label="Open another…" onFile={onFile} />
      </div>
      <section className="replay-talk" aria-label="Conversation">
        <ReplayMessages messages={messages} base={timeline.turn.base} state={state} />
      </section>
      <aside className="replay-inspector" aria-label="Inspector">
        {effect === null ? (
          <TurnView name="Turn" timeline={timeline} nextTurnAt={timeline.now} window={null} actions={null} />
        ) : (
          <EffectView
            key={effect.ordinal}
            effect={effect}
            turn={timeline.turn}
            detail={details.get(effect.ordinal) ?? null}
            detailError={null}
            rerun={policies.get(effect.name ?? "") ?? null}
            durability="durable"
            request={null}
            actions={null}
          />
        )}
      </aside>
      <section className="replay-timeline" aria-label="Timeline">
        <Timeline
          timeline={timeline}
          nextTurnAt={timeline.now}
          selected={selected}
          at={at}
          onSelect={setSelected}
          onScrub={setAt}
          load={load}
        />
      </section>
    </>
  );
}
