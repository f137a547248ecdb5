// Makes calls of tools, in stages: it may have begun in another process; it is prepared; it runs; what the model gets to see of it is settled. What is
// wrong with a call is told to the model, and what a handler does, returns or throws becomes an outcome: only what cannot be written down rejects.

import type { CallTool, ToolReturned, ToolWaits } from "../../kernel/internal.ts";
import type { CallerContext, JsonObject } from "../../model/internal.ts";
import type { Plan } from "../plan/plan.ts";
import type { Prepared } from "./prepare-tool.ts";
import type { Answer } from "./tool-answer.ts";
import type { InnerWait, ToolPorts } from "./tool-job.ts";

import { toolReturned, toolWaits } from "../../kernel/internal.ts";
import { cutContent } from "./encode-result.ts";
import { prepareTool, recallPrepared } from "./prepare-tool.ts";
import { ToolRun } from "./run-tool.ts";
import { isSameJson, startedPolicy, startName } from "./start-mark.ts";
import { ToolAnswers } from "./tool-answer.ts";
import { innerHints, ToolJob } from "./tool-job.ts";

export async function performTool<Context extends CallerContext>(
  plan: Plan<Context>,
  ports: ToolPorts,
  effect: CallTool,
): Promise<ToolReturned | ToolWaits> {
  const began = plan.clock.now();
  const { id, call } = effect;
  const job = new ToolJob(plan, ports, effect);
  const answers = new ToolAnswers(job);
  try {
    const known = recallPrepared(job);
    const args = wouldRun(effect, known);
    const begun = args === null ? null : startedPolicy(ports.scope.find(id, startName), call.name, args);
    if (begun === "ask") return toolWaits(id, "outcome_unknown");
    if (begun === "never") return returned(answers.outcomeUnknown(), args);
    const ready = await prepareTool(job, answers, known);
    if (ready.type === "waits") return toolWaits(id, "approval");
    if (ready.type !== "ready") return returned(await answers.settle(ready, job), null);
    const run = new ToolRun(job, answers, ready.prepared, ready.args).run();
    const ran = await Promise.race([run, job.waiting]);
    if (job.inner !== null) {
      await job.waiting;
      return waiting(job.inner, ready.args);
    }
    return returned(await answers.settle(ran ?? (await run), job), ready.args);
  } finally {
    job.end();
  }

  /** A turn inside waits: the handler is told to stop, and what it ran with is kept for when it is run again. */
  function waiting({ reason, question, opts, path }: InnerWait, ran: JsonObject): ToolWaits {
    job.stop.abort(new DOMException("a turn inside this call waits for somebody", "AbortError"));
    const told = innerHints(opts);
    const kept = isSameJson(ran, call.arguments) ? told : { ...told, ran };
    return toolWaits(id, reason, { question, path, opts: { ...opts, inner: kept }, spent: job.spent });
  }

  function returned({ outcome, content, stops }: Answer, ranWith: JsonObject | null): ToolReturned {
    return toolReturned(id, outcome, {
      content: cutContent(content, plan.maxToolResultLength),
      stops,
      ranArguments: ranWith !== null && !isSameJson(ranWith, call.arguments) ? ranWith : null,
      spent: job.spent,
      durationMs: plan.clock.now() - began,
    });
  }
}

/** The arguments a call would run with, as far as that is known before anybody is asked; `null`: it would not run. */
function wouldRun({ call, decision }: CallTool, known: Prepared | null): JsonObject | null {
  if (known === null) return decision?.arguments ?? call.arguments;
  return known.type === "ready" ? known.arguments : null;
}
