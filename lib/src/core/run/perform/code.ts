// The performer of `run_code`: runs a code cell in the executor of the engine (Q5).
//
// The executor gets the code and the calls made so far with their answers. It resumes a paused cell, or runs the cell
// again from the start and answers the same calls from the list. It returns the next calls, or the end of the cell.
//
// Each run has limits of its own, and the number of runs grows with the calls. So the time of all runs is summed up
// with the cell (`ranMs`), and a run gets at most what `totalTimeMs` leaves.

import type { CellSettings } from "../../engine/internal.ts";
import type { CodeCalls, CodeFailed, CodeFinished, RunCode, Turn } from "../../kernel/internal.ts";
import type { CellCall } from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { RunSpans } from "../run-spans.ts";

import { cellSettingsOf, checkValue, defaultCellLimits } from "../../engine/internal.ts";
import { cellCalls, cellRanMs, codeCalls, codeFailed, codeFinished } from "../../kernel/internal.ts";
import { EngineError, isEverturnError, toCause, toolCall } from "../../model/internal.ts";
import { forModel } from "./tool-answer.ts";

/** What a cell needs from the run besides its plan. */
type CodeRun = { readonly signal: AbortSignal; readonly tenant: string | null; readonly spans: RunSpans };

/**
 * Runs a cell until it ends or makes calls. An executor that throws makes the cell fail; this function does not reject
 * for it. Rejects if the engine has no executor.
 */
export async function performCode(
  plan: RunPlan,
  { signal, tenant, spans }: CodeRun,
  effect: RunCode,
  turn: Turn,
): Promise<CodeFinished | CodeCalls | CodeFailed> {
  const startedAt = plan.clock.now();
  const { executor, limits, finish } = settingsOf(plan);
  const { id, cellId, code } = effect;
  const current = { name: executor.name, version: executor.version };
  // Another executor or version may run the same code differently, so a started cell is not continued with it.
  if (
    effect.executor !== null &&
    (effect.executor.name !== current.name || effect.executor.version !== current.version)
  ) {
    const message = `The cell was started by ${effect.executor.name} ${effect.executor.version}; the engine now has ${current.name} ${current.version}.`;
    return codeFailed(id, message, { reason: "diverged" });
  }
  const calls = cellCalls(turn).map((call): CellCall =>
    call.answer?.type === "failure"
      ? { ...call, answer: { ...call.answer, failure: forModel(call.answer.failure, plan) } }
      : call,
  );
  const { tools } = turn.environment;
  const cellLimits = { ...defaultCellLimits, ...limits };
  const leftMs = cellLimits.totalTimeMs - cellRanMs(turn);
  const overTotal = (durationMs: number): CodeFailed => {
    const message = `more than ${cellLimits.totalTimeMs} milliseconds in all runs of the cell (limits.totalTimeMs)`;
    return codeFailed(id, message, { reason: "limit_exceeded", durationMs });
  };
  if (leftMs <= 0) return overTotal(0);
  const span = spans.start("code", id, 1, { cellId, answers: calls.length }, { arguments: { code } });
  try {
    const result = await span.within(() =>
      executor.run({
        cellId,
        code,
        calls,
        tools,
        limits: { ...cellLimits, timeMs: Math.min(cellLimits.timeMs, leftMs) },
        signal,
        ...(tenant === null ? {} : { tenant }),
      }),
    );
    span.stop({ type: result.type });
    const durationMs = plan.clock.now() - startedAt;
    switch (result.type) {
      case "calls": {
        // Call ids are derived from the cell and the position of the call, so they are the same when the cell runs
        // again.
        const toolCalls = result.calls.map(({ name, arguments: args }, index) =>
          toolCall({ id: `${cellId}/${calls.length + index}`, name, arguments: args }),
        );
        return codeCalls(id, toolCalls, current, { ranMs: result.ranMs ?? durationMs, durationMs });
      }
      case "failed":
        // The executor names the limit of the run, which was lowered to the rest of the total.
        if (result.reason === "limit_exceeded" && leftMs < cellLimits.timeMs && durationMs >= leftMs)
          return overTotal(durationMs);
        return codeFailed(id, result.message, { reason: result.reason, durationMs });
      case "finished": {
        const { observations, error, finish: cellEnd } = result;
        if (cellEnd === null || cellEnd.type === "error") {
          return codeFinished(id, {
            observations,
            error,
            finish: cellEnd === null ? null : { type: "error", value: cellEnd.value },
            durationMs,
          });
        }
        const checked = finish === undefined ? null : await checkValue(finish, cellEnd.value);
        const issues = checked === null || checked.ok ? [] : checked.issues;
        return codeFinished(id, {
          observations,
          error,
          finish: { type: "value", value: cellEnd.value, issues },
          durationMs,
        });
      }
    }
    // Reached only if an executor written in JavaScript returns a value of another type.
    return codeFailed(id, "the executor returned an invalid result", { durationMs });
  } catch (error) {
    span.fail(error);
    // The executor cannot run any cell, for example because its packages are not installed. The model cannot correct
    // that: the run rejects, and a durable turn stays open until a process has a working executor.
    if (isEverturnError(error) && error.failure.type === "engine_error") throw error;
    return codeFailed(id, toCause(error)?.message ?? "the executor threw", {
      durationMs: plan.clock.now() - startedAt,
    });
  }
}

/**
 * The code executor of the engine. Throws `EngineError` if it has none: a turn that is continued may have got another
 * engine.
 */
function settingsOf({ protocol }: RunPlan): CellSettings {
  const settings = cellSettingsOf(protocol);
  if (settings !== null) return settings;
  const message =
    "run_code: the engine has no code executor: use an engine with the code protocol, or add `executor` to your protocol";
  throw new EngineError("invalid_engine", { message });
}
