// Computes what the timeline of a turn shows: lanes, bars, commits, crashes, the time axis, the critical path and the
// totals. Pure: the same rows give the same layout. plot.tsx draws it; draw.ts selects what is visible.
//
// Rules
//   1. Every row of the journal is a commit. A model call, compaction, tool call or code cell is also a bar; bookkeeping rows
//      (checkpoint, environment, restart) are commits only.
//   2. Calls of one tool share a lane unless they overlap: then each parallel slot has a lane of its own.
//   3. An attempt whose result was not recorded is a bar of its own, in the lane of its effect.
//   4. A wait for a person ends the turn. Its bar ends when the next turn begins, or grows until then.
//   5. Times are in milliseconds since the turn was accepted, by the clock of the server.
//   6. The cost is O(n log n) in the number of rows.

import type { DiscardedAttempt, TimelineEffect, TurnClaim, TurnTimeline } from "../../../core/model/internal.ts";
import type { Span, TimeScale } from "./time-scale.ts";

import { costText, countText, durationText } from "../texts.ts";
import { lastIndexAt, timeScaleOf } from "./time-scale.ts";

/** What a lane holds. `queue`: the turn waits for a process or a limit. */
type LaneKind = "model" | "compaction" | "tool" | "code" | "agent" | "person" | "queue";

export type Lane = {
  readonly kind: LaneKind;
  /** The name of the tool, or of the kind. Parallel slots of one tool have the same label. */
  readonly label: string;
  /** 0: of the turn itself; 1: of a child agent; 2: of its child. */
  readonly depth: number;
  /** The label of the lane of the call in which the child ran; `null`: of the turn itself. */
  readonly parent: string | null;
};

/**
 * What a bar shows. Each has its own hue and its own second sign: hatching for `discarded`, dots for `wait`, an outline
 * for open ones.
 */
type BarKind = "model" | "compaction" | "tool" | "code" | "agent" | "wait" | "queue" | "discarded";

export type Bar = {
  /** Unique in the layout, and stable while the turn runs. */
  readonly id: string;
  /** The index of its lane. */
  readonly lane: number;
  readonly kind: BarKind;
  readonly start: number;
  readonly end: number;
  /** When the first content arrived; `null`: not known. */
  readonly first: number | null;
  /** Still being performed, or still waiting. */
  readonly isOpen: boolean;
  /** The row of the journal, or the row that the only open effect will have; `null`: not known, or no effect. */
  readonly ordinal: number | null;
  /** The child turn whose journal has the row; `null`: the turn itself. */
  readonly turnId: string | null;
  readonly step: number;
  readonly name: string;
  readonly state: TimelineEffect["state"] | DiscardedAttempt["reason"] | "open";
};

/** A row of the journal on the axis. */
type Commit = { readonly ordinal: number; readonly time: number; readonly isBookkeeping: boolean };

/** A process that ended, and the process that took over. Times are in milliseconds since the turn was accepted. */
export type Crash = {
  readonly time: number;
  readonly resumedAt: number;
  /** The process that ended; `null`: not known. */
  readonly died: string | null;
  readonly continued: string;
  /** The number of rows that were recorded before, which the new process replays and does not perform again. */
  readonly replayed: number;
};

/** Tokens and cost of a step. `null`: unknown. */
export type StepUsage = {
  readonly step: number;
  readonly start: number;
  readonly end: number;
  readonly inputTokens: number | null;
  readonly cachedInputTokens: number | null;
  readonly outputTokens: number | null;
  readonly cost: number | null;
};

/** What a turn used and how long it worked. Times are in milliseconds, costs in US dollars; `null`: not known. */
export type Totals = {
  /** The time in which something was performed whose result was recorded, or an attempt that failed, in milliseconds. */
  readonly activeMs: number;
  /**
   * The time that crashes cost: from the start of what they interrupted until another process took over. When the
   * process died in between is not recorded.
   */
  readonly lostMs: number;
  /** The time in which the turn waited for a person, a process or a limit, and nothing was performed. */
  readonly waitingMs: number;
  readonly steps: number;
  readonly commits: number;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly cost: number | null;
  /** From acceptance to the first content of the first reply; `null`: not known. */
  readonly firstTokenMs: number | null;
  /** Attempts without a recorded result. */
  readonly discarded: number;
};

export type TurnLayout = {
  readonly lanes: readonly Lane[];
  /**
   * The bars of each lane, by start. Bars of one lane do not overlap, except in the last of very many parallel slots.
   */
  readonly bars: readonly (readonly Bar[])[];
  readonly commits: readonly Commit[];
  readonly crashes: readonly Crash[];
  readonly steps: readonly StepUsage[];
  readonly scale: TimeScale;
  /** The end of the axis, in milliseconds. */
  readonly end: number;
  readonly totals: Totals;
  /** The rows have no times, because an older release wrote them: the axis shows their order only. */
  readonly isOrderOnly: boolean;
};

/**
 * An effect that is being performed, as live events show it: the journal has no row of it yet. Times are in milliseconds
 * since 1970-01-01 UTC.
 */
export type OpenEffect = {
  readonly id: string;
  readonly kind: "model" | "compaction" | "tool";
  readonly name: string;
  readonly step: number;
  readonly startedAt: number;
  readonly firstAt: number | null;
  /**
   * The attempt has ended without a result, and the row of the effect, which will say so, is not recorded yet; `null`:
   * it is being performed.
   */
  readonly discarded: { readonly reason: DiscardedAttempt["reason"]; readonly endedAt: number } | null;
};

export type LayoutOptions = {
  /** Effects that are being performed now. Default: none. */
  readonly open?: readonly OpenEffect[];
  /** The present time of the server, in milliseconds. Default: `now` of the timeline. */
  readonly now?: number;
  /** When the next turn of the session was accepted: the end of waits; `null`: there is none. Default: `null`. */
  readonly nextTurnAt?: number | null;
};

/** Parallel calls of one tool beyond this number share the last lane. */
const maxSlots = 12;
/** The length of a row without times, in milliseconds. */
const untimedMs = 100;
/** A turn that is accepted and claimed within this time was not queued. */
const queueMs = 250;

/** Computes the layout of a turn from all rows of its timeline. */
export function layoutOf(timeline: TurnTimeline, options: LayoutOptions = {}): TurnLayout {
  const { turn, effects, claims } = timeline;
  const origin = turn.acceptedAt;
  const now = Math.max(options.now ?? timeline.now, origin) - origin;
  const isOrderOnly = effects.length > 0 && effects.every(({ startedAt }) => startedAt === null);
  const slots = new LaneSet();
  const commits: Commit[] = [];
  const nextTurnAt = options.nextTurnAt ?? null;
  const waitEnd = nextTurnAt === null ? now : nextTurnAt - origin;
  const isWaiting = nextTurnAt === null;
  let before = 0;

  // A process has a claim once it has recorded a row.
  const queuedUntil = claims[0] === undefined ? (turn.status === "queued" ? now : 0) : claims[0].since - origin;
  if (!isOrderOnly && queuedUntil > queueMs) {
    slots.add(plainLane("queue", "queue"), queuedUntil, [
      { ...plainBar("queue", "queue", 0, queuedUntil), isOpen: claims.length === 0 },
    ]);
  }
  for (const effect of effects) {
    const span = spanOf(effect, origin, before, isOrderOnly);
    before = Math.max(before, span.end);
    commits.push({ ordinal: effect.ordinal, time: before, isBookkeeping: !isPerformed(effect) });
    if (!isPerformed(effect)) continue;
    const { ordinal, step, state } = effect;
    const name = effect.name ?? effect.kind;
    if (state === "waits") {
      const end = Math.max(span.end, waitEnd);
      const bar = { ...plainBar(`r${ordinal}`, "wait", span.start, end), ordinal, step, name, state };
      slots.add(plainLane("person", "person"), end, [{ ...bar, isOpen: isWaiting }]);
      continue;
    }
    const kind = effect.children.length > 0 ? "agent" : effect.kind === "tool" ? "tool" : effect.kind;
    if (!isBar(kind)) continue;
    const discarded = discardedBars(effect, origin, span);
    // Retries are inside the effect: the bar of the recorded attempt begins after the last of them.
    const start = discarded.reduce((at, bar) => (bar.end <= span.end ? Math.max(at, bar.end) : at), span.start);
    const first = effect.firstAt === null ? null : effect.firstAt - origin;
    const bar: Bar = { ...plainBar(`r${ordinal}`, kind, start, span.end), ordinal, step, name, state, first };
    slots.add(laneOf(kind, name), span.end, [...discarded, bar]);
  }
  const agents = new Set(timeline.open.flatMap(({ toolCallId, children }) => (children.length > 0 ? toolCallId : [])));
  const performed = (options.open ?? []).filter(({ discarded }) => discarded === null);
  for (const open of options.open ?? []) {
    const start = Math.max(0, open.startedAt - origin);
    const { id, step, name, discarded } = open;
    const kind = agents.has(id) ? "agent" : open.kind;
    const first = open.firstAt === null ? null : open.firstAt - origin;
    const end = Math.max(start, discarded === null ? now : discarded.endedAt - origin);
    // Its row will be the next one, if nothing else can be recorded before.
    const ordinal = discarded === null && performed.length === 1 ? (effects.at(-1)?.ordinal ?? 0) + 1 : null;
    const bar = { ...plainBar(`open:${id}`, kind, start, end), ordinal, step, name, first };
    slots.add(laneOf(kind, name), end, [
      discarded === null
        ? { ...bar, state: "open", isOpen: true }
        : { ...bar, kind: "discarded", state: discarded.reason },
    ]);
  }

  const { lanes, bars } = slots.result();
  const all = bars.flat();
  const end = Math.max(
    1,
    all.reduce((last, bar) => Math.max(last, bar.end), 0),
    commits.at(-1)?.time ?? 0,
  );
  const lost = all.filter(({ kind, state }) => kind === "discarded" && state === "crash");
  const active = all.filter((bar) => bar.kind !== "wait" && bar.kind !== "queue" && !lost.includes(bar));
  // A process may have been dead for hours, so only the ends of what it lost keep their place on the axis.
  const moments = [...commits.map(({ time }) => time), ...lost.flatMap(({ start, end: until }) => [start, until])].map(
    (time) => ({ start: time, end: time }),
  );
  const crashes = [...crashesOf(claims, effects, origin), ...newCrashes(timeline, options.open ?? [])];
  return {
    lanes,
    bars,
    commits,
    crashes,
    steps: stepsOf(effects, all),
    scale: timeScaleOf([...active, ...moments], end),
    end,
    totals: totalsOf(timeline, { all, active, lost }, crashes),
    isOrderOnly,
  };
}

/** Whether a row is a bar: an effect that takes time. */
function isPerformed({ kind }: TimelineEffect): boolean {
  return isBar(kind);
}

type PerformedKind = "model" | "compaction" | "tool" | "code" | "agent";

function isBar(kind: TimelineEffect["kind"] | PerformedKind): kind is PerformedKind {
  return kind === "model" || kind === "compaction" || kind === "tool" || kind === "code" || kind === "agent";
}

function plainBar(id: string, kind: BarKind, start: number, end: number): Bar {
  const plain = { first: null, isOpen: false, ordinal: null, turnId: null, step: 0, name: kind, state: "ok" } as const;
  return { id, lane: 0, kind, start, end, ...plain };
}

function plainLane(kind: Lane["kind"], label: string): Lane {
  return { kind, label, depth: 0, parent: null };
}

function laneOf(kind: PerformedKind, name: string): Lane {
  return plainLane(kind, kind === "tool" || kind === "agent" ? name : kind);
}

/** When a row was performed. A row without times follows the rows before it. */
function spanOf(effect: TimelineEffect, origin: number, before: number, isOrderOnly: boolean): Span {
  if (isOrderOnly) return { start: before, end: before + (isPerformed(effect) ? untimedMs : untimedMs / 10) };
  const start = effect.startedAt === null ? before : Math.max(0, effect.startedAt - origin);
  return { start, end: Math.max(start, effect.endedAt === null ? start : effect.endedAt - origin) };
}

/** The attempts of an effect that were not recorded, as far as their times are known. */
function discardedBars({ ordinal, step, name, kind, discarded }: TimelineEffect, origin: number, span: Span): Bar[] {
  if (discarded.length === 0) return [];
  return discarded.flatMap((attempt, index) => {
    const from = attempt.startedAt ?? (attempt.reason === "retry" ? span.start + origin : attempt.endedAt);
    if (from === null) return [];
    const start = Math.max(0, from - origin);
    const end = Math.max(start, (attempt.endedAt ?? from) - origin);
    const bar = plainBar(`r${ordinal}.${index}`, "discarded", start, end);
    return [{ ...bar, ordinal, step, name: name ?? kind, state: attempt.reason }];
  });
}

/** Assigns bars to lanes: the first slot of the lane's name that is free when the bars begin. */
class LaneSet {
  readonly #slots = new Map<string, { readonly lane: Lane; readonly bars: Bar[]; end: number; first: number }[]>();

  /** Adds the bars of one effect, which end at `end`, to one slot. */
  add(lane: Lane, end: number, bars: readonly Bar[]): void {
    const start = bars.reduce((first, bar) => Math.min(first, bar.start), end);
    const key = `${lane.kind}:${lane.label}`;
    const slots = this.#slots.get(key) ?? [];
    this.#slots.set(key, slots);
    let slot =
      slots.find((candidate) => candidate.end <= start) ?? (slots.length < maxSlots ? undefined : slots.at(-1));
    if (slot === undefined) {
      slot = { lane, bars: [], end: 0, first: start };
      slots.push(slot);
    }
    slot.bars.push(...bars);
    slot.end = Math.max(slot.end, end);
    slot.first = Math.min(slot.first, start);
  }

  /** The slots in the order of the plot: the model first, then by their first bar, slots of one name together. */
  #ordered(): readonly { readonly lane: Lane; readonly bars: readonly Bar[] }[] {
    const groups = [...this.#slots.values()].toSorted((a, b) => {
      const [left, right] = [a[0], b[0]];
      return left === undefined || right === undefined
        ? 0
        : rankOf(left.lane) - rankOf(right.lane) || left.first - right.first;
    });
    return groups.flat();
  }

  /** The lanes with their bars. */
  result(): Pick<TurnLayout, "lanes" | "bars"> {
    const slots = this.#ordered();
    const bars = slots.map((slot, lane) =>
      slot.bars.map((bar) => ({ ...bar, lane })).toSorted((a, b) => a.start - b.start || a.end - b.end),
    );
    return { lanes: slots.map(({ lane }) => lane), bars };
  }
}

function rankOf({ kind }: Lane): number {
  return kind === "queue" ? 0 : kind === "model" ? 1 : kind === "compaction" ? 2 : 3;
}

/** The claims that followed a crash. */
function crashesOf(claims: readonly TurnClaim[], effects: readonly TimelineEffect[], origin: number): readonly Crash[] {
  return claims.flatMap((claim, index) => {
    // A process may hold the session since an earlier turn: its takeover belongs to that turn.
    if (!claim.takesOver || claim.since < origin) return [];
    const died = claims[index - 1] ?? null;
    const ends = effects.flatMap(({ discarded }) =>
      discarded.flatMap(({ reason, epoch, endedAt }) =>
        reason === "crash" && endedAt !== null && epoch < claim.epoch && epoch >= (died?.epoch ?? 0) ? [endedAt] : [],
      ),
    );
    const resumedAt = Math.max(0, claim.since - origin);
    const time = ends.length === 0 ? resumedAt : Math.max(0, Math.min(claim.since, Math.max(...ends)) - origin);
    const replayed = effects.filter(({ epoch }) => epoch < claim.epoch).length;
    return [{ time, resumedAt, died: died?.owner ?? null, continued: claim.owner, replayed }];
  });
}

/** A crash whose successor has not claimed the turn yet: only live events show it. */
function newCrashes({ turn, claims, effects }: TurnTimeline, open: readonly OpenEffect[]): readonly Crash[] {
  const lost = open.find(({ discarded }) => discarded?.reason === "crash")?.discarded ?? null;
  const newest = claims.at(-1);
  // A successor without a row is the newest claim, and the process that died is the one before it.
  const isClaimed = newest?.takesOver === true && !effects.some(({ epoch }) => epoch >= newest.epoch);
  if (lost === null || isClaimed) return [];
  const time = Math.max(0, lost.endedAt - turn.acceptedAt);
  const died = claims.at(-1)?.owner ?? null;
  return [{ time, resumedAt: time, died, continued: "Another process", replayed: effects.length }];
}

/** Tokens and cost by step, of steps that have some. A step lasts until its last bar ends. */
function stepsOf(effects: readonly TimelineEffect[], bars: readonly Bar[]): readonly StepUsage[] {
  const spans = new Map<number, { start: number; end: number }>();
  for (const { kind, step, start, end } of bars) {
    if (kind === "wait" || kind === "queue") continue;
    const span = spans.get(step);
    if (span === undefined) spans.set(step, { start, end });
    else {
      span.start = Math.min(span.start, start);
      span.end = Math.max(span.end, end);
    }
  }
  const steps = new Map<number, StepUsage>();
  for (const { step, usage } of effects) {
    const span = spans.get(step);
    if (usage === null || span === undefined) continue;
    const sum = steps.get(step);
    steps.set(step, {
      step,
      ...span,
      inputTokens: plus(sum?.inputTokens ?? null, usage.inputTokens),
      cachedInputTokens: plus(sum?.cachedInputTokens ?? null, usage.cachedInputTokens),
      outputTokens: plus(sum?.outputTokens ?? null, usage.outputTokens),
      cost: plus(sum?.cost ?? null, usage.totalCost),
    });
  }
  return [...steps.values()]
    .filter(({ inputTokens, outputTokens, cost }) =>
      [inputTokens, outputTokens, cost].some((value) => (value ?? 0) > 0),
    )
    .toSorted((a, b) => a.start - b.start);
}

function plus(left: number | null, right: number | null): number | null {
  return left === null ? right : right === null ? left : left + right;
}

function totalsOf(
  { turn, effects }: TurnTimeline,
  { all, active, lost }: { readonly [name in "all" | "active" | "lost"]: readonly Bar[] },
  crashes: readonly Crash[],
): Totals {
  const waits = all.filter(({ kind }) => kind === "wait" || kind === "queue");
  // Between a crash and the takeover no process works, whatever the effect that was interrupted spans.
  const dead = crashes.map(({ time, resumedAt }) => ({ start: time, end: resumedAt }));
  const deadMs = coveredMs(dead);
  const activeMs = coveredMs([...active, ...dead]) - deadMs;
  const lostMs = coveredMs([...active, ...dead, ...lost]) - activeMs;
  const usages = effects.map(({ usage }) => usage);
  const summed = turn.end === null ? usages : [turn.end.usage];
  const sum = (field: "inputTokens" | "outputTokens" | "totalCost"): number | null =>
    summed.reduce<number | null>((total, usage) => plus(total, usage?.[field] ?? null), null);
  const firstAt = effects.find((effect) => effect.firstAt !== null)?.firstAt ?? null;
  return {
    activeMs,
    lostMs,
    waitingMs: coveredMs([...active, ...dead, ...lost, ...waits]) - activeMs - lostMs,
    steps: new Set(effects.filter(({ kind }) => kind === "model").map(({ step }) => step)).size,
    commits: effects.length,
    inputTokens: sum("inputTokens"),
    outputTokens: sum("outputTokens"),
    cost: sum("totalCost"),
    firstTokenMs: firstAt === null ? null : firstAt - turn.acceptedAt,
    discarded: effects.reduce((total, { discarded }) => total + discarded.length, 0),
  };
}

/** The length of the union of periods. */
function coveredMs(spans: readonly Span[]): number {
  let covered = 0;
  let until = Number.NEGATIVE_INFINITY;
  for (const { start, end } of spans.toSorted((a, b) => a.start - b.start)) {
    covered += Math.max(0, end - Math.max(start, until));
    until = Math.max(until, end);
  }
  return covered;
}

/**
 * Effects are ordered by a commit, which takes time: a predecessor may end this much after its successor began, by the
 * clocks of two processes.
 */
const clockToleranceMs = 2;

/**
 * The ids of the bars on the critical path: the chain of effects that determined when the turn ended. From the bar that
 * ends last, each step goes back to the bar that ended last before it began. Of parallel tools, this is the one that
 * ended last.
 */
export function criticalPath({ bars }: Pick<TurnLayout, "bars">): ReadonlySet<string> {
  // What ran inside a call is a part of it.
  const own = bars.flat().filter(({ turnId }) => turnId === null);
  const byEnd = own.toSorted((a, b) => a.end - b.end || a.start - b.start);
  const path = new Set<string>();
  let current = byEnd.at(-1);
  let limit = byEnd.length - 1;
  while (current !== undefined) {
    path.add(current.id);
    const { start } = current;
    limit = Math.min(
      limit - 1,
      lastIndexAt(byEnd, ({ end }) => end <= start + clockToleranceMs),
    );
    current = byEnd[limit];
  }
  return path;
}

/**
 * The playhead after one step: at the commit before (`-1`) or after (`1`) it. Before the first commit it is at the start
 * of the turn; after the last one it shows the present, `null`.
 */
export function neighbourCommit(
  { commits }: Pick<TurnLayout, "commits">,
  at: number | null,
  direction: -1 | 1,
): number | null {
  const times = commits.map(({ time }) => time).toSorted((a, b) => a - b);
  const time = at ?? Infinity;
  if (direction === 1) return times.find((other) => other > time + 0.5) ?? null;
  return times.findLast((other) => other < time - 0.5) ?? 0;
}

/** The bars in the order of the keyboard: by start, then by lane. */
export function barsInOrder({ bars }: Pick<TurnLayout, "bars">): readonly Bar[] {
  return bars.flat().toSorted((a, b) => a.start - b.start || a.lane - b.lane);
}

/** The texts that a bar may show, the longest first. */
export function barLabels(bar: Bar): readonly string[] {
  const length = durationText(bar.end - bar.start);
  switch (bar.kind) {
    case "model":
      return [`step ${bar.step + 1} · ${length}`, length, `${bar.step + 1}`];
    case "wait":
      return [bar.isOpen ? `waits ${length}` : `waited ${length}`, length];
    case "queue":
      return [`queued ${length}`, length];
    case "discarded":
      return bar.state === "crash"
        ? [`discarded · ${length}`, "discarded", "✕"]
        : [`failed · ${length}`, "failed", "✕"];
    case "compaction":
    case "tool":
    case "code":
    case "agent":
      return bar.state === "failed" || bar.state === "denied" ? [`${bar.state} · ${length}`, length] : [length];
  }
}

/**
 * The name of a bar for screen readers and tooltips: kind, name, step, duration, state. It contains each text of
 * {@link barLabels}, so that speech input finds the bar.
 */
export function barTitle(bar: Bar): string {
  const parts = [kindWords[bar.kind]];
  if (bar.kind === "tool" || bar.kind === "agent" || bar.kind === "wait") parts.push(bar.name);
  // The longest label follows without other words in between; the label of a model call begins with its step.
  const [label = ""] = barLabels(bar);
  if (bar.kind !== "queue" && bar.kind !== "model") parts.push(`step ${bar.step + 1}`);
  parts.push(label.replace(" · ", ", "));
  if (bar.kind === "discarded") parts.push(bar.state === "crash" ? "ended by a crash" : "retried");
  else if (bar.isOpen) parts.push("still open");
  else if (bar.state !== "ok" && bar.state !== "waits" && !label.startsWith(bar.state)) parts.push(bar.state);
  return parts.join(", ");
}

const kindWords: { readonly [kind in BarKind]: string } = {
  model: "model call",
  compaction: "compaction",
  tool: "tool",
  code: "code",
  agent: "child agent",
  wait: "person",
  queue: "queued",
  discarded: "attempt",
};

/** The heading of the totals: `6.6 s active · 1.2 s lost · 4 m 12 s waiting · 14 commits`. */
export function totalsText({ activeMs, lostMs, waitingMs, commits }: Totals): readonly string[] {
  return [
    `${durationText(activeMs)} active`,
    ...(lostMs >= 50 ? [`${durationText(lostMs)} lost`] : []),
    ...(waitingMs >= 50 ? [`${durationText(waitingMs)} waiting`] : []),
    `${countText(commits)} ${commits === 1 ? "commit" : "commits"}`,
  ];
}

/** Tokens and cost of a step in a few characters: `1.8 k · $0.0042`. */
export function stepText({ inputTokens, outputTokens, cost: dollars }: StepUsage): string {
  const tokens = plus(inputTokens, outputTokens);
  return [tokens === null ? "" : `${shortCount(tokens)} tok`, costText(dollars)]
    .filter((text) => text !== "")
    .join(" · ");
}

function shortCount(value: number): string {
  return value < 1000 ? `${value}` : `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} k`;
}
