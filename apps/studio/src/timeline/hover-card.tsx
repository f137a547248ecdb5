// The card beside a bar under the pointer: the journal entry with the beginning of its request and response.

import type { Hover } from "./plot-types.ts";
import type { EffectDetail, TimelineEffect } from "everturn/advanced";
import type { ReactNode } from "react";

import { useEffect, useState } from "react";

import { field, requestOf, responseOf } from "../inspector/effect-parts.ts";
import { inputText, outputText } from "../inspector/usage-text.ts";
import { duration } from "../parts/format.ts";
import { beginning, visibleName } from "../parts/text.ts";
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
  readonly load: LoadDetail;
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
    const timer = setTimeout(() => {
      load(ordinal, aborting.signal, turnId).then(setDetail, () => undefined);
    }, restMs);
    return () => {
      clearTimeout(timer);
      aborting.abort();
    };
  }, [ordinal, turnId, load]);
  if (bar === undefined) return null;
  const left = Math.max(8, Math.min(hover.box.left, innerWidth - 368));
  const isBelow = hover.box.top < 260;
  const place = isBelow ? { top: hover.box.bottom + 8 } : { bottom: innerHeight - hover.box.top + 8 };
  return (
    <div className="tl-card" role="presentation" style={{ left, ...place }}>
      <p className="tl-card-title">
        {hover.bars.length > 1
          ? `${hover.bars.length} effects, too narrow to show: click to zoom`
          : visibleName(barTitle(bar))}
      </p>
      {effect !== null && (
        <>
          <p className="muted tnum">{facts(effect).join(" · ")}</p>
          {detail !== null && (
            <Excerpt name="request" text={excerptOf(field(requestOf(detail), "arguments") ?? requestOf(detail))} />
          )}
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
    <div className="tl-card-part">
      <span className="muted">{name}</span>
      <code dir="auto">{text}</code>
    </div>
  );
}

/** The facts of a row in one line. */
function facts({ ordinal, usage, firstAt, startedAt, attempt, owner }: TimelineEffect): readonly string[] {
  return [
    `row ${ordinal}`,
    ...(firstAt === null || startedAt === null ? [] : [`first token ${duration(firstAt - startedAt)}`]),
    ...(usage === null ? [] : [`input ${inputText(usage)}`, `output ${outputText(usage)}`]),
    ...(attempt > 1 ? [`attempt ${attempt}`] : []),
    ...(owner === null ? [] : [visibleName(owner)]),
  ];
}

function responseText({ text }: TimelineEffect, detail: EffectDetail | null): string {
  return text === "" && detail !== null ? excerptOf(responseOf(detail)) : text;
}

function excerptOf(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return text.length > textLength ? `${beginning(text, textLength)}…` : text;
}
