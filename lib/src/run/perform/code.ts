// Runs cells of code.

import type { CodeSettings } from "../../engine/internal.ts";
import type { CodeCalls, CodeFailed, CodeFinished, RunCode, Turn } from "../../kernel/internal.ts";
import type { RunPlan } from "../plan/plan.ts";

import { checkValue, defaultCellLimits, startSpan } from "../../engine/internal.ts";
import { cellCalls, codeCalls, codeFailed, codeFinished } from "../../kernel/internal.ts";
import { toCause, toolCall } from "../../model/internal.ts";

export async function performCode(
  plan: RunPlan,
  settings: CodeSettings,
  signal: AbortSignal,
  parentSpan: number | null,
  effect: RunCode,
  turn: Turn,
): Promise<CodeFinished | CodeCalls | CodeFailed> {
  const began = plan.clock.now();
  const { executor, limits, finish } = settings;
  const { id, cellId, code } = effect;
  const known = { name: executor.name, version: executor.version };
  if (effect.executor !== null && (effect.executor.name !== known.name || effect.executor.version !== known.version)) {
    const message = `the cell was begun by ${effect.executor.name} ${effect.executor.version}; here is ${known.name} ${known.version}`;
    return codeFailed(id, message, { reason: "diverged" });
  }
  const calls = cellCalls(turn);
  const { tools } = turn.environment;
  const span = startSpan("code", plan.requestId, { cellId, answers: calls.length }, parentSpan, plan.clock.now);
  try {
    const result = await executor.run({
      cellId,
      code,
      calls,
      tools,
      limits: { ...defaultCellLimits, ...limits },
      signal,
    });
    span.stop({ type: result.type });
    const durationMs = plan.clock.now() - began;
    switch (result.type) {
      case "calls": {
        const made = result.calls.map(({ name, arguments: args }, index) =>
          toolCall({ id: `${cellId}/${calls.length + index}`, name, arguments: args }),
        );
        return codeCalls(id, made, known, { durationMs });
      }
      case "failed":
        return codeFailed(id, result.message, { reason: result.reason, durationMs });
      case "finished": {
        const { observations, error, finish: ended } = result;
        if (ended === null || ended.type === "error") {
          return codeFinished(id, {
            observations,
            error,
            finish: ended === null ? null : { type: "error", value: ended.value },
            durationMs,
          });
        }
        const checked = finish === undefined ? null : await checkValue(finish, ended.value);
        const issues = checked === null || checked.ok ? [] : checked.issues;
        return codeFinished(id, {
          observations,
          error,
          finish: { type: "value", value: ended.value, issues },
          durationMs,
        });
      }
    }
    // From a program without a compiler.
    return codeFailed(id, "the executor answered something that is no result", { durationMs });
  } catch (error) {
    span.fail(error);
    return codeFailed(id, toCause(error)?.message ?? "the executor threw", {
      durationMs: plan.clock.now() - began,
    });
  }
}
