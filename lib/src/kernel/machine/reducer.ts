// The turn machine: one function from a turn and what happened to the next turn and what the host should know. It never waits, reads
// a clock, invents an id or calls anybody but the protocol and the projector it was given (K1). Whatever comes in, it answers: a
// response nobody awaits changes nothing and says so (K4), and a turn ends exactly once (K5).

import type { Failure } from "../../model/internal.ts";
import type { TurnProtocol } from "../protocol/protocol.ts";
import type { Effect, EffectResponse } from "./effect.ts";
import type { Cancellation, Transition, Turn, TurnInput, TurnMachineConfig, TurnPolicy } from "./turn.ts";

import { addUsage, MisuseError, noUsage } from "../../model/internal.ts";
import { isHistory, startHistory } from "../history/history.ts";
import { emptyList } from "../history/shared-list.ts";
import { ending } from "../protocol/ending.ts";
import { takeAnswers } from "../protocol/open-calls.ts";
import { environmentFields, startEnvironment } from "./environment.ts";
import { prepare } from "./prepare.ts";
import { transitionFor } from "./transitions.ts";
import { kernelRevision, pendingEffect } from "./turn.ts";
import { named, Work } from "./work.ts";

/** Begins a turn. Nothing has happened yet: ask {@link pendingEffects} what to do first. */
export function startTurn<P extends TurnProtocol>(config: TurnMachineConfig<P>, input: TurnInput): Transition<P> {
  checkRevision("startTurn", input.revision);
  const before = isHistory(input.history) ? input.history : startHistory(input.history);
  const { messages, approved, cell } = takeAnswers(input, before);
  const work = new Work<P>(config, {
    revision: input.revision,
    turnId: input.turnId,
    policy: startPolicy(config),
    history: before,
    reported: before.length,
    transient: emptyList,
    events: emptyList,
    reportedEvents: 0,
    turnCauses: [],
    step: input.runOffset,
    runOffset: input.runOffset,
    ...environmentFields(startEnvironment(config)),
    syncedStep: null,
    approved,
    resumes: cell,
    usage: noUsage,
    stepUsage: noUsage,
    openReply: null,
    answered: [],
    graceTurn: false,
    finalize: null,
    phase: { type: "awaiting_environment", update: false },
  });
  work.append(messages);
  work.addInput(input.messages, "input");
  work.addStartCauses(input.turnCauses);
  if (!config.syncEnvironment) prepare(work);
  return work.transition();
}

function startPolicy<P extends TurnProtocol>(config: TurnMachineConfig<P>): TurnPolicy<P> {
  const { syncEnvironment, maxTurns, maxContextTokens, turnLimitFinalMessage } = config;
  const { structuredFinalize, autonomous, termination } = config;
  return {
    syncEnvironment,
    maxTurns,
    maxContextTokens,
    turnLimitFinalMessage,
    structuredFinalize,
    autonomous,
    termination,
  };
}

/** Takes one response in. */
export function advance<P extends TurnProtocol>(
  config: TurnMachineConfig<P>,
  turn: Turn<P>,
  response: EffectResponse,
): Transition<P> {
  checkRevision("advance", turn.revision);
  const effect = pendingEffect(turn, `${response.id}`);
  if (effect === null) return { turn, notices: [], status: "stale" };
  return take(config, turn, effect, response.type, response);
}

/** Older revisions are accepted. A newer one may decide in ways that this release does not know. */
function checkRevision(caller: string, revision: number): void {
  if (revision <= kernelRevision) return;
  const known = `this release knows revisions up to ${kernelRevision}`;
  throw new MisuseError("invalid_argument", `${caller}: the turn is of kernel revision ${revision}, and ${known}`);
}

function take<P extends TurnProtocol, R extends EffectResponse["type"]>(
  config: TurnMachineConfig<P>,
  turn: Turn<P>,
  effect: Effect,
  type: R,
  response: Extract<EffectResponse, { readonly type: R }>,
): Transition<P> {
  const row = transitionFor(turn.phase.type, type);
  if (row === undefined) return { turn, notices: [], status: "wrong_kind" };
  const work = new Work(config, turn);
  // The calls of a batch are noted as answered when it is complete; until then its slots say which have been answered.
  if (effect.type !== "call_tool") work.update({ answered: [...turn.answered, effect.id] });
  row.take(work, response, effect.id);
  return work.transition();
}

/** Ends a turn because somebody asked for it. What was received stays, and open calls are answered. */
export function cancelTurn<P extends TurnProtocol>(
  config: TurnMachineConfig<P>,
  turn: Turn<P>,
  { evidence, received, usage }: Cancellation,
): Transition<P> {
  if (turn.phase.type === "ended") return { turn, notices: [], status: "stale" };
  const work = new Work(config, turn);
  // What cannot be counted must not keep anybody from cancelling.
  if (addUsage(turn.usage, usage).ok && !work.spend(usage)) return work.transition();
  const asking = turn.phase.type === "awaiting_model";
  const said = asking && turn.finalize === null ? received : null;
  if (said !== null) work.append([named(said, `${turn.turnId}/${turn.step}/reply`)]);
  const pendingToolCalls = work.breakOff(evidence.reason ?? "the turn was cancelled");
  const partial = asking && turn.finalize !== null ? received : null;
  work.end({ ...ending({ type: "cancelled", evidence }), pendingToolCalls, partial });
  return work.transition();
}

/** Ends a turn because something on the host's side broke. */
export function failTurn<P extends TurnProtocol>(
  config: TurnMachineConfig<P>,
  turn: Turn<P>,
  failure: Failure,
): Transition<P> {
  if (turn.phase.type === "ended") return { turn, notices: [], status: "stale" };
  const work = new Work(config, turn);
  work.fail({ type: "runtime_error", failure });
  return work.transition();
}
