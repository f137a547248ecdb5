// The origin of messages that neither the user nor the model wrote: plugins, external processes, and input that arrived during a turn.

import type { Shape } from "../parse/shape.ts";

import { boolean, count, fallback, nullable, object, oneOf, required, string, variant } from "../parse/shape.ts";

/** Where a message came from, if neither the user nor the model wrote it. */
export type MessageOrigin = PluginOrigin | ProcessOrigin | TurnInputOrigin;

/**
 * A message added by a host or a plugin. A transient one is shown to the model in this turn and not kept in the
 * history.
 */
export type PluginOrigin = {
  readonly type: "plugin";
  /** The plugin or host component that added the message. */
  readonly pluginId: string;
  /** Whether the message is left out of the history after its turn. The default is false. */
  readonly transient: boolean;
};

/** A message about an event of a process outside the conversation. `sequence` is the number of the event within that process. */
export type ProcessOrigin = {
  readonly type: "process";
  /** The external process. */
  readonly processId: string;
  /** The type of the event, in the terms of the process. */
  readonly eventType: string;
  /** The number of the event within the process. */
  readonly sequence: number;
  /** Identifies the wake-up of the session by this event; `null` if there is none. */
  readonly wakeId: string | null;
  /** The cause of the event; `null` if unknown. */
  readonly causedBy: CausalRef | null;
};

/** Input that arrived while a turn was running. */
type TurnInputOrigin = {
  readonly type: "turn_input";
  readonly turnId: string;
  readonly inputId: string | null;
};

/** A reference to the cause of an event. */
export type CausalRef =
  | { readonly type: "turn"; readonly sessionId: string; readonly turnId: string }
  | { readonly type: "effect"; readonly sessionId: string; readonly turnId: string | null; readonly effectId: string }
  | { readonly type: "tool_call"; readonly sessionId: string; readonly toolCallId: string }
  | { readonly type: "process"; readonly processId: string }
  | { readonly type: "process_event"; readonly processId: string; readonly sequence: number };

/** Returns whether a message with this origin is shown in its turn only and not kept in the history. */
export function isTransient(origin: MessageOrigin | null): boolean {
  return origin !== null && origin.type === "plugin" && origin.transient;
}

type Ref<Type extends CausalRef["type"]> = Extract<CausalRef, { readonly type: Type }>;

const causalRefShape: Shape<CausalRef> = variant<CausalRef, "type">("type", {
  turn: object<Ref<"turn">>({
    type: required(oneOf(["turn"])),
    sessionId: required(string),
    turnId: required(string),
  }),
  effect: object<Ref<"effect">>({
    type: required(oneOf(["effect"])),
    sessionId: required(string),
    turnId: fallback(nullable(string), null),
    effectId: required(string),
  }),
  tool_call: object<Ref<"tool_call">>({
    type: required(oneOf(["tool_call"])),
    sessionId: required(string),
    toolCallId: required(string),
  }),
  process: object<Ref<"process">>({ type: required(oneOf(["process"])), processId: required(string) }),
  process_event: object<Ref<"process_event">>({
    type: required(oneOf(["process_event"])),
    processId: required(string),
    sequence: required(count),
  }),
});

export const originShape: Shape<MessageOrigin> = variant<MessageOrigin, "type">("type", {
  plugin: object<PluginOrigin>({
    type: required(oneOf(["plugin"])),
    pluginId: required(string),
    transient: fallback(boolean, false),
  }),
  process: object<ProcessOrigin>({
    type: required(oneOf(["process"])),
    processId: required(string),
    eventType: required(string),
    sequence: required(count),
    wakeId: fallback(nullable(string), null),
    causedBy: fallback(nullable(causalRefShape), null),
  }),
  turn_input: object<TurnInputOrigin>({
    type: required(oneOf(["turn_input"])),
    turnId: required(string),
    inputId: fallback(nullable(string), null),
  }),
});
