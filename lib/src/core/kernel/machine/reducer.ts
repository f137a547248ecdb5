// The reducer of the turn machine: pure functions from a turn and an input to the next turn and its notices.
//
// Theory of operation
//   The state of a turn (`Turn`, turn.ts) is plain JSON. Its `phase` says which effects the turn waits for;
//   `pendingEffects(turn)` derives them. A driver performs each effect and hands its response to `advance`. Four
//   functions change a turn, and each returns a `Transition`: the next turn, the notices for the driver, and a status.
//
//     startTurn    input                      first phase of a new turn
//     advance      the response to an effect  next phase
//     cancelTurn   a cancel request           `ended`, outcome `cancelled`
//     failTurn     a failure of the driver      `ended`, outcome `runtime_error`
//
//   One call of `advance` runs in this order:
//     1. find the pending effect that the response names       (turn.ts; none: `stale`)
//     2. find the row for phase and response type              (transitions.ts; none: `wrong_kind`)
//     3. apply the response                                    (responses.ts; for tool calls and code calls batch.ts)
//     4. ask the protocol what follows, apply its actions      (actions.ts; protocol/)
//     5. collect new messages and records into one `progress`  (transition-builder.ts)
//
//   Phases and the responses that they accept; transitions.ts is the authoritative table:
//
//     phase                  waits for           accepts
//     awaiting_environment   sync_environment    environment_synced, environment_failed
//     awaiting_model         call_model          model_replied, model_failed
//     awaiting_count         count_tokens        tokens_counted, count_failed
//     awaiting_compaction    compact             compacted, compaction_failed
//     awaiting_tools         call_tool, n times  tool_returned, tool_waits
//     awaiting_code          run_code            code_calls, code_finished, code_failed
//     awaiting_checkpoint    checkpoint          checkpoint_delivered
//     ended                  nothing             nothing
//
//   Callers: the driver (core/run/driver.ts), which adds the I/O, and `TurnMachine` (machine.ts), a poll interface for
//   other drivers. A turn has no queue and no timer. A driver that restores a stored turn calls `pendingEffects` and
//   performs what it returns.
//
// Invariants
//   1. No function here waits, reads a clock, generates an id or calls user code; the protocol and the projector of the
//      configuration are the exceptions and must be pure (K1).
//   2. The pending effects are a function of the state (K2), and a JSON round trip of the state changes nothing (K3).
//   3. A stale response or one of the wrong kind returns the same turn object, no notices, and never throws (K4).
//   4. A turn ends exactly once; every input after that is `stale` (K5).
//   5. The same inputs give the same effects with the same ids (K6). Ids are derived from turn id, step and slot.
//   6. When a turn ends, every tool call in its history is answered or listed in `pendingToolCalls` (S2).
//   7. A turn is decided to its end by the kernel revision it was started under (Q6). Messages that the kernel itself
//      writes (answers to calls that were not run, notes about code) are part of the history digest: after a release
//      their texts change only with a new revision.

import type { Failure } from "../../model/internal.ts";
import type { TurnProtocol } from "../protocol/protocol.ts";
import type { Effect } from "./effect.ts";
import type { Cancellation } from "./input.ts";
import type { EffectResponse } from "./response.ts";
import type { ResponseStatus, Transition, Turn, TurnInput, TurnMachineConfig, TurnPolicy } from "./turn.ts";

import { exactSum, invalidArgument, noUsage, windowUpTo } from "../../model/internal.ts";
import { describe, isPlainObject } from "../../model/parse/reading.ts";
import { isHistory, startHistory } from "../history/history.ts";
import { append, emptyList } from "../history/shared-list.ts";
import { ending } from "../protocol/ending.ts";
import { takeAnswers } from "../protocol/open-calls.ts";
import { codeCells } from "./cells.ts";
import { environmentFields, startEnvironment } from "./environment.ts";
import { pendingEffect } from "./pending-effects.ts";
import { prepare } from "./prepare.ts";
import { TransitionBuilder, withId } from "./transition-builder.ts";
import { transitionFor } from "./transitions.ts";
import { kernelRevision } from "./turn.ts";

/**
 * Starts a turn: applies the answers to calls that were pending, adds the new messages and causes, and enters the first
 * phase. No effect has been performed yet; {@link pendingEffects} returns the first ones. Throws `MisuseError` if an
 * open call has no answer, an answer has no open call, or the kernel revision is newer than this release.
 */
export function startTurn<P extends TurnProtocol>(
  config: TurnMachineConfig<P>,
  input: TurnInput<P["event"]>,
): Transition<P> {
  checkRevision("startTurn", input.revision);
  const earlier = isHistory(input.history) ? input.history : startHistory(input.history);
  const { messages, approved, cell } = takeAnswers(input, earlier);
  const initial: Turn<P> = {
    revision: input.revision,
    turnId: input.turnId,
    policy: startPolicy(config),
    history: earlier,
    reported: earlier.length,
    transient: emptyList,
    events: append(emptyList, input.events),
    reportedEvents: input.events.length,
    turnCauses: [],
    step: input.runOffset,
    runOffset: input.runOffset,
    ...environmentFields(startEnvironment(config)),
    syncedStep: null,
    approved,
    resumes: cell,
    deferredInput: null,
    usage: noUsage,
    stepUsage: noUsage,
    openReply: null,
    answered: [],
    contextWindow: windowUpTo(input.contextWindow, earlier.length),
    overflowed: false,
    graceTurn: false,
    finalize: null,
    phase: { type: "awaiting_environment", update: false },
  };
  const builder = new TransitionBuilder(config, initial, codeCells);
  builder.append(messages);
  builder.addInput(input.messages, "input");
  builder.addStartCauses(input.turnCauses);
  if (config.startCheckpoint) awaitStartCheckpoint(builder);
  else if (!config.syncEnvironment) prepare(builder);
  return builder.transition();
}

/** Waits for the checkpoint `before_turn`. Without input the turn begins its first step. */
function awaitStartCheckpoint<P extends TurnProtocol>(builder: TransitionBuilder<P>): void {
  builder.wait({ type: "awaiting_checkpoint", checkpoint: "before_turn", onEmpty: { type: "prepare_iteration" } });
}

/**
 * The limits of the configuration, copied into the turn so that a deployment cannot change them while the turn is open.
 */
function startPolicy<P extends TurnProtocol>(config: TurnMachineConfig<P>): TurnPolicy<P> {
  const { syncEnvironment, startCheckpoint, maxTurns, maxContextTokens, context, turnLimitFinalMessage } = config;
  const { structuredFinalize, autonomous, stopAfter, termination } = config;
  return {
    syncEnvironment,
    startCheckpoint,
    maxTurns,
    maxContextTokens,
    context,
    turnLimitFinalMessage,
    structuredFinalize,
    autonomous,
    stopAfter,
    termination,
  };
}

/**
 * Applies the response to a pending effect. The status is `stale` or `wrong_kind` if the turn cannot accept it; the
 * turn is then unchanged.
 */
export function advance<P extends TurnProtocol>(
  config: TurnMachineConfig<P>,
  turn: Turn<P>,
  response: EffectResponse,
): Transition<P> {
  checkRevision("advance", turn.revision);
  checkResponse("advance", response);
  const effect = pendingEffect(turn, `${response.id}`);
  if (effect === null) return { turn, notices: [], status: "stale" };
  return applyResponse(config, turn, effect, response.type, response);
}

/**
 * Whether the turn waits for this response. Reads only its id and its type. Throws `MisuseError` for a value that is no
 * object.
 */
export function responseStatus(turn: Turn<TurnProtocol>, response: EffectResponse): ResponseStatus {
  checkResponse("handleResponse", response);
  const { id, type } = response;
  if (pendingEffect(turn, `${id}`) === null) return "stale";
  return transitionFor(turn.phase.type, type) === undefined ? "wrong_kind" : "accepted";
}

/** Checks at run time, because a response may come from JSON or from a program in JavaScript. */
function checkResponse(caller: string, response: unknown): void {
  if (isPlainObject(response)) return;
  const message = `${caller}: the response must be an object with the type and the id of a response, not ${describe(response)}`;
  throw invalidArgument(message);
}

/**
 * Accepts every older revision. A newer release may decide differently under a newer revision, so that one is rejected.
 */
function checkRevision(caller: string, revision: number): void {
  if (revision <= kernelRevision) return;
  const supported = `this release supports revisions up to ${kernelRevision}`;
  throw invalidArgument(`${caller}: the turn has kernel revision ${revision}; ${supported}`);
}

function applyResponse<P extends TurnProtocol, R extends EffectResponse["type"]>(
  config: TurnMachineConfig<P>,
  turn: Turn<P>,
  effect: Effect,
  type: R,
  response: Extract<EffectResponse, { readonly type: R }>,
): Transition<P> {
  const row = transitionFor(turn.phase.type, type);
  if (row === undefined) return { turn, notices: [], status: "wrong_kind" };
  const builder = new TransitionBuilder(config, turn, codeCells);
  // Calls of a batch are added to `answered` when the batch is complete (batch.ts); until then `phase.results` shows
  // which are answered.
  if (effect.type !== "call_tool") builder.update({ answered: [...turn.answered, effect.id] });
  row.apply(builder, response, effect.id);
  return builder.transition();
}

/**
 * Ends a turn as cancelled (Q9). The part of the model reply that was received enters the history; open calls are
 * answered with their recorded result or as cancelled. A reply that was cut during the structured call is returned as
 * `partial` and stays out of the history (Q13).
 */
export function cancelTurn<P extends TurnProtocol>(
  config: TurnMachineConfig<P>,
  turn: Turn<P>,
  { evidence, received, usage }: Cancellation,
): Transition<P> {
  if (turn.phase.type === "ended") return { turn, notices: [], status: "stale" };
  const builder = new TransitionBuilder(config, turn, codeCells);
  // Usage that overflows is left out: it must not prevent the cancel.
  if (exactSum(turn.usage, usage) !== null && !builder.spend(usage)) return builder.transition();
  const isInModelCall = turn.phase.type === "awaiting_model";
  const partialReply = isInModelCall && turn.finalize === null ? received : null;
  if (partialReply !== null) builder.append([withId(partialReply, `${turn.turnId}/${turn.step}/reply`)]);
  const pendingToolCalls = builder.breakOff(evidence.reason ?? "the turn was cancelled");
  const partial = isInModelCall && turn.finalize !== null ? received : null;
  builder.end({ ...ending({ type: "cancelled", evidence }), pendingToolCalls, partial });
  return builder.transition();
}

/**
 * Ends a turn with the outcome `runtime_error` because the driver cannot continue it, for example because a function of
 * the user threw.
 */
export function failTurn<P extends TurnProtocol>(
  config: TurnMachineConfig<P>,
  turn: Turn<P>,
  failure: Failure,
): Transition<P> {
  if (turn.phase.type === "ended") return { turn, notices: [], status: "stale" };
  const builder = new TransitionBuilder(config, turn, codeCells);
  builder.fail(failure);
  return builder.transition();
}
