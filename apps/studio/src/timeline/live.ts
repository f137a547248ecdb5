// The effects that a turn is performing now, from its live events. The journal has them only after their commit; until then the timeline draws these.

import type { RuntimeEvent } from "../data/types.ts";
import type { OpenEffect } from "./layout.ts";
import type { TurnTimeline } from "everturn/client";

/** A model call or a tool that is being performed. `startedAt: null`: before the first event that was received; then it began after the newest row. */
type LiveEffect = { readonly startedAt: number | null; readonly firstAt: number | null; readonly isDone: boolean };

/** The effects of a turn. It makes one model call at a time; tools are by the id of their call. */
export type LiveEffects = {
  readonly model: LiveEffect | null;
  readonly tools: ReadonlyMap<string, LiveEffect & { readonly name: string }>;
};

export const noOpenEffects: LiveEffects = { model: null, tools: new Map() };

/**
 * Applies events that arrived at a time (of the server's clock, in milliseconds). A group that begins with the start of the turn repeats what happened before, for example
 * after a reload: the times of its events are not known, and effects that ended in it have rows.
 */
export function withEvents(live: LiveEffects, events: readonly RuntimeEvent[], at: number): LiveEffects {
  const isRepeated = events.length > 1 && events.some(({ event }) => event.type === "turn_started");
  const arrival = isRepeated ? null : at;
  let { model } = live;
  const tools = new Map(live.tools);
  for (const { event } of events) {
    switch (event.type) {
      case "message_started":
        model = { startedAt: null, firstAt: null, isDone: false };
        break;
      case "text_delta":
      case "reasoning_delta":
      case "tool_call_started":
        if (model === null || model.isDone) model = { startedAt: null, firstAt: arrival, isDone: false };
        else if (model.firstAt === null) model = { ...model, firstAt: arrival };
        break;
      case "message_completed":
        if (model !== null) model = { ...model, isDone: true };
        break;
      case "tool_execution_started":
        tools.set(event.id, { name: event.name, startedAt: arrival, firstAt: null, isDone: false });
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
  if (!isRepeated) return { model, tools };
  return {
    model: model?.isDone === true ? null : model,
    tools: new Map([...tools].filter(([, { isDone }]) => !isDone)),
  };
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
  const recorded = new Set(effects.map(({ toolCallId }) => toolCallId));
  const begun = lastEnd(timeline) ?? turn.acceptedAt;
  const open = [...tools].flatMap(([id, { name, startedAt }]): readonly OpenEffect[] =>
    recorded.has(id) ? [] : [{ id, kind: "tool", name, step, startedAt: startedAt ?? begun, firstAt: null }],
  );
  const waitsForContent = open.length === 0 && model === null && last?.kind !== "model";
  if (model === null && !waitsForContent) return open;
  const modelStep = effects.filter(({ kind, state }) => kind === "model" && state !== "superseded").length;
  const call = { id: "model", kind: "model", name: "model", step: modelStep } as const;
  return [...open, { ...call, startedAt: model?.startedAt ?? begun, firstAt: model?.firstAt ?? null }];
}

/** When the newest row ended: the earliest time at which the next effect can have begun. After a takeover, the time of the claim. */
function lastEnd(timeline: TurnTimeline): number | null {
  const ended = timeline.effects.at(-1)?.endedAt ?? null;
  const claimed = timeline.claims.at(-1)?.since ?? null;
  return ended === null ? claimed : claimed === null ? ended : Math.max(ended, claimed);
}
