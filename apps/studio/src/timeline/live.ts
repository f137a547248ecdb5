// The effects that a turn is performing now, from what its live events change. The journal has them only after their
// commit; until then the timeline draws these.

import type { SeenEvent } from "../data/session-events.ts";
import type { TurnCall } from "everturn/advanced";
import type { TurnTimeline } from "everturn/client";
import type { OpenEffect } from "everturn/react";

/**
 * A model call or a tool that is being performed. `startedAt: null`: before the first event that was received; then it
 * began after the newest row.
 */
type LiveEffect = { readonly startedAt: number | null; readonly firstAt: number | null; readonly isDone: boolean };

/** A tool that is being performed. `attempts`: how often its handler was started. */
type LiveTool = LiveEffect & { readonly name: string; readonly attempts: number };

/** The effects of a turn. It makes one model call at a time; tools are by the id of their call. */
export type LiveEffects = {
  readonly model: LiveEffect | null;
  /** The summary of older messages that is being requested; the model call of the step follows it. */
  readonly compaction: Pick<LiveEffect, "startedAt"> | null;
  readonly tools: ReadonlyMap<string, LiveTool>;
  /** The newest reset of the step, and what it has discarded, until a row is recorded after it. */
  readonly reset: Reset | null;
};

type Reset = {
  readonly at: number;
  readonly reason: "crash" | "retry";
  readonly model: LiveEffect | null;
  readonly tools: LiveEffects["tools"];
};

export const noOpenEffects: LiveEffects = { model: null, compaction: null, tools: new Map(), reset: null };

/**
 * Applies events that arrived at a time (of the server's clock, in milliseconds). A group that begins with the start of
 * the turn repeats what happened before, for example after a reload: the times of its events are not known, and effects
 * that ended in it have rows.
 */
export function withEvents(live: LiveEffects, events: readonly SeenEvent[], at: number): LiveEffects {
  const isRepeated = events.length > 1 && events.some(({ event }) => event.type === "turn_started");
  const arrival = isRepeated ? null : at;
  let { model, compaction, reset } = live;
  let tools = new Map(live.tools);
  for (const { event, changes } of events) {
    if (event.type === "compaction_started") compaction = { startedAt: arrival };
    if (event.type === "compaction_ended") compaction = null;
    if (event.type === "message_started") model = { startedAt: null, firstAt: null, isDone: false };
    for (const change of changes) {
      switch (change.type) {
        case "text":
        case "reasoning":
        case "call_started":
          if (model === null || model.isDone) model = { startedAt: null, firstAt: arrival, isDone: false };
          else if (model.firstAt === null) model = { ...model, firstAt: arrival };
          break;
        case "reply":
          if (model !== null) model = { ...model, isDone: true };
          break;
        case "call_changed":
          withCall(tools, change.call, arrival);
          break;
        default:
          break;
      }
    }
    if (event.type !== "step_reset") continue;
    // A restart by `recover` supersedes rows, which the journal shows.
    if (arrival !== null && event.reason !== "restart") {
      reset = { at: arrival, reason: event.reason === "recovery" ? "crash" : "retry", model, tools };
    }
    model = null;
    tools = new Map();
  }
  if (!isRepeated) return { model, compaction, tools, reset };
  return {
    compaction,
    reset,
    model: model?.isDone === true ? null : model,
    tools: new Map([...tools].filter(([, { isDone }]) => !isDone)),
  };
}

/** Adds a tool when its handler is started; from then on until it has ended. */
function withCall(tools: Map<string, LiveTool>, { id, name, state, attempts }: TurnCall, at: number | null): void {
  const tool = tools.get(id);
  if (state !== "running") {
    if (tool !== undefined) tools.set(id, { ...tool, isDone: true });
  } else if (tool?.attempts !== attempts) {
    tools.set(id, { name, attempts, startedAt: at, firstAt: null, isDone: false });
  }
}

/** Removes the effects whose rows were read: those that were done when the read began, and those that have a row. */
export function withTimeline(live: LiveEffects, timeline: TurnTimeline, atStart: LiveEffects): LiveEffects {
  if (timeline.turn.status === "ended") return noOpenEffects;
  const recorded = new Set(timeline.effects.map(({ toolCallId }) => toolCallId));
  const tools = new Map([...live.tools].filter(([id]) => !recorded.has(id) && atStart.tools.get(id)?.isDone !== true));
  const isRecorded = live.model !== null && live.model === atStart.model && live.model.isDone;
  const { reset } = live;
  const isPast = reset !== null && (timeline.effects.at(-1)?.endedAt ?? 0) > reset.at;
  const { compaction } = live;
  return { model: isRecorded ? null : live.model, compaction, tools, reset: isPast ? null : reset };
}

/**
 * The effects to draw. A running turn without events of an effect calls the model: it has sent the request, and no
 * content has arrived.
 */
export function liveEffects(
  { model, compaction, tools, reset }: LiveEffects,
  timeline: TurnTimeline,
): readonly OpenEffect[] {
  const { turn, effects } = timeline;
  if (turn.status !== "running") return [];
  const last = effects.at(-1);
  const step = last === undefined ? 0 : last.kind === "model" || last.kind === "tool" ? last.step : last.step + 1;
  const recorded = new Set(effects.map(({ toolCallId }) => toolCallId));
  const before = lastEnd(timeline) ?? turn.acceptedAt;
  const begun = Math.max(before, reset?.at ?? 0);
  const modelStep = effects.filter(({ kind, state }) => kind === "model" && state !== "superseded").length;
  const open = [...tools].flatMap(([id, { name, startedAt }]): OpenEffect[] =>
    recorded.has(id)
      ? []
      : [{ id, kind: "tool", name, step, startedAt: startedAt ?? begun, firstAt: null, discarded: null }],
  );
  const lost = reset === null ? [] : discardedEffects(reset, before, { step, modelStep });
  if (compaction !== null) {
    const summary = { id: "compaction", kind: "compaction", name: "compaction", step: modelStep } as const;
    open.push({ ...summary, startedAt: compaction.startedAt ?? begun, firstAt: null, discarded: null });
  }
  const waitsForContent = open.length === 0 && model === null && last?.kind !== "model";
  if (model === null && !waitsForContent) return [...lost, ...open];
  const call = { id: "model", kind: "model", name: "model", step: modelStep, discarded: null } as const;
  return [...lost, ...open, { ...call, startedAt: model?.startedAt ?? begun, firstAt: model?.firstAt ?? null }];
}

/** What a reset has discarded. Without events of it, the process died before any content of a reply had arrived. */
function discardedEffects(
  { at, reason, model, tools }: Reset,
  before: number,
  { step, modelStep }: { readonly step: number; readonly modelStep: number },
): readonly OpenEffect[] {
  const discarded = { reason, endedAt: at };
  const lostTools = [...tools].map(([id, { name, startedAt }]): OpenEffect => {
    return { id: `lost:${id}`, kind: "tool", name, step, startedAt: startedAt ?? before, firstAt: null, discarded };
  });
  if (model === null && lostTools.length > 0) return lostTools;
  const call = { id: "lost:model", kind: "model", name: "model", step: modelStep, discarded } as const;
  return [...lostTools, { ...call, startedAt: model?.startedAt ?? before, firstAt: model?.firstAt ?? null }];
}

/**
 * When the newest row ended: the earliest time at which the next effect can have begun. After a takeover, the time of
 * the claim.
 */
function lastEnd(timeline: TurnTimeline): number | null {
  const ended = timeline.effects.at(-1)?.endedAt ?? null;
  const claimed = timeline.claims.at(-1)?.since ?? null;
  return ended === null ? claimed : claimed === null ? ended : Math.max(ended, claimed);
}
