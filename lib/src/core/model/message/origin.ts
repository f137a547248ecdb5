// The origin of messages that neither the user nor the model wrote: plugins, external processes, and input that arrived
// during a turn.

import type { Infer, InferUnion, Shape } from "../parse/shape.ts";

import { boolean, count, fallback, literal, nullable, object, required, string, variant } from "../parse/shape.ts";

const pluginFields = {
  type: literal("plugin"),
  /** The plugin or host component that added the message. */
  pluginId: required(string),
  /** Whether the message is left out of the history after its turn. The default is false. */
  transient: fallback(boolean, false),
};

/**
 * A message added by a host or a plugin. A transient one is shown to the model in this turn and not kept in the
 * history.
 */
export type PluginOrigin = Infer<typeof pluginFields>;

const causeCases = {
  turn: { sessionId: required(string), turnId: required(string) },
  effect: { sessionId: required(string), turnId: fallback(nullable(string), null), effectId: required(string) },
  tool_call: { sessionId: required(string), toolCallId: required(string) },
  process: { processId: required(string) },
  process_event: { processId: required(string), sequence: required(count) },
};

/** A reference to the cause of an event. */
export type CausalRef = InferUnion<"type", typeof causeCases>;

const causalRefShape: Shape<CausalRef> = variant("type", causeCases);

const processFields = {
  type: literal("process"),
  /** The external process. */
  processId: required(string),
  /** The type of the event, in the terms of the process. */
  eventType: required(string),
  /** The number of the event within the process. */
  sequence: required(count),
  /** Identifies the wake-up of the session by this event; `null` if there is none. */
  wakeId: fallback(nullable(string), null),
  /** The cause of the event; `null` if unknown. */
  causedBy: fallback(nullable(causalRefShape), null),
};

/**
 * A message about an event of a process outside the conversation. `sequence` is the number of the event within that
 * process.
 */
export type ProcessOrigin = Infer<typeof processFields>;

const turnInputFields = {
  type: literal("turn_input"),
  turnId: required(string),
  inputId: fallback(nullable(string), null),
};

/** Input that arrived while a turn was running. */
type TurnInputOrigin = Infer<typeof turnInputFields>;

/** Where a message came from, if neither the user nor the model wrote it. */
export type MessageOrigin = PluginOrigin | ProcessOrigin | TurnInputOrigin;

export const originShape: Shape<MessageOrigin> = variant("type", {
  plugin: object(pluginFields),
  process: object(processFields),
  turn_input: object(turnInputFields),
});

/** Returns whether a message with this origin is shown in its turn only and not kept in the history. */
export function isTransient(origin: MessageOrigin | null): boolean {
  return origin !== null && origin.type === "plugin" && origin.transient;
}
