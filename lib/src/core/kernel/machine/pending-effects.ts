// Derives the effects that a turn waits for from its state (K2), and their ids. Equal states have equal effects and ids
// (K6). The ids are stored and do not change.

import type { TurnProtocol } from "../protocol/protocol.ts";
import type { CallModel, Effect } from "./effect.ts";
import type { Phase, SlottedCall, Turn } from "./turn.ts";

import { isLastCheckpoint } from "./turn.ts";

/**
 * The effects a turn waits for. They are derived from the state and never stored, so a restored turn orders them again
 * (K2).
 */
export function pendingEffects(turn: Turn<TurnProtocol>): readonly Effect[] {
  const { phase } = turn;
  const id = (name: string) => `${turn.turnId}/${turn.step}/${name}`;
  switch (phase.type) {
    case "awaiting_environment":
      return [{ type: "sync_environment", id: id("environment"), updateMachineConfig: phase.update }];
    case "awaiting_model": {
      const { useTools, overrides } = phase;
      const { length, digest } = turn.history;
      return [
        {
          type: "call_model",
          id: modelEffectId(turn),
          step: turn.step,
          environment: turn.environmentDigest,
          history: { length, digest },
          ...sentOf(turn),
          useTools,
          overrides,
        },
      ];
    }
    case "awaiting_count": {
      const { step, environmentDigest: environment } = turn;
      const { length, digest } = turn.history;
      const history = { length, digest };
      const name = `count${callSuffix(turn)}`;
      return [{ type: "count_tokens", id: id(name), step, environment, history, ...sentOf(turn) }];
    }
    case "awaiting_compaction": {
      const { frame, from, to } = phase;
      const { length, digest } = turn.history;
      const history = { length, digest };
      return [
        {
          type: "compact",
          id: id(`compact${callSuffix(turn)}${partSuffix(phase.rest)}`),
          step: turn.step,
          frame,
          from,
          to,
          history,
          ...sentOf(turn),
        },
      ];
    }
    case "awaiting_tools":
      return phase.calls.flatMap((call, index) => (phase.results[index] === null ? [callTool(turn, call)] : []));
    case "awaiting_code": {
      const { language, code, calls, executor, id: cellId } = phase.cell;
      const name = `code/${calls.length}`;
      return [{ type: "run_code", id: id(name), language, cellId, code, answers: calls.length, executor }];
    }
    case "awaiting_checkpoint":
      return [
        { type: "checkpoint", id: id(phase.checkpoint), checkpoint: phase.checkpoint, last: isLastCheckpoint(turn) },
      ];
    case "ended":
      return [];
  }
}

/**
 * The pending effect with this id, or `null`. `advance` looks up the effect of every response; in a batch of n calls
 * this function builds one effect object for it instead of n.
 */
export function pendingEffect(turn: Turn<TurnProtocol>, id: string): Effect | null {
  const { phase } = turn;
  if (phase.type !== "awaiting_tools") return pendingEffects(turn).find((effect) => effect.id === id) ?? null;
  const slot = Number(id.slice(id.lastIndexOf("/") + 1));
  if (id !== callEffectId(turn, slot)) return null;
  const index = phase.calls.findIndex((call) => call.slot === slot);
  const call = phase.calls[index];
  return call === undefined || phase.results[index] !== null ? null : callTool(turn, call);
}

/**
 * Do both states wait for the same batch of calls? Then the calls that are still open were ordered already. Compared by
 * identity: a transition inside a batch keeps the list `calls`.
 */
export function isSameBatch({ phase: before }: Turn<TurnProtocol>, { phase: after }: Turn<TurnProtocol>): boolean {
  return before.type === "awaiting_tools" && after.type === "awaiting_tools" && before.calls === after.calls;
}

/** What the requests of a turn with context limits leave out of the history. */
function sentOf({ policy, contextWindow }: Turn<TurnProtocol>): Pick<CallModel, "sent"> {
  // Truthiness: a turn that an older release stored has no such field.
  if (!policy.context) return {};
  const { frame, prunedBefore } = contextWindow;
  return { sent: { frame: frame?.id ?? null, prunedBefore } };
}

/**
 * What the ids of counts, compactions and frames of a step end with: the structured call after the loop may compact in
 * the same step as the model call before it, and so may the repetition of a request that was too long.
 */
export function callSuffix({ finalize, overflowed }: Turn<TurnProtocol>): string {
  return `${finalize === null ? "" : "/finalize"}${overflowed ? "/overflow" : ""}`;
}

/** What the ids of the compactions and frames of the later parts of a range end with. */
export function partSuffix(rest: Extract<Phase, { readonly type: "awaiting_compaction" }>["rest"]): string {
  // Truthiness: a turn of an older build has no such field.
  return rest && rest.part > 1 ? `/${rest.part}` : "";
}

/** The effect id of the model call of a step. */
export function modelEffectId({ turnId, step, finalize, overflowed }: Turn<TurnProtocol>): string {
  const name = finalize === null ? "model" : "finalize";
  return `${turnId}/${step}/${name}${overflowed ? "/overflow" : ""}`;
}

function callTool(turn: Turn<TurnProtocol>, { call, slot, decision, idempotencyKey }: SlottedCall): Effect {
  const id = callEffectId(turn, slot);
  return { type: "call_tool", id, call, decision, idempotencyKey: idempotencyKey ?? id };
}

/** The effect id of the call with this slot of the reply of a step. */
export function toolEffectId(turn: Pick<Turn, "turnId" | "step">, slot: number): string {
  return `${turn.turnId}/${turn.step}/tool/${slot}`;
}

/** The effect id of a call in the current phase, of the reply or of the cell. */
export function callEffectId(turn: Turn<TurnProtocol>, slot: number): string {
  const { phase, turnId, step } = turn;
  const inCell = phase.type === "awaiting_code" || (phase.type === "awaiting_tools" && phase.cell !== null);
  return inCell ? `${turnId}/${step}/cell/${slot}` : toolEffectId(turn, slot);
}
