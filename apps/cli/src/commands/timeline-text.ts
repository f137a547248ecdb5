// A timeline as lines of text. Tools of one step began together, so their bars stand side by side from the same place, each as long as it took.

import type { Colours } from "../terminal/style.ts";
import type { Timeline, TimelineCall, TimelineItem, TimelineStep } from "./timeline.ts";

import { stripVTControlCharacters } from "node:util";

import { cellWidth, fit, pad } from "../terminal/cells.ts";
import { brief, duration, plural, spent } from "./text.ts";

/** How wide the longest bar is. */
const barWidth = 20;

export function timelineText(timeline: Timeline, colours: Colours, columns: number): readonly string[] {
  const { bold, dim, green, yellow, red } = colours;
  const { turnId, end, steps, input, acceptedAt, isJournalGone } = timeline;
  const cost = end === null ? "" : spent(end.usage);
  const ending = end === null ? "open" : endingOf(end);
  const paint =
    end === null ? yellow : end.haltedReason === "completed" ? green : end.haltedReason === "error" ? red : yellow;
  const facts = [plural(end?.steps ?? steps.length, "step"), ...(cost === "" ? [] : [cost])];
  const lines = [
    `${bold(`turn ${turnId}`)}  ${dim(new Date(acceptedAt).toISOString())}`,
    ...input.map((text) => `│ ${dim("«")} ${brief(text, 200)}`),
    ...(isJournalGone ? [`│ ${dim("its journal is no longer kept: steps cannot be shown")}`] : []),
    ...steps.flatMap((step) => stepLines(step, colours)),
    ...failureLine(timeline, colours),
    `└─ ${paint(ending)}  ${dim(facts.join(" · "))}`,
  ];
  return Number.isFinite(columns) ? lines.map((line) => cut(line, columns)) : lines;
}

/** Why it stopped, and how, where that is another word. */
function endingOf({ haltedReason, outcome }: NonNullable<Timeline["end"]>): string {
  const isSaid = haltedReason === outcome.type || outcome.type === "assistant_message";
  return isSaid ? haltedReason : `${haltedReason} (${outcome.type})`;
}

function failureLine({ end }: Timeline, { red }: Colours): readonly string[] {
  if (end === null || !("failure" in end.outcome)) return [];
  return [`│ ${red(brief(end.outcome.failure.message, 300))}`];
}

function stepLines({ number, items }: TimelineStep, colours: Colours): readonly string[] {
  const calls = items.flatMap((item) => (item.type === "tool" ? [item.call] : []));
  const others = items.filter((item) => item.type !== "tool");
  // What came before the reply stands before it: that another process went on, for one.
  const replied = others.findIndex(({ type }) => type === "model" || type === "code");
  const [before, after] = replied === -1 ? [others, []] : [others.slice(0, replied), others.slice(replied)];
  const [first, ...rest] = after.flatMap((item) => itemLines(item, colours));
  const title = first === undefined ? titleOf(number, calls.length) : `step ${number + 1}`;
  return [
    ...before.flatMap((item) => itemLines(item, colours)).map((line) => `│  ${line}`),
    ...(title === null ? [] : [`├─ ${colours.bold(title)}  ${first ?? ""}`.trimEnd()]),
    ...rest.map((line) => `│    ${line}`),
    ...callLines(calls, colours).map((line) => `│    ${line}`),
  ];
}

/** Without a reply: calls of the turn before, which were decided; or nothing but what was noted. */
function titleOf(number: number, calls: number): string | null {
  if (calls === 0) return null;
  return number === 0 ? "calls that waited" : `step ${number + 1}`;
}

function itemLines(item: TimelineItem, { dim, red, yellow }: Colours): readonly string[] {
  switch (item.type) {
    case "model": {
      const facts = [spent(item.usage), duration(item.durationMs), item.finishReason ?? "", tries(item.attempt)].filter(
        Boolean,
      );
      return [
        `${item.model}  ${dim(facts.join(" · "))}`,
        ...(item.text === "" ? [] : [`${dim("»")} ${brief(item.text, 200)}`]),
        ...(item.failure === null ? [] : [red(`✗ ${brief(item.failure, 200)}`)]),
      ];
    }
    case "code":
      return [`code  ${dim(duration(item.durationMs))}  ${brief(item.said, 120)}`];
    case "note":
      return [noteLine(item.kind, brief(item.text, 200), yellow, dim)];
    case "tool":
      return [];
  }
}

type Paint = (text: string) => string;

function noteLine(kind: "again" | "heard" | "ended", text: string, yellow: Paint, dim: Paint): string {
  switch (kind) {
    case "again":
      return yellow(`↻ ${text}`);
    case "heard":
      return `${dim("«")} ${text}`;
    case "ended":
      return yellow(`■ ${text}`);
  }
}

function callLines(calls: readonly TimelineCall[], { dim, green, red, yellow, cyan }: Colours): readonly string[] {
  const names = Math.max(0, ...calls.map(({ name }) => cellWidth(name)));
  const longest = Math.max(1, ...calls.map(({ durationMs }) => durationMs ?? 0));
  const paint = { ok: green, failed: red, waits: yellow, asked: yellow, halted: yellow, cancelled: red };
  return calls.map((call) => {
    const { name, state, durationMs } = call;
    const length = durationMs === null ? 0 : Math.max(1, Math.round((durationMs / longest) * barWidth));
    const bar = cyan("━".repeat(length)) + " ".repeat(barWidth - length);
    const time = durationMs === null ? "" : duration(durationMs);
    const words = [brief(call.arguments, 60), tries(call.attempt)].filter(Boolean).join(" · ");
    return `${pad(name, names)}  ${bar}  ${pad(time, 8)}  ${paint[state](pad(state, 6))}  ${brief(call.said, 80)}  ${dim(words)}`;
  });
}

function tries(attempt: number): string {
  return attempt > 1 ? `try ${attempt}` : "";
}

/** Cut to the width of the terminal. A line that is cut has no colours: they might be cut too. */
function cut(line: string, columns: number): string {
  return cellWidth(line) <= columns ? line : fit(stripVTControlCharacters(line), columns);
}
