// Applies the actions that a protocol returns, and ends turns.
//
// A list of actions is valid if it is a list of known actions, exactly one of them is a direction (start a model call,
// tools, code or a checkpoint, or finish), it ends the step at most once, it orders no effect that was answered
// already, and the protocol's own values in it are JSON. An invalid list fails the turn with `invalid_actions`; without
// this check a protocol with a bug would leave a turn that waits for nothing (a stall), performs an effect twice, or
// stores what cannot be read back.

import type { JsonObject } from "../../model/internal.ts";
import type { Shape } from "../../model/parse/reading.ts";
import type { DriverAction, TurnProtocol } from "../protocol/protocol.ts";
import type { TransitionBuilder } from "./transition-builder.ts";
import type { Ending, SlottedCall, Turn } from "./turn.ts";

import { finalizeNudgeMetadata, haltedReasonOf, isAboutStorage, runtimeFailure, user } from "../../model/internal.ts";
import {
  array,
  eventShape,
  isPlainObject,
  jsonObject,
  messageShape,
  outcomeShape,
  pendingToolCallShape,
  read,
  toolCallShape,
} from "../../model/parse/reading.ts";
import { ending, maxTurnsEnding } from "../protocol/ending.ts";
import { pendingCall } from "../protocol/halts.ts";
import { isTurnLimitDue } from "../protocol/protocol.ts";
import { replyStepEnd } from "../protocol/reply-message.ts";
import { waitForModel } from "./context.ts";
import { deliverDeferred } from "./deliver.ts";
import { pendingEffects, toolEffectId } from "./pending-effects.ts";

/** Applies the actions of a protocol in order. Actions after `finish` are ignored. */
export function applyActions<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  actions: readonly DriverAction<P>[],
): void {
  if (!isListOfActions(actions)) {
    return reject(builder, "the protocol must return a list of known actions");
  }
  const directions = actions.filter(({ type }) => isDirection[type]);
  const [direction] = directions;
  if (directions.length !== 1) {
    return reject(
      builder,
      `the protocol must return one action that starts an effect or finishes, not ${directions.length}`,
    );
  }
  if (actions.filter(({ type }) => type === "end_step").length > 1) {
    return reject(builder, "the protocol returned end_step twice");
  }
  const wrongField = firstOf(actions, malformedField);
  if (wrongField !== null) return reject(builder, `the protocol returned ${wrongField}, which the machine cannot read`);
  if (direction?.type === "start_tools") {
    const slots = new Set(direction.calls.map(({ slot }) => slot));
    if (slots.size === 0 || slots.size < direction.calls.length) {
      return reject(builder, "start_tools must have at least one call, and every call a slot of its own");
    }
  }
  const unstorable = actions.map(unstorableValue).find((path) => path !== null) ?? null;
  if (unstorable !== null) return reject(builder, `the protocol returned ${unstorable}, which is not JSON`);
  const end = actions.findIndex(({ type }) => type === "finish");
  for (const action of end === -1 ? actions : actions.slice(0, end + 1)) apply(builder, action);
  // An effect with a recorded response is never performed again (H1), so a protocol must not order it again.
  const { answered } = builder.turn;
  const reordered = pendingEffects(builder.turn).find(({ id }) => answered.includes(id));
  if (reordered !== undefined) reject(builder, `the protocol ordered ${reordered.id}, which was answered already`);
}

/**
 * Checks at run time, because a protocol may be written in JavaScript. `hasOwn` also rejects names such as
 * `constructor`.
 */
function isListOfActions(actions: unknown): boolean {
  return Array.isArray(actions) && actions.every((action) => Object.hasOwn(isDirection, action?.type ?? ""));
}

/**
 * The field of an action that does not have the form of its type; `null`: none. The compiler checks it for protocols in
 * TypeScript. An ending is read like a stored one: the session could not be read again otherwise.
 */
function malformedField(action: DriverAction): string | null {
  switch (action.type) {
    case "emit":
      return malformed("emit.event", eventShape, action.event);
    case "append_events":
      if (action.events !== undefined && !Array.isArray(action.events)) return "append_events.events";
      return malformed("append_events.messages", array(messageShape), action.messages);
    case "start_tools":
      if (!Array.isArray(action.calls) || !action.calls.every(isPlainObject)) return "start_tools.calls";
      return firstOf(action.calls, ({ call }, at) => malformed(`start_tools.calls.${at}.call`, toolCallShape, call));
    case "start_checkpoint": {
      const { onEmpty } = action;
      if (!isPlainObject(onEmpty)) return "start_checkpoint.onEmpty";
      return onEmpty.type === "finish" ? malformedEnding("start_checkpoint.onEmpty.ending", onEmpty.ending) : null;
    }
    case "finish":
      return malformedEnding("finish.ending", action.ending);
    case "end_step":
    case "start_llm":
    case "start_exec":
    case "advance_protocol_iteration":
      return null;
    case "schedule_turn_limit_final":
      return malformed("schedule_turn_limit_final.message", messageShape, action.message);
  }
}

/** The first path that is not `null`. */
function firstOf<T>(items: readonly T[], pathOf: (item: T, index: number) => string | null): string | null {
  for (const [index, item] of items.entries()) {
    const path = pathOf(item, index);
    if (path !== null) return path;
  }
  return null;
}

/**
 * Where a value does not have this shape; `null`: nowhere. Data that only cannot be stored pass, as those of a reply do
 * (`completeResponse`).
 */
function malformed<T>(path: string, shape: Shape<T>, value: unknown): string | null {
  const result = read(shape, value);
  const issue = "value" in result ? undefined : result.issues.find(({ code }) => !isAboutStorage.has(code));
  return issue === undefined ? null : [path, ...issue.path].join(".");
}

function malformedEnding(path: string, value: unknown): string | null {
  if (!isPlainObject(value)) return path;
  const outcome = read(outcomeShape, value["outcome"]);
  if (!("value" in outcome)) return [path, "outcome", ...(outcome.issues[0]?.path ?? [])].join(".");
  const calls = read(array(pendingToolCallShape), value["pendingToolCalls"]);
  if (!("value" in calls)) return [path, "pendingToolCalls", ...(calls.issues[0]?.path ?? [])].join(".");
  // Without a pending call there is nothing to approve, so the session would wait forever.
  return outcome.value.type === "approval" && calls.value.length === 0 ? `${path}.pendingToolCalls` : null;
}

/** Where an action has a value of the protocol's own that cannot be stored as JSON; `null`: nowhere. */
function unstorableValue(action: DriverAction): string | null {
  const result = read(jsonObject, ownValues(action));
  return "value" in result ? null : [action.type, ...(result.issues[0]?.path ?? [])].join(".");
}

/** The values of an action whose types the protocol defines. */
function ownValues(action: DriverAction): JsonObject {
  if (action.type === "append_events") return { events: action.events ?? [] };
  if (action.type === "start_llm") return { overrides: action.overrides, driverState: action.driverState };
  return action.type === "start_exec" ? { driverState: action.driverState } : {};
}

/** Which actions are directions: they decide the next phase of the turn. */
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

function reject<P extends TurnProtocol>(builder: TransitionBuilder<P>, message: string): void {
  builder.fail(runtimeFailure("invalid_actions", { message }));
}

function apply<P extends TurnProtocol>(builder: TransitionBuilder<P>, action: DriverAction<P>): void {
  switch (action.type) {
    case "emit":
      return builder.emit(action.event);
    case "append_events":
      builder.append(action.messages);
      return builder.record(action.events ?? []);
    case "end_step": {
      const { type: _, ...stepEnd } = action;
      return builder.endStep(stepEnd);
    }
    case "advance_protocol_iteration":
      return builder.nextStep(action.free ? 1 : 0);
    case "schedule_turn_limit_final":
      if (!isTurnLimitDue(builder.turn)) return;
      builder.append([action.message]);
      return builder.update({ graceTurn: true });
    case "start_llm": {
      const { useTools, overrides, driverState } = action;
      const { policy, step, runOffset } = builder.turn;
      if (policy.stopAfter !== null && step > runOffset) return stop(builder, []);
      if (isBeyondLimit(builder.turn)) return finish(builder, maxTurnsEnding(policy.maxTurns));
      return waitForModel(builder, { type: "awaiting_model", useTools, overrides, driverState });
    }
    case "start_tools": {
      const { calls } = action;
      if (builder.turn.policy.stopAfter === "reply") return stop(builder, calls);
      if (isBeyondLimit(builder.turn)) return finish(builder, maxTurnsEnding(builder.turn.policy.maxTurns));
      return builder.wait({ type: "awaiting_tools", calls, results: calls.map(() => null), cell: null });
    }
    case "start_exec":
      if (builder.turn.policy.stopAfter === "reply") return stop(builder, []);
      if (isBeyondLimit(builder.turn)) return finish(builder, maxTurnsEnding(builder.turn.policy.maxTurns));
      return builder.cells.start(builder, action);
    case "start_checkpoint": {
      const { checkpoint, onEmpty } = action;
      return builder.wait({ type: "awaiting_checkpoint", checkpoint, onEmpty });
    }
    case "finish":
      return finish(builder, action.ending);
  }
}

/**
 * Has the turn made all steps that `maxTurns` and the grace turn allow? The built-in protocols end the turn before;
 * another one may not read the limit.
 */
function isBeyondLimit({ policy: { maxTurns }, step, runOffset, graceTurn }: Turn): boolean {
  return maxTurns !== null && step >= runOffset + maxTurns + (graceTurn ? 1 : 0);
}

/**
 * Ends a turn where `stopAfter` of its policy says, although the protocol would continue. Calls that it would run are
 * pending for the caller.
 */
function stop<P extends TurnProtocol>(builder: TransitionBuilder<P>, calls: readonly SlottedCall[]): void {
  const { openReply } = builder.turn;
  const pendingToolCalls = calls.map(({ call, slot, idempotencyKey }) =>
    pendingCall(call, "manual", { idempotencyKey: idempotencyKey ?? toolEffectId(builder.turn, slot) }),
  );
  if (openReply !== null && calls.length > 0) builder.endStep({ ...replyStepEnd(openReply), pendingToolCalls });
  builder.end({ ...ending({ type: "stop_after" }), pendingToolCalls });
}

/**
 * Ends the loop of steps. With `structuredFinalize` one more model call follows that answers in its format (pass 2),
 * but only after `completed`, `max_turns` or `halt_when` and with nothing pending (Q12, Q13). The nudge enters the
 * history together with its reply, so it is kept in `finalize` until then.
 */
export function finish<P extends TurnProtocol>(builder: TransitionBuilder<P>, loopEnd: Ending): void {
  const { policy, graceTurn } = builder.turn;
  if (loopEnd.outcome.type === "max_turns" && !graceTurn) builder.appendTurnLimitMessage();
  const structured = policy.structuredFinalize;
  const reason = haltedReasonOf(loopEnd.outcome);
  const mayFinalize = reason === "completed" || reason === "max_turns" || reason === "halt_when";
  if (structured === null || !mayFinalize || loopEnd.pendingToolCalls.length > 0) return builder.end(loopEnd);
  const { turnId, step, revision } = builder.turn;
  const fields = { id: `${turnId}/${step}/nudge`, metadata: revision > 2 ? finalizeNudgeMetadata : {} };
  const nudge = structured.nudge === "" ? null : user(structured.nudge, fields);
  const overrides = { responseFormat: { ...structured.format } };
  // The structured call reads input that waited for resumed calls, if one of them ended the loop.
  deliverDeferred(builder);
  builder.update({ finalize: { pass1: loopEnd, nudge } });
  waitForModel(builder, { type: "awaiting_model", useTools: false, overrides, driverState: null });
}
