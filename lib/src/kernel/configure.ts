// Configurations and inputs of turns, with what is not said filled in.

import type { TurnInput, TurnMachineConfig } from "./turn.ts";

import { chatProtocol } from "./chat-protocol.ts";
import { ChatContextProjector } from "./projector.ts";

/** A configuration; what is left out is the simplest there is: the chat protocol, no tools, no limits. */
export function turnConfig(fields: Partial<TurnMachineConfig> = {}): TurnMachineConfig {
  return {
    protocolDriver: chatProtocol(),
    projector: ChatContextProjector,
    syncEnvironment: false,
    sessionId: "",
    model: null,
    systemPrompt: "",
    toolSpecs: [],
    generation: {},
    modelVariant: null,
    maxContextTokens: null,
    maxTurns: null,
    turnLimitFinalMessage: null,
    structuredFinalize: null,
    autonomous: false,
    emitLlmTrace: false,
    termination: null,
    ...fields,
  };
}

/** What a turn begins with; only its name has to be said. */
export function turnInput(turnId: string, fields: Partial<Omit<TurnInput, "turnId">> = {}): TurnInput {
  return { turnId, history: [], messages: [], turnCauses: [], answers: [], runOffset: 0, ...fields };
}
