// Renders a timeline as lines of text. The tool calls of one step start together, so their bars start in the same column, and the length of a bar is
// proportional to the duration.

import type { Colours } from "../terminal/style.ts";
import type { Timeline, TimelineCall, TimelineItem, TimelineStep } from "./timeline.ts";

import { stripVTControlCharacters } from "node:util";

import { callPath, visibleText } from "everturn/model";

import { cellWidth, fit, pad } from "../terminal/cells.ts";
import { safeLine } from "../terminal/safe-text.ts";
import { brief, duration, plural, spent } from "./text.ts";

/** The width of the longest bar of a step, in cells. */
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
    ...(isJournalGone ? [`│ ${dim("the journal of this turn has been deleted: its steps cannot be shown")}`] : []),
    ...steps.flatMap((step) => stepLines(step, colours)),
    ...failureLine(timeline, colours),
    `└─ ${paint(ending)}  ${dim(facts.join(" · "))}`,
  ];
  return Number.isFinite(columns) ? lines.map((line) => cut(line, columns)) : lines;
}

/** The halted reason, with the outcome if it adds information. */
function endingOf({ haltedReason, outcome }: NonNullable<Timeline["end"]>): string {
  const isRedundant = haltedReason === outcome.type || outcome.type === "assistant_message";
  return safeLine(isRedundant ? haltedReason : `${haltedReason} (${outcome.type})`);
}

function failureLine({ end }: Timeline, { red }: Colours): readonly string[] {
  if (end === null || !("failure" in end.outcome)) return [];
  return [`│ ${red(brief(end.outcome.failure.message, 300))}`];
}

function stepLines({ number, items }: TimelineStep, colours: Colours): readonly string[] {
  const calls = items.flatMap((item) => (item.type === "tool" ? [item.call] : []));
  const others = items.filter((item) => item.type !== "tool");
  // Notes before the reply, such as a takeover, are printed before the title of the step.
  const replyIndex = others.findIndex(({ type }) => type === "model" || type === "code");
  const [before, after] = replyIndex === -1 ? [others, []] : [others.slice(0, replyIndex), others.slice(replyIndex)];
  const [first, ...furtherLines] = after.flatMap((item) => itemLines(item, colours));
  const title = first === undefined ? titleOf(number, calls.length) : `step ${number + 1}`;
  return [
    ...before.flatMap((item) => itemLines(item, colours)).map((line) => `│  ${line}`),
    ...(title === null ? [] : [`├─ ${colours.bold(title)}  ${first ?? ""}`.trimEnd()]),
    ...furtherLines.map((line) => `│    ${line}`),
    ...callLines(calls, colours).map((line) => `│    ${line}`),
  ];
}

/** The title of a step without a reply: calls of the previous turn that were approved, or none if there are only notes. */
function titleOf(number: number, calls: number): string | null {
  if (calls === 0) return null;
  return number === 0 ? "approved calls" : `step ${number + 1}`;
}

function itemLines(item: TimelineItem, { dim, red, yellow }: Colours): readonly string[] {
  switch (item.type) {
    case "model": {
      const facts = [
        spent(item.usage),
        duration(item.durationMs),
        safeLine(item.finishReason ?? ""),
        attemptText(item.attempt),
      ].filter(Boolean);
      return [
        `${safeLine(item.model)}  ${dim(facts.join(" · "))}`,
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

function callLines(given: readonly TimelineCall[], { dim, green, red, yellow, cyan }: Colours): readonly string[] {
  const calls = given.map((call) => ({
    ...call,
    name: safeLine(call.shown === null ? call.name : callPath(call.shown)),
  }));
  const names = Math.max(0, ...calls.map(({ name }) => cellWidth(name)));
  const longest = Math.max(1, ...calls.map(({ durationMs }) => durationMs ?? 0));
  const paint = { ok: green, failed: red, waits: yellow, asked: yellow, halted: yellow, cancelled: red };
  return calls.map((call) => {
    const { name, state, durationMs } = call;
    const length = durationMs === null ? 0 : Math.max(1, Math.round((durationMs / longest) * barWidth));
    const bar = cyan("━".repeat(length)) + " ".repeat(barWidth - length);
    const time = durationMs === null ? "" : duration(durationMs);
    const args = visibleText(JSON.stringify(call.shown?.arguments ?? call.arguments));
    const words = [brief(args, 60), attemptText(call.attempt)].filter(Boolean).join(" · ");
    return `${pad(name, names)}  ${bar}  ${pad(time, 8)}  ${paint[state](pad(state, 6))}  ${brief(call.said, 80)}  ${dim(words)}`;
  });
}

function attemptText(attempt: number): string {
  return attempt > 1 ? `attempt ${attempt}` : "";
}

/** Cuts a line to the width of the terminal. A line that is cut loses its colours, because the cut could split an escape sequence. */
function cut(line: string, columns: number): string {
  return cellWidth(line) <= columns ? line : fit(stripVTControlCharacters(line), columns);
}
