// Verifies the guarantees of the library after the demo, from independent sources: model calls and tool runs from the
// side-effect log, stored effects from the journal in the database, and received events from the reader.

import type { ScenarioResult } from "./scenario-runner.ts";
import type { Screen } from "./screen.ts";
import type { SideEffect } from "./side-effect-log.ts";
import type { Usage } from "everturn";
import type { Runtime, TurnRecord } from "everturn/runtime";

import { inspection } from "everturn/http";
import { replayTurn } from "everturn/runtime";

import { counted, effectsText, repliesIn, replayedRows, seconds } from "./record.ts";
import { refundTool } from "./refund-scenario.ts";

export type Verification = {
  /** Model calls that were started. */
  readonly modelCalls: number;
  /** Model calls that the kill cut off. */
  readonly cutOff: number;
  /** Replies in the journal. */
  readonly replies: number;
  /** Runs by tool. */
  readonly tools: ReadonlyMap<string, number>;
  /** Runs of `refund`. */
  readonly refunds: number;
  /** Different idempotency keys of those runs. More runs than keys means that a payment was repeated. */
  readonly refundCalls: number;
  /** The recovery of the turn whose worker was killed; `null`: no worker was killed. */
  readonly recovery: Recovery | null;
  /** Stored events that the reader received, and how many times it connected. */
  readonly events: number;
  readonly visits: number;
  /** Whether the reader received every stored event exactly once and in order. */
  readonly inOrder: boolean;
  readonly repliesReceived: number;
  readonly repliesAsStored: number;
  /** Turns whose offline replay is identical to the record. */
  readonly replayed: number;
  readonly turns: number;
  readonly usage: Usage;
};

type Recovery = {
  /** The process id of the worker that took over. */
  readonly next: number;
  /** The effects that it replayed from the journal instead of performing them again, as text. */
  readonly replayed: string;
  readonly rows: number;
  readonly modelCallsAfter: number;
  readonly toolsAfter: number;
  /** From the kill to the first event of the next worker, in milliseconds. */
  readonly outageMs: number | null;
};

/** Collects the numbers of the verification. */
export async function verify(
  sessions: Runtime,
  id: string,
  sideEffects: readonly SideEffect[],
  observed: ScenarioResult,
): Promise<Verification> {
  const records = await Promise.all(observed.turns.map((turn) => inspection(sessions.source).export(id, turn)));
  const toolRuns = sideEffects.filter(({ what }) => what === "tool_started");
  const tools = new Map<string, number>();
  for (const { tool } of toolRuns) if (tool !== null) tools.set(tool, (tools.get(tool) ?? 0) + 1);
  const ofKilledWorker = sideEffects.filter(({ pid }) => pid === observed.kill?.pid);
  const { sequences, replies } = observed;
  return {
    modelCalls: sideEffects.filter(isModelCall).length,
    cutOff:
      ofKilledWorker.filter(isModelCall).length -
      ofKilledWorker.filter(({ what }) => what === "model_call_completed").length,
    replies: records.reduce((sum, { data }) => sum + repliesIn(data.rows), 0),
    tools,
    refunds: tools.get(refundTool) ?? 0,
    refundCalls: new Set(toolRuns.filter(({ tool }) => tool === refundTool).map(({ key }) => key)).size,
    recovery: recoveryOf(observed, records, sideEffects),
    events: sequences.length,
    visits: observed.visits,
    inOrder: sequences.every((sequence, index) => sequence === index + 1),
    repliesReceived: replies.length,
    repliesAsStored: replies.filter(({ received, stored }) => received === stored).length,
    replayed: await countReplayed(records),
    turns: records.length,
    usage: (await sessions.usage(id)).total,
  };
}

function isModelCall({ what }: SideEffect): boolean {
  return what === "model_call_started";
}

function recoveryOf(
  { kill }: ScenarioResult,
  records: readonly TurnRecord[],
  sideEffects: readonly SideEffect[],
): Recovery | null {
  const record = records.find(({ data }) => data.turnId === kill?.turnId);
  if (kill === null || record === undefined) return null;
  const rows = replayedRows(record);
  const after = sideEffects.filter(({ pid }) => pid === kill.next);
  return {
    next: kill.next,
    replayed: effectsText(rows),
    rows: rows.length,
    modelCallsAfter: after.filter(isModelCall).length,
    toolsAfter: after.filter(({ what }) => what === "tool_started").length,
    outageMs: kill.resumedAt === null ? null : kill.resumedAt - kill.at,
  };
}

/**
 * Replays each turn from its record, without a model or tools, and counts the replays that are identical. `replayTurn`
 * rejects the others.
 */
async function countReplayed(records: readonly TurnRecord[]): Promise<number> {
  const replays = await Promise.all(
    records.map((record) =>
      replayTurn(record).then(
        () => true,
        () => false,
      ),
    ),
  );
  return replays.filter(Boolean).length;
}

/** Prints the verification. */
export function showVerification(screen: Screen, verification: Verification, totalMs: number): void {
  const { modelCalls, cutOff, replies, tools, refunds, refundCalls, recovery, usage } = verification;
  const cut = cutOff === 0 ? "" : `, ${cutOff} cut off by the kill`;
  // A call that a provider refused is not charged.
  const made = modelCalls === replies + cutOff ? "charged" : "made";
  screen.fact("model calls", `${modelCalls} ${made}: ${counted(replies, "reply", "replies")} stored${cut}`);
  if (recovery === null) {
    screen.fact(
      "recovery",
      "not shown: the model wrote no long reply after the approval, so no worker was killed",
      "warm",
    );
  } else {
    const { rows, replayed, modelCallsAfter, toolsAfter, next } = recovery;
    const replayedText = `${counted(rows, "effect", "effects")} from the journal, not performed again: ${replayed}`;
    screen.fact("replayed", rows === 0 ? "nothing: the killed turn had no stored effects yet" : replayedText);
    const calls = counted(modelCallsAfter, "model call", "model calls");
    screen.fact("after that", `worker ${next} made ${calls} and ran ${counted(toolsAfter, "tool", "tools")}`);
  }
  const ran = refunds === 1 ? "ran once" : `ran ${refunds} times, for ${counted(refundCalls, "call", "calls")}`;
  screen.fact(refundTool, refunds === 0 ? "did not run" : ran, refunds === refundCalls ? "good" : "bad");
  const others = [...tools].filter(([name]) => name !== refundTool).map(([name, count]) => `${name} ${count}`);
  screen.fact("other tools", others.length === 0 ? "none ran" : others.join(", "));
  const order = verification.inOrder ? "each exactly once, in order" : "NOT each exactly once and in order";
  const replyText = `${verification.repliesAsStored} of ${verification.repliesReceived} replies received as stored`;
  screen.fact(
    "reader",
    `${counted(verification.events, "event", "events")} in ${counted(verification.visits, "connection", "connections")}, ${order}; ${replyText}`,
    verification.inOrder ? "plain" : "bad",
  );
  screen.fact(
    "offline",
    `${verification.replayed} of ${counted(verification.turns, "turn", "turns")} replayed with the same result, without a model`,
  );
  const cost = usage.totalCost === null ? "" : `, ${usage.totalCost.toFixed(4)} USD`;
  const unreported = cutOff === 0 ? "" : "; the provider reported no usage for the call that was cut off";
  const [inputTokens, outputTokens] = [usage.inputTokens ?? "unknown", usage.outputTokens ?? "unknown"];
  screen.fact("tokens", `${inputTokens} in, ${outputTokens} out${cost}${unreported}`);
  const outage = recovery?.outageMs ?? null;
  screen.fact(
    "time",
    `${seconds(totalMs)}${outage === null ? "" : `, of which ${seconds(outage)} between the kill and the takeover`}`,
  );
}

/**
 * Returns whether every guarantee held: no payment was repeated, events arrived exactly once and in order, and all
 * turns replay identically.
 */
export function isVerified(verification: Verification): boolean {
  const { refunds, refundCalls, inOrder, repliesReceived, repliesAsStored, replayed, turns } = verification;
  return refunds === refundCalls && inOrder && repliesAsStored === repliesReceived && replayed === turns;
}
