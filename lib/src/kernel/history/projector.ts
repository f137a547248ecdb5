// The default projector: builds the request of a model call from the history and the environment of a turn.
//
// The request is not stored. It is computed when the effect is performed, and again for a replay or a retry, so the projector must be pure.

import type { Message, ModelRequest } from "../../model/internal.ts";
import type { RequestConfig, Turn } from "../machine/turn.ts";
import type { ContextProjector, ProjectorContext, TurnProtocol } from "../protocol/protocol.ts";

import { MisuseError, request, systemMessageOf, userMessageOf } from "../../model/internal.ts";
import { renderHistory, renderPrompt } from "./prompt.ts";
import { itemsOf } from "./shared-list.ts";
import { renderTurnCausesPrompt } from "./turn-cause.ts";

/**
 * The request of a conversation: instructions, the rendered history, the block of turn causes, and the nudge of the structured call. A cause in the
 * block is left out of the history, so that the model does not read it twice.
 */
export const ChatContextProjector: ContextProjector<TurnProtocol> = {
  project({ config, turn, useTools, overrides }: ProjectorContext<TurnProtocol>): ModelRequest {
    const { environment } = turn;
    const active = new Set(turn.turnCauses.map((cause) => cause.id));
    // The common case has no causes and no transient messages and renders only what is new.
    const isPlain = active.size === 0 && turn.transient.length === 0;
    const conversation = isPlain
      ? renderHistory(turn.history)
      : renderPrompt(withTransient(turn).filter(isOutsideCauseBlock));
    const causes = renderTurnCausesPrompt(turn.turnCauses);
    const instructions = environment.instructions ?? "";
    const nudge = turn.finalize?.nudge ?? null;
    const messages: readonly Message[] = [
      ...(instructions.trim() === "" ? [] : [systemMessageOf(instructions)]),
      ...conversation,
      ...(causes === null ? [] : [userMessageOf(causes)]),
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
    // The constructor would copy the messages. They keep their identity, so that a codec can cache what it encoded by message.
    return { ...base, messages };

    function isOutsideCauseBlock({ role, id }: Message): boolean {
      return role !== "event" || id === null || !active.has(id);
    }
  },
};

/**
 * Returns the request of the model call that a turn waits for. Throws `MisuseError` if the turn is not waiting for
 * a model.
 */
export function projectRequest<P extends TurnProtocol>(config: RequestConfig<P>, turn: Turn<P>): ModelRequest {
  if (turn.phase.type !== "awaiting_model") {
    throw new MisuseError(
      "invalid_argument",
      `projectRequest: the turn is ${turn.phase.type}, not waiting for a model`,
    );
  }
  const { useTools, overrides } = turn.phase;
  return config.projector.project({ config, turn, useTools, overrides });
}

/** The history with the transient messages of the turn inserted at their positions. Linear. */
function withTransient({ history, transient }: Turn<TurnProtocol>): readonly Message[] {
  const messages = itemsOf(history);
  if (transient.length === 0) return messages;
  const inserts = itemsOf(transient);
  let next = 0;
  const at = (index: number): readonly Message[] => {
    const first = next;
    while (inserts[next]?.at === index) next += 1;
    return inserts.slice(first, next).map(({ message }) => message);
  };
  return messages.flatMap((message, index) => [...at(index), message]).concat(at(messages.length));
}
