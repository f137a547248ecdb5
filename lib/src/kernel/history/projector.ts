// History to request.

import type { Message, ModelRequest } from "../../model/internal.ts";
import type { Turn, TurnMachineConfig } from "../machine/turn.ts";
import type { ContextProjector, ProjectorContext, TurnProtocol } from "../protocol/protocol.ts";

import { MisuseError, request, system, user } from "../../model/internal.ts";
import { renderHistory, renderPrompt } from "./prompt.ts";
import { itemsOf } from "./shared-list.ts";
import { renderTurnCausesPrompt } from "./turn-cause.ts";

/**
 * The request a conversation makes: instructions first, then history as a model reads it, what made the turn happen last. Causes
 * that are told there are not told a second time where history has them.
 */
export const ChatContextProjector: ContextProjector<TurnProtocol> = {
  project({ config, turn, useTools, overrides }: ProjectorContext<TurnProtocol>): ModelRequest {
    const { environment } = turn;
    const active = new Set(turn.turnCauses.map((cause) => cause.id));
    // Nearly always there is nothing to put in or to leave out.
    const plain = active.size === 0 && turn.transient.length === 0;
    const said = plain ? renderHistory(turn.history) : renderPrompt(shownMessages(turn).filter(isToldHere));
    const causes = renderTurnCausesPrompt(turn.turnCauses);
    const instructions = environment.instructions ?? "";
    const nudge = turn.finalize?.nudge ?? null;
    const messages: readonly Message[] = [
      ...(instructions.trim() === "" ? [] : [system(instructions)]),
      ...said,
      ...(causes === null ? [] : [user(causes)]),
      ...(nudge === null ? [] : [nudge]),
    ];
    const base = request([], {
      toolChoice: "auto",
      ...environment.params,
      ...overrides,
      model: environment.model,
      tools: useTools ? environment.tools : [],
      providerTools: useTools ? environment.providerTools : [],
      ...(useTools ? {} : { toolChoice: "none" }),
      scope: {
        sessionId: config.sessionId,
        frameId: null,
        requestId: `${turn.turnId}/${turn.step}/${turn.finalize === null ? "model" : "finalize"}`,
      },
    });
    // Not through the constructor: messages keep their identity, so that whoever encodes them can remember what it encoded.
    return { ...base, messages };

    function isToldHere({ role, id }: Message): boolean {
      return role !== "event" || id === null || !active.has(id);
    }
  },
};

/**
 * Returns the request of the model call that a turn waits for. Throws `MisuseError` if the turn is not waiting for
 * a model.
 */
export function projectRequest<P extends TurnProtocol>(config: TurnMachineConfig<P>, turn: Turn<P>): ModelRequest {
  if (turn.phase.type !== "awaiting_model") {
    throw new MisuseError(
      "invalid_argument",
      `projectRequest: the turn is ${turn.phase.type}, not waiting for a model`,
    );
  }
  const { useTools, overrides } = turn.phase;
  return config.projector.project({ config, turn, useTools, overrides });
}

/** History with what is shown in this turn only in its place. */
function shownMessages({ history, transient }: Turn<TurnProtocol>): readonly Message[] {
  const messages = itemsOf(history);
  if (transient.length === 0) return messages;
  const shown = itemsOf(transient);
  let next = 0;
  const at = (index: number): readonly Message[] => {
    const first = next;
    while (shown[next]?.at === index) next += 1;
    return shown.slice(first, next).map(({ message }) => message);
  };
  return messages.flatMap((message, index) => [...at(index), message]).concat(at(messages.length));
}
