// The card beside a bar under the pointer: the journal entry with the beginning of its request and response.

import type { EffectDetail, Json, TimelineEffect } from "../../../core/model/internal.ts";
import type { Hover } from "./plot-types.ts";
import type { ReactNode } from "react";

import { useEffect, useState } from "react";

import { systemClock } from "../../../core/clock/clock.ts";
import { startTimer } from "../../../core/clock/timer.ts";
import { effectRequest, effectResponse, isJsonObject, textHead } from "../../../core/model/internal.ts";
import { durationText, usageTexts, visibleName } from "../texts.ts";
import { barTitle } from "./layout.ts";

/** Reads the stored data of a row of a child turn; `turnId: null`: of the turn itself. */
export type LoadDetail = (ordinal: number, signal: AbortSignal, turnId: string | null) => Promise<EffectDetail>;

/** The pointer has to rest on a bar for this time before its data is read. */
const restMs = 150;
const textLength = 280;

export function HoverCard({
  hover,
  effectsOf,
  load,
}: {
  readonly hover: Hover;
  /** The rows of a child turn; `null`: of the turn itself. */
  readonly effectsOf: (turnId: string | null) => readonly TimelineEffect[];
  /** Default: the card shows what the timeline has. */
  readonly load: LoadDetail | undefined;
}): ReactNode {
  const [bar] = hover.bars;
  const effect = hover.bars.length === 1 ? findRow(effectsOf, bar) : null;
  const ordinal = effect?.ordinal ?? null;
  const turnId = bar?.turnId ?? null;
  const [detail, setDetail] = useState<EffectDetail | null>(null);
  useEffect(() => {
    setDetail(null);
    if (ordinal === null) return undefined;
    const aborting = new AbortController();
    const cancel = startTimer(systemClock, restMs, () => {
      load?.(ordinal, aborting.signal, turnId).then(setDetail, () => undefined);
    });
    return () => {
      cancel();
      aborting.abort();
    };
  }, [ordinal, turnId, load]);
  if (bar === undefined) return null;
  const left = Math.max(8, Math.min(hover.box.left, innerWidth - 368));
  const isBelow = hover.box.top < 260;
  const place = isBelow ? { top: hover.box.bottom + 8 } : { bottom: innerHeight - hover.box.top + 8 };
  return (
    <div className="everturn-tl-card" role="presentation" style={{ left, ...place }}>
      <p className="everturn-tl-card-title">
        {hover.bars.length > 1
          ? `${hover.bars.length} effects, too narrow to show: click to zoom`
          : visibleName(barTitle(bar))}
      </p>
      {effect !== null && (
        <>
          <p className="everturn-muted">{facts(effect).join(" · ")}</p>
          {detail !== null && <Excerpt name="request" text={excerptOf(argumentsOrAll(effectRequest(detail)))} />}
          <Excerpt
            name={effect.failure === null ? "response" : effect.state === "denied" ? "denied" : "failure"}
            text={effect.failure?.message ?? responseText(effect, detail)}
          />
        </>
      )}
    </div>
  );
}

function findRow(
  effectsOf: (turnId: string | null) => readonly TimelineEffect[],
  bar: Hover["bars"][number] | undefined,
): TimelineEffect | null {
  return effectsOf(bar?.turnId ?? null).find(({ ordinal }) => ordinal === bar?.ordinal) ?? null;
}

function Excerpt({ name, text }: { readonly name: string; readonly text: string }): ReactNode {
  if (text === "") return null;
  return (
    <div className="everturn-tl-card-part">
      <span className="everturn-muted">{name}</span>
      <code dir="auto">{text}</code>
    </div>
  );
}

/** The facts of a row in one line. */
function facts({ ordinal, usage, firstAt, startedAt, attempt, owner }: TimelineEffect): readonly string[] {
  return [
    `row ${ordinal}`,
    ...(firstAt === null || startedAt === null ? [] : [`first token ${durationText(firstAt - startedAt)}`]),
    ...(usage === null ? [] : [`input ${usageTexts(usage).input}`, `output ${usageTexts(usage).output}`]),
    ...(attempt > 1 ? [`attempt ${attempt}`] : []),
    ...(owner === null ? [] : [visibleName(owner)]),
  ];
}

function responseText({ text }: TimelineEffect, detail: EffectDetail | null): string {
  return text === "" && detail !== null ? excerptOf(effectResponse(detail)) : text;
}

/** The arguments of a tool call, or the whole request of a model call. */
function argumentsOrAll(request: Json): Json {
  return isJsonObject(request) ? (request["arguments"] ?? request) : request;
}

function excerptOf(value: Json): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > textLength ? `${textHead(text, textLength)}…` : text;
}
