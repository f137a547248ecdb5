// The effects that a turn is performing now, from its live events. The journal has them only after their commit; until then the timeline draws these.

import type { RuntimeEvent } from "../data/types.ts";
import type { OpenEffect } from "./layout.ts";
import type { TurnTimeline } from "everturn/client";

/** Effects by id. A model call has the id `model`, because its events do not name the effect; a turn makes one at a time. */
export type LiveEffects = {
  readonly model: { readonly startedAt: number; readonly firstAt: number | null; readonly isDone: boolean } | null;
  readonly tools: ReadonlyMap<string, { readonly name: string; readonly startedAt: number; readonly isDone: boolean }>;
};

export const noOpenEffects: LiveEffects = { model: null, tools: new Map() };

/** Applies events that arrived at a time (of the server's clock, in milliseconds). */
export function withEvents(
  live: LiveEffects,
  events: readonly RuntimeEvent[],
  at: number,
  timeline: TurnTimeline | null,
): LiveEffects {
  let { model } = live;
  const tools = new Map(live.tools);
  for (const { event } of events) {
    switch (event.type) {
      case "message_started":
        model = { startedAt: Math.min(at, lastEnd(timeline) ?? at), firstAt: null, isDone: false };
        break;
      case "text_delta":
      case "reasoning_delta":
      case "tool_call_started":
        if (model === null || model.isDone) {
          model = { startedAt: Math.min(at, lastEnd(timeline) ?? at), firstAt: at, isDone: false };
        } else if (model.firstAt === null) model = { ...model, firstAt: at };
        break;
      case "message_completed":
        if (model !== null) model = { ...model, isDone: true };
        break;
      case "tool_execution_started":
        tools.set(event.id, { name: event.name, startedAt: at, isDone: false });
        break;
      case "tool_execution_completed": {
        const tool = tools.get(event.id);
        if (tool !== undefined) tools.set(event.id, { ...tool, isDone: true });
        break;
      }
      case "step_reset":
        model = null;
        tools.clear();
        break;
      case "chat_completed":
        return noOpenEffects;
      default:
        break;
    }
  }
  return { model, tools };
}

/** Removes the effects whose rows were read: those that were done when the read began, and those that have a row. */
export function withTimeline(live: LiveEffects, timeline: TurnTimeline, atStart: LiveEffects): LiveEffects {
  if (timeline.turn.status === "ended") return noOpenEffects;
  const recorded = new Set(timeline.effects.map(({ toolCallId }) => toolCallId));
  const tools = new Map([...live.tools].filter(([id]) => !recorded.has(id) && atStart.tools.get(id)?.isDone !== true));
  const isRecorded = live.model !== null && live.model === atStart.model && live.model.isDone;
  return { model: isRecorded ? null : live.model, tools };
}

/** The effects to draw. A running turn without events of an effect calls the model: it has sent the request, and no content has arrived. */
export function openEffects({ model, tools }: LiveEffects, timeline: TurnTimeline): readonly OpenEffect[] {
  const { turn, effects } = timeline;
  if (turn.status !== "running") return [];
  const last = effects.at(-1);
  const step = last === undefined ? 0 : last.kind === "model" || last.kind === "tool" ? last.step : last.step + 1;
  const open: OpenEffect[] = [...tools].map(([id, { name, startedAt }]) => ({
    id,
    kind: "tool",
    name,
    step,
    startedAt,
    firstAt: null,
  }));
  const waitsForContent = open.length === 0 && model === null && last?.kind !== "model" && timeline.claims.length > 0;
  const call = model ?? (waitsForContent ? { startedAt: lastEnd(timeline) ?? turn.acceptedAt, firstAt: null } : null);
  if (call !== null) {
    const { startedAt, firstAt } = call;
    const modelStep = last === undefined ? 0 : effects.filter(({ kind }) => kind === "model").length;
    open.push({ id: "model", kind: "model", name: "model", step: modelStep, startedAt, firstAt });
  }
  return open;
}

/** When the newest row ended: the earliest time at which the next effect can have begun. After a takeover, the time of the claim. */
function lastEnd(timeline: TurnTimeline | null): number | null {
  if (timeline === null) return null;
  const ended = timeline.effects.at(-1)?.endedAt ?? null;
  const claimed = timeline.claims.at(-1)?.since ?? null;
  return ended === null ? claimed : claimed === null ? ended : Math.max(ended, claimed);
}
