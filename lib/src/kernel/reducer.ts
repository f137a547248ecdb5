// The turn machine: one function from a turn and what happened to the next turn and what the host should know. It never waits, reads
// a clock, invents an id or calls anybody but the protocol and the projector it was given (K1). Whatever comes in, it answers: a
// response nobody awaits changes nothing and says so (K4), and a turn ends exactly once (K5).

import type { Environment, Failure } from "../model/index.ts";
import type { EffectResponse } from "./effect.ts";
import type { Cancellation, Transition, Turn, TurnInput, TurnMachineConfig } from "./turn.ts";

import { noUsage } from "../model/index.ts";
import { canonicalJson } from "./canonical-json.ts";
import { effectOfResponse } from "./effect.ts";
import { ending } from "./ending.ts";
import { digestOf, startHistory } from "./history.ts";
import { approvedCall, settledAnswer } from "./open-calls.ts";
import { kernelRevision, pendingEffects } from "./turn.ts";
import { named, Work } from "./work.ts";

/** Begins a turn. Nothing has happened yet: ask {@link pendingEffects} what to do first. */
export function startTurn(config: TurnMachineConfig, input: TurnInput): Transition {
  const environment: Environment = {
    instructions: config.systemPrompt,
    model: config.model,
    tools: config.toolSpecs,
    providerTools: [],
    params:
      config.modelVariant === null
        ? config.generation
        : { reasoning: { effort: config.modelVariant }, ...config.generation },
  };
  const before = startHistory(input.history);
  const work = new Work(config, {
    revision: kernelRevision,
    turnId: input.turnId,
    history: before,
    reported: before.length,
    transient: [],
    events: [],
    reportedEvents: 0,
    turnCauses: [],
    step: input.runOffset,
    runOffset: input.runOffset,
    environment,
    environmentDigest: digestOf(canonicalJson(environment)),
    syncedStep: null,
    approved: input.answers.flatMap(approvedCall),
    usage: noUsage,
    openReply: null,
    answered: [],
    graceTurn: false,
    finalize: null,
    phase: { type: "awaiting_environment", update: false },
  });
  work.append(input.answers.flatMap((answer, index) => settledAnswer(answer, `${input.turnId}/settled/${index}`)));
  work.add(input.messages, "input");
  work.addCauses(input.turnCauses);
  if (!config.syncEnvironment) work.prepare();
  return work.transition();
}

/** Takes one response in. */
export function advance(config: TurnMachineConfig, turn: Turn, response: EffectResponse): Transition {
  const effect = pendingEffects(turn).find(({ id }) => id === response.id);
  if (effect === undefined) return { turn, notices: [], status: "stale" };
  if (effectOfResponse[response.type] !== effect.type) return { turn, notices: [], status: "wrong_kind" };
  const work = new Work(config, { ...turn, answered: [...turn.answered, effect.id].toSorted() });
  work.take(effect, response);
  return work.transition();
}

/** Ends a turn because somebody asked for it. What was received stays, and open calls are answered. */
export function cancelTurn(
  config: TurnMachineConfig,
  turn: Turn,
  { evidence, received, usage }: Cancellation,
): Transition {
  if (turn.phase.type === "ended") return { turn, notices: [], status: "stale" };
  const work = new Work(config, turn);
  if (!work.spend(usage)) return work.transition();
  if (received !== null && turn.phase.type === "awaiting_model" && turn.finalize === null) {
    work.append([named(received, `${turn.turnId}/${turn.step}/reply`)]);
  }
  work.answerOpenCalls(evidence.reason ?? "the turn was cancelled");
  work.end(ending({ type: "cancelled", evidence }));
  return work.transition();
}

/** Ends a turn because something on the host's side broke. */
export function failTurn(config: TurnMachineConfig, turn: Turn, failure: Failure): Transition {
  if (turn.phase.type === "ended") return { turn, notices: [], status: "stale" };
  const work = new Work(config, turn);
  work.fail({ type: "runtime_error", failure });
  return work.transition();
}
