// Starts a step. Order (Q8): environment, then a suspended cell or approved calls, then input that waited for them,
// then the protocol (normally a model call).

import type { TurnProtocol } from "../protocol/protocol.ts";
import type { TransitionBuilder } from "./transition-builder.ts";
import type { ApprovedCall } from "./turn.ts";

import { unrunAnswer } from "../protocol/tool-answer.ts";
import { applyActions } from "./actions.ts";
import { deliverDeferred } from "./deliver.ts";

/** Enters the phase for the next thing that the step has to do. Called again after each of them. */
export function prepare<P extends TurnProtocol>(builder: TransitionBuilder<P>): void {
  const { step, syncedStep, approved, resumes, policy } = builder.turn;
  if (policy.syncEnvironment && syncedStep !== step) {
    return builder.wait({ type: "awaiting_environment", update: syncedStep !== null });
  }
  if (resumes !== null) return builder.cells.resume(builder, resumes);
  if (approved.length > 0) return startApproved(builder, approved);
  deliverDeferred(builder);
  applyActions(builder, builder.config.protocolDriver.prepareProtocolIteration(builder.view));
}

/**
 * Starts the approved calls, each with the slot it has in its reply. A call whose tool no longer exists is answered
 * `not_found` without halting (Q8).
 */
function startApproved<P extends TurnProtocol>(builder: TransitionBuilder<P>, approved: readonly ApprovedCall[]): void {
  const { turnId, step, environment, revision } = builder.turn;
  const removed = approved.filter(({ call }) => !environment.tools.some(({ name }) => name === call.name));
  const calls = approved.filter((approvedCall) => !removed.includes(approvedCall));
  const notFound = removed.map(({ call, slot }) =>
    unrunAnswer(
      call,
      "not_found",
      `there is no longer a tool named ${call.name}`,
      `${turnId}/${step}/answer/${slot}`,
      revision,
    ),
  );
  builder.append(notFound);
  builder.update({ approved: [] });
  if (calls.length === 0) return prepare(builder);
  builder.wait({ type: "awaiting_tools", calls, results: calls.map(() => null), cell: null });
}
