// A protocol and a projector of one's own, for tests and for the crash matrix: the model guesses a word.

import type { NamedProjector, NamedProtocol } from "../core/kernel/internal.ts";

import { ChatContextProjector, chatProtocol, ending, replyMessage, replyStepEnd } from "../core/kernel/internal.ts";
import { user } from "../core/model/internal.ts";

/** The types of the protocol `guessing`. */
export type Guessing = {
  readonly event: { readonly guess: string };
  readonly termination: { readonly word: string };
  readonly driverState: { readonly tries: number };
};

const chatDriver = chatProtocol<Guessing>();

/**
 * The model guesses a word. Each guess is recorded, a call of a tool is that of the chat protocol, and the right guess
 * ends the turn with a value.
 */
export const guessing: NamedProtocol<Guessing> = {
  ...chatDriver,
  name: "guess",
  version: 1,
  termination: { word: "rain" },
  prepareProtocolIteration: (context) => [
    { type: "start_llm", useTools: true, overrides: {}, driverState: { tries: context.events().length } },
  ],
  handleLlmSuccess: (context, reply, state) => {
    if (reply.toolCalls.length > 0) return chatDriver.handleLlmSuccess(context, reply, state);
    const [guess, tries] = [reply.outputText ?? "", (state?.tries ?? 0) + 1];
    const message = replyMessage(reply, `${context.turnId}/${context.protocolIteration}/guess`);
    const events = [{ guess }];
    if (guess === context.termination.word) {
      return [
        { type: "append_events", messages: [message], events },
        { type: "end_step", ...replyStepEnd(reply) },
        { type: "finish", ending: ending({ type: "final_value", value: { guess, tries } }) },
      ];
    }
    return [
      { type: "append_events", messages: [message], events },
      { type: "end_step", ...replyStepEnd(reply) },
      { type: "advance_protocol_iteration", free: false },
      { type: "start_checkpoint", checkpoint: "after_work", onEmpty: { type: "prepare_iteration" } },
    ];
  },
};

/** Adds the number of recorded guesses to each request. */
export const counting: NamedProjector<Guessing> = {
  name: "counting",
  version: 1,
  project: (context) => {
    const request = ChatContextProjector.project(context);
    return { ...request, messages: [...request.messages, user(`${context.turn.events.length} guesses`)] };
  },
};
