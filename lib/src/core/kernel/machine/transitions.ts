// The transition table of the turn machine: which responses each phase accepts, which function applies each of them,
// and in which phases the turn can be afterwards. `advance` dispatches through this table, and transitions.test.ts
// checks every cell of it.
//
// A response is
//   stale        if the turn does not wait for an effect of its id: it was answered before, or the turn has ended
//   wrong_kind   if the turn waits for that effect, and the phase does not list the type of the response
//   accepted     otherwise
// Only an accepted response changes the turn (K4). `cancelTurn` and `failTurn` end a turn in any phase and are not in
// the table.
//
// A new phase, effect or response does not compile until it has its rows here.

import type { TurnProtocol } from "../protocol/protocol.ts";
import type { Effect, ResponsesByEffect } from "./effect.ts";
import type { EffectResponse } from "./response.ts";
import type { TransitionBuilder } from "./transition-builder.ts";
import type { Phase } from "./turn.ts";

import { answerCall } from "./batch.ts";
import { endCell, startCellCalls } from "./cells.ts";
import { compacted, compactionFailed, countFailed, tokensCounted } from "./context.ts";
import { deliverCheckpoint, modelFailed, modelReplied, syncEnvironment, syncFailed } from "./responses.ts";

type PhaseType = Phase["type"];
type ResponseType = EffectResponse["type"];

/** The phase in which a turn waits for each effect. */
type PhaseOf = {
  readonly sync_environment: "awaiting_environment";
  readonly call_model: "awaiting_model";
  readonly count_tokens: "awaiting_count";
  readonly compact: "awaiting_compaction";
  readonly call_tool: "awaiting_tools";
  readonly run_code: "awaiting_code";
  readonly checkpoint: "awaiting_checkpoint";
};

/** The responses that a phase accepts: those to the effect it waits for. */
type ResponsesIn<P extends PhaseType> = {
  [E in Effect["type"]]: PhaseOf[E] extends P ? ResponsesByEffect[E]["type"] : never;
}[Effect["type"]];

type Row<R extends ResponseType> = {
  /** Applies the response to the effect `id`. */
  readonly apply: <P extends TurnProtocol>(
    builder: TransitionBuilder<P>,
    response: Extract<EffectResponse, { readonly type: R }>,
    id: string,
  ) => void;
  /** The phases in which the turn can be afterwards. */
  readonly next: readonly PhaseType[];
};

/**
 * The phases that a protocol can choose with its actions. A structured call after the loop is `awaiting_model` as well.
 */
const protocolPhases = [
  "awaiting_model",
  "awaiting_count",
  "awaiting_compaction",
  "awaiting_tools",
  "awaiting_code",
  "awaiting_checkpoint",
  "ended",
] as const;

/** Phase × response type → function and following phases. */
export const transitions: { readonly [P in PhaseType]: { readonly [R in ResponsesIn<P>]: Row<R> } } = {
  awaiting_environment: {
    environment_synced: { apply: syncEnvironment, next: protocolPhases },
    environment_failed: { apply: syncFailed, next: ["ended"] },
  },
  awaiting_model: {
    model_replied: { apply: modelReplied, next: protocolPhases },
    // Not `ended` if the request was too long, and is repeated shorter.
    model_failed: { apply: modelFailed, next: ["awaiting_model", "awaiting_compaction", "ended"] },
  },
  awaiting_count: {
    tokens_counted: { apply: tokensCounted, next: ["awaiting_model", "awaiting_compaction"] },
    count_failed: { apply: countFailed, next: ["awaiting_model", "awaiting_compaction"] },
  },
  awaiting_compaction: {
    // `awaiting_compaction` if the messages are summarized in parts, `ended` if the usage overflows.
    compacted: { apply: compacted, next: ["awaiting_model", "awaiting_compaction", "ended"] },
    compaction_failed: { apply: compactionFailed, next: ["awaiting_model", "awaiting_compaction", "ended"] },
  },
  awaiting_tools: {
    // `awaiting_tools` while other calls of the batch are open.
    tool_returned: { apply: answerCall, next: protocolPhases },
    tool_waits: { apply: answerCall, next: protocolPhases },
  },
  awaiting_code: {
    // `awaiting_code` if every call names a tool that does not exist; `ended` if a call waits for the caller.
    code_calls: { apply: startCellCalls, next: ["awaiting_tools", "awaiting_code", "ended"] },
    code_finished: { apply: endCell, next: protocolPhases },
    code_failed: { apply: endCell, next: protocolPhases },
  },
  awaiting_checkpoint: {
    // The next step begins with the environment where the policy of the turn says so.
    checkpoint_delivered: { apply: deliverCheckpoint, next: ["awaiting_environment", ...protocolPhases] },
  },
  ended: {},
};

/** The row for a response in a phase; `undefined`: the phase does not accept responses of this type. */
export function transitionFor<R extends ResponseType>(phase: PhaseType, type: R): Row<R> | undefined {
  const rows: { readonly [T in ResponseType]?: Row<T> } = transitions[phase];
  return Object.hasOwn(rows, type) ? rows[type] : undefined;
}
