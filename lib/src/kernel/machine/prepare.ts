// The beginning of a step: the environment first, then what somebody said to calls that waited, then what the protocol wants (Q8).

import type { TurnProtocol } from "../protocol/protocol.ts";
import type { ApprovedCall } from "./turn.ts";
import type { Work } from "./work.ts";

import { unrunAnswer } from "../protocol/tool-answer.ts";
import { applyActions } from "./actions.ts";
import { resumeCell } from "./batch.ts";

export function prepare<P extends TurnProtocol>(work: Work<P>): void {
  const { step, syncedStep, approved, resumes, policy } = work.turn;
  if (policy.syncEnvironment && syncedStep !== step) {
    return work.wait({ type: "awaiting_environment", update: syncedStep !== null });
  }
  if (resumes !== null) return resumeCell(work, resumes);
  if (approved.length > 0) return startApproved(work, approved);
  applyActions(work, work.config.protocolDriver.prepareProtocolIteration(work.view));
}

/** Runs what somebody consented to, each call at its place in the reply that made it. A tool that is gone is answered so. */
function startApproved<P extends TurnProtocol>(work: Work<P>, approved: readonly ApprovedCall[]): void {
  const { turnId, step, environment } = work.turn;
  const gone = approved.filter(({ call }) => !environment.tools.some(({ name }) => name === call.name));
  const calls = approved.filter((one) => !gone.includes(one));
  const notFound = gone.map(({ call, slot }) =>
    unrunAnswer(call, "not_found", `no tool is called ${call.name} any more`, `${turnId}/${step}/answer/${slot}`),
  );
  work.append(notFound);
  work.update({ approved: [] });
  if (calls.length === 0) return prepare(work);
  work.wait({ type: "awaiting_tools", calls, results: calls.map(() => null), cell: null });
}
