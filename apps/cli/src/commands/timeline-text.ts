// Renders the timeline of a turn as lines of text. The tool calls of one step start together, so their bars start in
// the same column, and the length of a bar is proportional to the duration. The timeline of the library cuts long texts
// and leaves out the arguments of calls; the rows of the turn record have them.

import type { Colours } from "../terminal/style.ts";
import type { JsonObject, Message, ShownCall } from "everturn";
import type { TimelineEffect } from "everturn/advanced";
import type { TurnTimeline } from "everturn/client";
import type { TurnRecord } from "everturn/runtime";

import { stripVTControlCharacters } from "node:util";

import { callPath, messageText, visibleText } from "everturn";

import { cellWidth, fit, pad } from "../terminal/cells.ts";
import { safeLine } from "../terminal/safe-text.ts";
import { brief, duration, plural, spent } from "./text.ts";

/** The width of the longest bar of a step, in cells. */
const barWidth = 20;

type Row = TurnRecord["data"]["rows"][number];
type Response = Extract<Row["item"], { readonly type: "response" }>["response"];

/** A turn: what the storage shows of it, and its stored rows. */
export type ShownTurn = { readonly timeline: TurnTimeline; readonly record: TurnRecord };

/**
 * An effect with its row; `null`: it was committed after the record was read. `continues`: another process performed
 * the effect before it.
 */
type Entry = { readonly effect: TimelineEffect; readonly row: Row | null; readonly continues: boolean };

export function timelineText({ timeline, record }: ShownTurn, colours: Colours, columns: number): readonly string[] {
  const { bold, dim, green, yellow, red } = colours;
  const { turnId, acceptedAt } = timeline.turn;
  const { end } = record.data;
  const cost = end === null ? "" : spent(end.usage);
  const ending = end === null ? "open" : endingOf(end);
  const paint =
    end === null ? yellow : end.haltedReason === "completed" ? green : end.haltedReason === "error" ? red : yellow;
  const steps = stepsOf(timeline, record.data.rows);
  const facts = [plural(end?.steps ?? steps.size, "step"), ...(cost === "" ? [] : [cost])];
  const lines = [
    `${bold(`turn ${turnId}`)}  ${dim(new Date(acceptedAt).toISOString())}`,
    ...inputTexts(record).map((text) => `│ ${dim("«")} ${brief(text, 200)}`),
    ...(timeline.isJournalRemoved
      ? [`│ ${dim("the journal of this turn has been deleted: its steps cannot be shown")}`]
      : []),
    ...[...steps].flatMap(([step, entries]) => stepLines(step, entries, colours)),
    ...failureLine(end, colours),
    `└─ ${paint(ending)}  ${dim(facts.join(" · "))}`,
  ];
  return Number.isFinite(columns) ? lines.map((line) => cut(line, columns)) : lines;
}

/** The messages and decisions that started a turn. */
export function inputTexts({ data: { history, start } }: TurnRecord): readonly string[] {
  return [
    ...[...history.slice(-1), ...start.messages].flatMap(inputText),
    ...start.answers.map((answer) => {
      const { name } = answer.call;
      return answer.type === "result" ? `${name} was answered` : `${name}: ${answer.decision.type}`;
    }),
  ];
}

/** The text of a user message or a tool result; empty for other messages. */
function inputText(message: Message): readonly string[] {
  if (message.role === "user") return [messageText(message)];
  return message.role === "tool" ? [`${message.name ?? "a tool"}: ${messageText(message)}`] : [];
}

/** The effects by step, in order. */
function stepsOf({ effects }: TurnTimeline, rows: readonly Row[]): ReadonlyMap<number, readonly Entry[]> {
  const steps = new Map<number, Entry[]>();
  for (const [index, effect] of effects.entries()) {
    const continues = index > 0 && effects[index - 1]?.epoch !== effect.epoch;
    const entry = { effect, row: rows[effect.ordinal - 1] ?? null, continues };
    steps.set(effect.step, [...(steps.get(effect.step) ?? []), entry]);
  }
  return new Map([...steps].toSorted(([a], [b]) => a - b));
}

type TurnEnd = NonNullable<TurnRecord["data"]["end"]>;

/** The halted reason, with the outcome if it adds information. */
function endingOf({ haltedReason, outcome }: TurnEnd): string {
  const isRedundant = haltedReason === outcome.type || outcome.type === "assistant_message";
  return safeLine(isRedundant ? haltedReason : `${haltedReason} (${outcome.type})`);
}

function failureLine(end: TurnEnd | null, { red }: Colours): readonly string[] {
  if (end === null || !("failure" in end.outcome)) return [];
  return [`│ ${red(brief(end.outcome.failure.message, 300))}`];
}

function stepLines(step: number, entries: readonly Entry[], colours: Colours): readonly string[] {
  const calls = entries.filter(({ effect }) => effect.kind === "tool");
  // Notes before the reply, such as a takeover, are printed before the title of the step.
  const replyIndex = entries.findIndex(({ effect: { kind } }) => kind === "model" || kind === "code");
  const before = replyIndex === -1 ? entries : entries.slice(0, replyIndex);
  const after = replyIndex === -1 ? [] : entries.slice(replyIndex);
  const reply = after[0];
  const [first, ...further] = after.flatMap((entry) => [
    ...(entry === reply ? [] : attemptLines(entry, colours)),
    ...effectLines(entry, colours),
  ]);
  const notes = [
    ...before.flatMap((entry) => [...attemptLines(entry, colours), ...effectLines(entry, colours)]),
    ...(reply === undefined ? [] : attemptLines(reply, colours)),
  ];
  const title = first === undefined ? titleOf(step, calls.length) : `step ${step + 1}`;
  return [
    ...notes.map((line) => `│  ${line}`),
    ...(title === null ? [] : [`├─ ${colours.bold(title)}  ${first ?? ""}`.trimEnd()]),
    ...further.map((line) => `│    ${line}`),
    ...callLines(calls, colours).map((line) => `│    ${line}`),
  ];
}

/**
 * The title of a step without a reply: calls of the previous turn that were approved, or none if there are only notes.
 */
function titleOf(step: number, calls: number): string | null {
  if (calls === 0) return null;
  return step === 0 ? "approved calls" : `step ${step + 1}`;
}

/** The attempts before the recorded one. */
function attemptLines({ effect, continues }: Entry, { yellow }: Colours): readonly string[] {
  const retries = effect.discarded
    .filter(({ reason }) => reason === "retry")
    .map(({ delayMs, failure }) => `retried after ${delayMs ?? 0} ms: ${failure?.message ?? "failed"}`);
  return [...retries, ...(continues ? ["another process continued from here"] : [])].map((text) =>
    yellow(`↻ ${brief(text, 200)}`),
  );
}

/** An effect that is no tool call. `effect.text` is cut at 200 characters, as lines are. */
function effectLines({ effect, row }: Entry, { dim, red, yellow }: Colours): readonly string[] {
  const { kind, state, name, failure, attempt } = effect;
  const response = responseOf(row);
  const text = brief(effect.text, 200);
  switch (kind) {
    case "model": {
      const facts = [
        effect.usage === null ? "" : spent(effect.usage),
        timeText(effect),
        safeLine(response?.type === "model_replied" ? (response.reply.finishReason ?? "") : "error"),
        attemptText(attempt),
      ].filter(Boolean);
      const hasText = response?.type !== "model_replied" || (response.reply.outputText ?? "") !== "";
      return [
        `${safeLine(name ?? "model")}  ${dim(facts.join(" · "))}`,
        ...(text === "" || !hasText ? [] : [`${dim("»")} ${text}`]),
        ...(failure === null ? [] : [red(`✗ ${brief(failure.message, 200)}`)]),
      ];
    }
    case "count":
      if (failure !== null) return [yellow(`■ the tokens were not counted: ${brief(failure.message, 200)}`)];
      return [`count of the next request: ${text}  ${dim(timeText(effect))}`];
    case "compaction": {
      const facts = [effect.usage === null ? "" : spent(effect.usage), timeText(effect), attemptText(attempt)];
      return [
        `summary of old messages  ${dim(facts.filter(Boolean).join(" · "))}`,
        ...(text === "" ? [] : [`${dim("»")} ${text}`]),
        ...(failure === null ? [] : [red(`✗ ${brief(failure.message, 200)}`)]),
      ];
    }
    case "code": {
      const calls = response?.type === "code_calls" ? "calls " : "";
      const failed = response?.type === "code_failed" ? response.message : "";
      return [`code  ${dim(timeText(effect))}  ${brief(`${calls}${effect.text}${failed}`, 120)}`];
    }
    case "checkpoint":
      if (state === "halted") return [yellow(`■ stopped: ${text}`)];
      return text === "" ? [] : [`${dim("«")} ${text}`];
    case "environment": {
      if (failure !== null) return [yellow(`■ failed: ${brief(failure.message, 200)}`)];
      const isUnchanged = response?.type === "environment_synced" && response.environment === null;
      return isUnchanged ? [] : [`${dim("«")} model, instructions or tools changed`];
    }
    case "cancel":
      return [yellow(text === "" ? "■ cancelled" : `■ cancelled: ${text}`)];
    case "failure":
      return [yellow(`■ failed: ${brief(failure?.message ?? "", 200)}`)];
    case "restart":
      return [yellow(`↻ step ${effect.step + 1} was restarted`)];
    case "tool":
      return [];
  }
}

function callLines(entries: readonly Entry[], colours: Colours): readonly string[] {
  const { dim, green, red, yellow, cyan } = colours;
  const calls = entries.map(({ effect, row }) => {
    const call = callOf(row);
    const shown = call.shown === null ? (effect.name ?? "tool") : callPath(call.shown);
    return { ...call, effect, name: safeLine(shown), durationMs: durationOf(effect) };
  });
  const names = Math.max(0, ...calls.map(({ name }) => cellWidth(name)));
  const longest = Math.max(1, ...calls.map(({ durationMs }) => durationMs ?? 0));
  const paint = {
    ok: green,
    failed: red,
    denied: yellow,
    waits: yellow,
    halted: yellow,
    cancelled: red,
    superseded: dim,
  };
  return calls.map(({ name, effect, shown, arguments: args, durationMs }) => {
    const { state, attempt, text, failure } = effect;
    const length = durationMs === null ? 0 : Math.max(1, Math.round((durationMs / longest) * barWidth));
    const bar = cyan("━".repeat(length)) + " ".repeat(barWidth - length);
    const time = timeText(effect);
    const ran = visibleText(JSON.stringify(shown?.arguments ?? args));
    const retries = effect.discarded.filter(({ reason }) => reason === "retry").length;
    const words = [brief(ran, 60), attemptText(Math.max(attempt, retries + 1))].filter(Boolean).join(" · ");
    return `${pad(name, names)}  ${bar}  ${pad(time, 8)}  ${paint[state](pad(state, 6))}  ${brief(failure?.message ?? text, 80)}  ${dim(words)}`;
  });
}

/**
 * The arguments a tool ran with, or was called with if it did not run. `shown`: what runs if a waiting call is
 * approved, if that is not the call itself.
 */
function callOf(row: Row | null): { readonly arguments: JsonObject; readonly shown: ShownCall | null } {
  const response = responseOf(row);
  const { call }: { readonly call?: { readonly arguments?: JsonObject | null } } = JSON.parse(row?.effect ?? "{}");
  const ran = response?.type === "tool_returned" ? response.ranArguments : null;
  return { arguments: ran ?? call?.arguments ?? {}, shown: response?.type === "tool_waits" ? response.shown : null };
}

function responseOf(row: Row | null): Response | null {
  return row?.item.type === "response" ? row.item.response : null;
}

/** How long an effect took; `null`: the row is of an older release, or the call still waits. */
function durationOf({ startedAt, endedAt, state }: TimelineEffect): number | null {
  return startedAt === null || endedAt === null || state === "waits" ? null : endedAt - startedAt;
}

function timeText(effect: TimelineEffect): string {
  const ms = durationOf(effect);
  return ms === null ? "" : duration(ms);
}

function attemptText(attempt: number): string {
  return attempt > 1 ? `attempt ${attempt}` : "";
}

/**
 * Cuts a line to the width of the terminal. A line that is cut loses its colours, because the cut could split an escape
 * sequence.
 */
function cut(line: string, columns: number): string {
  return cellWidth(line) <= columns ? line : fit(stripVTControlCharacters(line), columns);
}
