// The beginning of a step: the environment first, then what somebody said to calls that waited, then what the protocol wants (Q8).

import type { TurnProtocol } from "./protocol.ts";
import type { ApprovedCall } from "./turn.ts";
import type { Work } from "./work.ts";

import { applyActions } from "./actions.ts";
import { resumeCell } from "./batch.ts";
import { isSameCall, newestCalls } from "./open-calls.ts";
import { unrunAnswer } from "./tool-answer.ts";

export function prepare<P extends TurnProtocol>(work: Work<P>): void {
  const { step, syncedStep, approved, resumes } = work.turn;
  if (work.config.syncEnvironment && syncedStep !== step) {
    return work.wait({ type: "awaiting_environment", update: syncedStep !== null });
  }
  if (resumes !== null) return resumeCell(work, resumes);
  if (approved.length > 0) return startApproved(work, approved);
  applyActions(work, work.config.protocolDriver.prepareProtocolIteration(work.view));
}

/** Runs what somebody consented to, each call at its place in the reply that made it. A tool that is gone is answered so. */
function startApproved<P extends TurnProtocol>(work: Work<P>, approved: readonly ApprovedCall[]): void {
  const { turnId, step, environment, history } = work.turn;
  const asked = newestCalls(history);
  const placed = approved.map((one, index) => {
    const slot = asked.findIndex((call) => isSameCall(call, one.call));
    return { ...one, slot: slot === -1 ? asked.length + index : slot };
  });
  const gone = placed.filter(({ call }) => !environment.tools.some(({ name }) => name === call.name));
  const calls = placed.filter((one) => !gone.includes(one));
  const notFound = gone.map(({ call, slot }) =>
    unrunAnswer(call, "not_found", `no tool is called ${call.name} any more`, `${turnId}/${step}/answer/${slot}`),
  );
  work.append(notFound);
  work.update({ approved: [] });
  if (calls.length === 0) return prepare(work);
  work.wait({ type: "awaiting_tools", calls, results: calls.map(() => null), cell: null });
}
