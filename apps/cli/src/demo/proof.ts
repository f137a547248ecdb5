// The proof: what happened, counted afterwards. Calls and tool runs are counted in the log the workers wrote, what is on record in the database, and
// what a reader was told by the reader. Nothing is said here because it should be so.

import type { Played } from "./play.ts";
import type { Screen } from "./screen.ts";
import type { WorldLine } from "./world-log.ts";
import type { Usage } from "everturn";
import type { Runtime, TurnRecord } from "everturn/runtime";

import { replayTurn } from "everturn/runtime";

import { counted, effectsIn, readBack, renderEffects, seconds } from "./record.ts";
import { refundTool } from "./story.ts";

export type Proof = {
  readonly modelCalls: number;
  /** Of those, the ones that ended with the process that was killed. */
  readonly cutOff: number;
  /** Replies the journal has. */
  readonly replies: number;
  /** How often each tool began. */
  readonly tools: ReadonlyMap<string, number>;
  /** How often the money moved, and for how many calls. */
  readonly refunds: number;
  readonly refundCalls: number;
  /** Of the turn whose worker was killed; `null`: none was. */
  readonly recovery: Recovery | null;
  /** How many entries the reader was told, how often it came for them, and whether it was told each once and in order. */
  readonly entries: number;
  readonly visits: number;
  readonly inOrder: boolean;
  readonly repliesHeard: number;
  readonly repliesAsStored: number;
  /** How many turns were replayed offline, and came to what they had come to. */
  readonly replayed: number;
  readonly turns: number;
  readonly usage: Usage;
};

type Recovery = {
  readonly next: number;
  /** Rows of the journal that the second worker read, and did not do again. */
  readonly readBack: string;
  readonly rows: number;
  readonly modelCallsAfter: number;
  readonly toolsAfter: number;
  readonly deadMs: number | null;
};

export async function prove(
  sessions: Runtime,
  id: string,
  world: readonly WorldLine[],
  played: Played,
): Promise<Proof> {
  const records = await Promise.all(played.turns.map((turn) => sessions.export(id, turn)));
  const began = world.filter(({ what }) => what === "tool_began");
  const tools = new Map<string, number>();
  for (const { tool } of began) if (tool !== null) tools.set(tool, (tools.get(tool) ?? 0) + 1);
  const killed = world.filter(({ pid }) => pid === played.kill?.pid);
  const { sequences, replies } = played;
  return {
    modelCalls: world.filter(isAsked).length,
    cutOff: killed.filter(isAsked).length - killed.filter(({ what }) => what === "model_answered").length,
    replies: records.reduce((sum, { data }) => sum + effectsIn(data.rows).replies, 0),
    tools,
    refunds: tools.get(refundTool) ?? 0,
    refundCalls: new Set(began.filter(({ tool }) => tool === refundTool).map(({ key }) => key)).size,
    recovery: recoveryOf(played, records, world),
    entries: sequences.length,
    visits: played.visits,
    inOrder: sequences.every((sequence, index) => sequence === index + 1),
    repliesHeard: replies.length,
    repliesAsStored: replies.filter(({ heard, stored }) => heard === stored).length,
    replayed: await replayedOf(records),
    turns: records.length,
    usage: (await sessions.usage(id)).total,
  };
}

function isAsked({ what }: WorldLine): boolean {
  return what === "model_asked";
}

function recoveryOf({ kill }: Played, records: readonly TurnRecord[], world: readonly WorldLine[]): Recovery | null {
  const record = records.find(({ data }) => data.turnId === kill?.turnId);
  if (kill === null || record === undefined) return null;
  const rows = readBack(record);
  const after = world.filter(({ pid }) => pid === kill.next);
  return {
    next: kill.next,
    readBack: renderEffects(effectsIn(rows)),
    rows: rows.length,
    modelCallsAfter: after.filter(isAsked).length,
    toolsAfter: after.filter(({ what }) => what === "tool_began").length,
    deadMs: kill.heardAgainAt === null ? null : kill.heardAgainAt - kill.at,
  };
}

/** Runs each turn again from its record, with no model and no tool; one that comes to something else rejects. */
async function replayedOf(records: readonly TurnRecord[]): Promise<number> {
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

export function showProof(screen: Screen, proof: Proof, totalMs: number): void {
  const { modelCalls, cutOff, replies, tools, refunds, refundCalls, recovery, usage } = proof;
  const cut = cutOff === 0 ? "" : `, ${cutOff} cut off by the kill`;
  // A call that a provider refused cost nothing.
  const made = modelCalls === replies + cutOff ? "paid for" : "made";
  screen.fact("model calls", `${modelCalls} ${made}: ${counted(replies, "reply", "replies")} on record${cut}`);
  if (recovery === null) {
    screen.fact(
      "recovery",
      "none was needed: the model gave no long reply after the decision about the money, so no worker was killed",
      "warm",
    );
  } else {
    const { rows, readBack, modelCallsAfter, toolsAfter, next } = recovery;
    const replayed = `${counted(rows, "effect", "effects")}, read back instead of done again: ${readBack}`;
    screen.fact("replayed", rows === 0 ? "nothing: the killed turn had nothing on record yet" : replayed);
    const calls = counted(modelCallsAfter, "model call", "model calls");
    screen.fact("after that", `worker ${next} made ${calls} and ran ${counted(toolsAfter, "tool", "tools")}`);
  }
  const ran = refunds === 1 ? "ran once" : `ran ${refunds} times, for ${counted(refundCalls, "call", "calls")}`;
  screen.fact(refundTool, refunds === 0 ? "did not run" : ran, refunds === refundCalls ? "good" : "bad");
  const others = [...tools].filter(([name]) => name !== refundTool).map(([name, count]) => `${name} ${count}`);
  screen.fact("other tools", others.length === 0 ? "none ran" : others.join(", "));
  const order = proof.inOrder ? "each once and in order" : "not each once and in order";
  const heard = `${proof.repliesAsStored} of ${proof.repliesHeard} replies heard as stored`;
  screen.fact(
    "reader",
    `${counted(proof.entries, "entry", "entries")} in ${counted(proof.visits, "visit", "visits")}, ${order}; ${heard}`,
    proof.inOrder ? "plain" : "bad",
  );
  screen.fact(
    "offline",
    `${proof.replayed} of ${counted(proof.turns, "turn", "turns")} replayed to the same end, without a model`,
  );
  const cost = usage.totalCost === null ? "" : `, ${usage.totalCost.toFixed(4)} USD`;
  const untold = cutOff === 0 ? "" : "; the call that was cut off told nothing";
  const [read, written] = [usage.inputTokens ?? "unknown", usage.outputTokens ?? "unknown"];
  screen.fact("tokens", `${read} in, ${written} out${cost} on record${untold}`);
  const dead = recovery?.deadMs ?? null;
  screen.fact(
    "time",
    `${seconds(totalMs)}${dead === null ? "" : `, ${seconds(dead)} of it between the kill and the next word`}`,
  );
}

/** Does what was counted bear out what is promised? */
export function holds(proof: Proof): boolean {
  const { refunds, refundCalls, inOrder, repliesHeard, repliesAsStored, replayed, turns } = proof;
  return refunds === refundCalls && inOrder && repliesAsStored === repliesHeard && replayed === turns;
}
