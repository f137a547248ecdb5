// What one turn adds to the rollups: its tokens, cost, takeovers, tool calls and times, from the journal items that
// this process commits and, for a turn that was taken over, from the journal rows that it replays. Nothing is read for
// it, and its size does not grow with the turn.
//
// A turn that was parked has a line already. What was measured before the parking is not measured again: rows up to the
// restart of its step, or all rows if the parked turn is ended. The time for which it was parked is not counted either.

import type { ToolOutcome } from "../../core/model/internal.ts";
import type { Lease } from "../rows/lease.ts";
import type { OutcomeClass, Rollup, RollupSum, RollupTool } from "../rows/values.ts";
import type { JournalRow } from "../rows/values.ts";

import { noUsage } from "../../core/model/internal.ts";
import { addHistograms, histogramOf } from "../rows/histogram.ts";
import { usageOfRows } from "../rows/ledger.ts";
import { addTools, noSum, noToolSum, oneOutcome } from "../rows/rollup.ts";

/** The turn as it is stored when its measurement begins. */
export type MeasuredTurn = {
  readonly engine: string;
  /** `null`: it is not known. */
  readonly acceptedAt: number | null;
  /** The turn is parked and now ended: everything was measured when it was parked. */
  readonly isParked: boolean;
  /** The journal rows so far. */
  readonly rows: readonly JournalRow[];
  /** Takeovers that have added no row (Q17). */
  readonly takeovers: number;
};

/** Measures one turn while it is driven. */
export class TurnRollup {
  #sum: RollupSum;
  #tools: readonly RollupTool[] = [];
  /** From when on the duration counts; `null`: it is not counted. */
  readonly #since: number | null;

  /** `heldSince`: when this process claimed the session. */
  constructor(turn: MeasuredTurn, { since: heldSince }: Pick<Lease, "since">) {
    const { engine, acceptedAt, isParked, rows, takeovers } = turn;
    const restart = rows.findLastIndex(({ item }) => item.type === "step_restarted");
    const unmeasured = isParked ? [] : rows.slice(restart + 1);
    this.#since = isParked ? null : restart === -1 ? acceptedAt : (unmeasured[0]?.timing?.startedAt ?? heldSince);
    const claims = new Set(
      unmeasured.flatMap(({ timing }) => (timing?.takesOver === true ? [`${timing.heldSince} ${timing.owner}`] : [])),
    );
    this.#sum = { ...noSum(engine), takeovers: isParked ? 0 : claims.size + takeovers };
    for (const row of unmeasured) this.add(row);
  }

  /** Adds a row of the journal. */
  add({ item, effect, timing }: Pick<JournalRow, "item" | "effect" | "timing">): void {
    const { inputTokens, cachedInputTokens, outputTokens, totalCost } = usageOfRows([{ item }], noUsage);
    this.#sum = {
      ...this.#sum,
      inputTokens: this.#sum.inputTokens + (inputTokens ?? 0),
      cachedInputTokens: this.#sum.cachedInputTokens + (cachedInputTokens ?? 0),
      outputTokens: this.#sum.outputTokens + (outputTokens ?? 0),
      nanoCost: this.#sum.nanoCost + Math.max(0, Math.round((totalCost ?? 0) * 1e9)),
    };
    if (timing !== null && timing.firstAt !== null) {
      const first = histogramOf(timing.firstAt - timing.startedAt);
      this.#sum = { ...this.#sum, firstContent: addHistograms(this.#sum.firstContent, first) };
    }
    if (item.type !== "response" || item.response.type !== "tool_returned") return;
    const call: RollupTool = {
      ...noToolSum(toolNameOf(effect)),
      calls: 1,
      failed: hasFailed(item.response.outcome) ? 1 : 0,
      duration: timing === null ? [] : histogramOf(timing.endedAt - timing.startedAt),
    };
    this.#tools = addTools([...this.#tools, call]);
  }

  /** The line of the turn, which ends or is parked now. */
  line(outcome: OutcomeClass, now: number): Rollup {
    const duration = this.#since === null ? [] : histogramOf(now - this.#since);
    const sum = { ...this.#sum, turns: 1, outcomes: oneOutcome(outcome), duration };
    return { engines: [sum], tools: this.#tools, tenants: [] };
  }
}

/** The name of the tool in the stored text of a tool call. */
function toolNameOf(effect: string | null): string {
  const call: unknown = Reflect.get(Object(effect === null ? null : JSON.parse(effect)), "call");
  const name: unknown = Reflect.get(Object(call), "name");
  return typeof name === "string" ? name : "";
}

/** Whether a tool has failed. A call that was denied did not run. */
function hasFailed(outcome: ToolOutcome): boolean {
  return outcome.type === "failure" && outcome.failure.reason !== "denied";
}
