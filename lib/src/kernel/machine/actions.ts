// What a protocol wants done, and how a turn comes to its end.

import type { DriverAction, TurnProtocol } from "../protocol/protocol.ts";
import type { Ending } from "./turn.ts";
import type { Work } from "./work.ts";

import { haltedReasonOf, runtimeFailure, user } from "../../model/internal.ts";
import { isTurnLimitDue } from "../protocol/protocol.ts";
import { pendingEffects } from "./turn.ts";

/** Applies what a protocol wants done, in order. Exactly one of its actions says where the turn goes from here. */
export function applyActions<P extends TurnProtocol>(work: Work<P>, actions: readonly DriverAction<P>[]): void {
  if (!isListOfActions(actions)) {
    return refuse(work, "a protocol has to answer with a list of actions that are known");
  }
  const directions = actions.filter(({ type }) => isDirection[type]);
  const [direction] = directions;
  if (directions.length !== 1) {
    return refuse(work, `a protocol has to start one thing or finish; it wanted ${directions.length} of them`);
  }
  if (actions.filter(({ type }) => type === "end_step").length > 1) {
    return refuse(work, "a protocol ended the same step twice");
  }
  if (direction?.type === "start_tools") {
    const slots = new Set(direction.calls.map(({ slot }) => slot));
    if (slots.size === 0 || slots.size < direction.calls.length) {
      return refuse(work, "a protocol has to start at least one call, each at a place of its own");
    }
  }
  // Whatever a list wants after its end is not done.
  const end = actions.findIndex(({ type }) => type === "finish");
  for (const action of end === -1 ? actions : actions.slice(0, end + 1)) apply(work, action);
  const { answered } = work.turn;
  const again = pendingEffects(work.turn).find(({ id }) => answered.includes(id));
  if (again !== undefined) refuse(work, `a protocol ordered ${again.id}, which has been answered already`);
}

/** Protocols may come from programs without a compiler. */
function isListOfActions(actions: unknown): boolean {
  return Array.isArray(actions) && actions.every((action) => Object.hasOwn(isDirection, action?.type ?? ""));
}

/** Which actions say where a turn goes. */
const isDirection: { readonly [T in DriverAction["type"]]: boolean } = {
  emit: false,
  append_events: false,
  end_step: false,
  advance_protocol_iteration: false,
  schedule_turn_limit_final: false,
  start_llm: true,
  start_tools: true,
  start_exec: true,
  start_checkpoint: true,
  finish: true,
};

function refuse<P extends TurnProtocol>(work: Work<P>, message: string): void {
  work.fail({ type: "runtime_error", failure: runtimeFailure("invalid_actions", { message }) });
}

function apply<P extends TurnProtocol>(work: Work<P>, action: DriverAction<P>): void {
  const { turnId, step } = work.turn;
  switch (action.type) {
    case "emit":
      return work.emit(action.event);
    case "append_events":
      work.append(action.messages);
      return work.record(action.events ?? []);
    case "end_step": {
      const { type: _, ...stepEnd } = action;
      return work.endStep(stepEnd);
    }
    case "advance_protocol_iteration":
      return work.nextStep(action.free ? 1 : 0);
    case "schedule_turn_limit_final":
      if (!isTurnLimitDue(work.turn)) return;
      work.append([action.message]);
      return work.update({ graceTurn: true });
    case "start_llm": {
      const { useTools, overrides, driverState } = action;
      return work.wait({ type: "awaiting_model", useTools, overrides, driverState });
    }
    case "start_tools": {
      const { calls } = action;
      return work.wait({ type: "awaiting_tools", calls, results: calls.map(() => null), cell: null });
    }
    case "start_exec": {
      const { language, code, driverState } = action;
      const begun = { executor: null, calls: [], environmentAfter: null };
      const cell = { id: `${turnId}/${step}/cell`, language, code, driverState, ...begun };
      return work.wait({ type: "awaiting_code", cell });
    }
    case "start_checkpoint": {
      const { checkpoint, onEmpty } = action;
      return work.wait({ type: "awaiting_checkpoint", checkpoint, onEmpty });
    }
    case "finish":
      return finish(work, action.ending);
  }
}

/** The loop is over; a turn that is to answer in a schema makes one more call first. */
export function finish<P extends TurnProtocol>(work: Work<P>, how: Ending): void {
  const { policy, graceTurn } = work.turn;
  if (how.outcome.type === "max_turns" && !graceTurn) work.sayTurnLimit();
  const wanted = policy.structuredFinalize;
  const reason = haltedReasonOf(how.outcome);
  const may = reason === "completed" || reason === "max_turns" || reason === "halt_when";
  if (wanted === null || !may || how.pendingToolCalls.length > 0) return work.end(how);
  const { turnId, step } = work.turn;
  const nudge = wanted.nudge === "" ? null : user(wanted.nudge, { id: `${turnId}/${step}/nudge` });
  const { name, schema, strict, type } = wanted.format;
  const overrides = { responseFormat: { type, name, schema, strict } };
  work.update({ finalize: { pass1: how, nudge } });
  work.wait({ type: "awaiting_model", useTools: false, overrides, driverState: null });
}
