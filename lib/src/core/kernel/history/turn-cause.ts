// Turn causes: events outside the conversation that start a turn or join it, such as a finished process or a
// notification of a plugin.
//
// The model reads the causes in one block at the end of the request. The text of the block is fixed: prompts and prompt
// caches depend on it.

import type { EventMessage, MessageOrigin, TurnCause } from "../../model/internal.ts";

import { eventMessage } from "../../model/internal.ts";

export type { TurnCause } from "../../model/internal.ts";

/** Returns the event message that the history keeps for a cause. */
export function toEventMessage(cause: TurnCause): EventMessage {
  return eventMessage(cause.text, { id: cause.id, origin: cause.origin });
}

/**
 * Renders the prompt block that tells the model which events caused the turn. Returns `null` for an empty list.
 *
 * @example
 * ```ts
 * import { renderTurnCausesPrompt } from "everturn/advanced";
 *
 * const origin = { type: "plugin", pluginId: "mail", transient: false } as const;
 * renderTurnCausesPrompt([{ id: "w1", eventType: "mail.new", origin, text: " Two letters. " }]);
 * // => "=== TURN EVENTS ===\n\n--- event[0] · mail.new · w1 ---\nOrigin: plugin mail\n\nTwo letters."
 * ```
 */
export function renderTurnCausesPrompt(causes: readonly TurnCause[]): string | null {
  if (causes.length === 0) return null;
  const blocks = causes.map(
    ({ id, eventType, origin, text }, index) =>
      `--- event[${index}] · ${eventType} · ${id} ---\nOrigin: ${renderMessageOrigin(origin)}\n\n${text.trim()}`,
  );
  return ["=== TURN EVENTS ===", ...blocks].join("\n\n");
}

/** Renders the origin of a message as text for a model. */
export function renderMessageOrigin(origin: MessageOrigin): string {
  switch (origin.type) {
    case "plugin":
      return origin.transient ? `plugin ${origin.pluginId} (transient)` : `plugin ${origin.pluginId}`;
    case "process": {
      const event = `process ${origin.processId} ${origin.eventType} #${origin.sequence}`;
      return origin.wakeId === null ? event : `${event} (${origin.wakeId})`;
    }
    case "turn_input":
      return origin.inputId === null
        ? `turn input on turn ${origin.turnId}`
        : `turn input ${origin.inputId} on turn ${origin.turnId}`;
  }
}
