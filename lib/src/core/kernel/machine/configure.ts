// Constructors with defaults for the configuration and the input of a turn.

import type { Json } from "../../model/internal.ts";
import type { TurnProtocol } from "../protocol/protocol.ts";
import type { TurnInput, TurnMachineConfig } from "./turn.ts";

import { ChatContextProjector } from "../history/projector.ts";
import { chatProtocol } from "../protocol/chat-protocol.ts";
import { kernelRevision } from "./turn.ts";

/** Builds the configuration of a machine. Defaults: the chat protocol, no tools, no limits. */
export function turnConfig(fields: Partial<TurnMachineConfig> = {}): TurnMachineConfig {
  return protocolConfig({ protocolDriver: chatProtocol(), termination: null, ...fields });
}

/** Builds the configuration of a machine with a protocol that has state types of its own. */
export function protocolConfig<P extends TurnProtocol>(fields: ConfigFields<P>): TurnMachineConfig<P> {
  return { ...defaults, ...fields };
}

const defaults = {
  projector: ChatContextProjector,
  syncEnvironment: false,
  startCheckpoint: false,
  sessionId: "",
  model: null,
  systemPrompt: "",
  toolSpecs: [],
  providerTools: [],
  generation: {},
  modelVariant: null,
  maxContextTokens: null,
  context: null,
  maxTurns: null,
  turnLimitFinalMessage: null,
  structuredFinalize: null,
  autonomous: false,
  stopAfter: null,
  emitLlmTrace: false,
};

/** For a protocol with types of its own, the driver and the end condition are required. */
type ConfigFields<P extends TurnProtocol> = Pick<TurnMachineConfig<P>, "protocolDriver" | "termination"> &
  Partial<TurnMachineConfig<P>>;

/** Builds the input of a turn. Only the id is required; history, records, messages and answers are empty by default. */
export function turnInput<Event extends Json = never>(
  turnId: string,
  fields: Partial<Omit<TurnInput<Event>, "turnId">> = {},
): TurnInput<Event> {
  const empty = { history: [], events: [], messages: [], turnCauses: [], answers: [], cell: null, runOffset: 0 };
  return { turnId, revision: kernelRevision, ...empty, contextWindow: null, ...fields };
}
