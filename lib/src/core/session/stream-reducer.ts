// Computes the session after a run from the events of its stream. The awaited verbs use it over their own streams; a
// server that forwards events uses it to keep the session.

import type { CallerContext, ChatResult, Session, StepResult, TurnEvent, WithText } from "../model/internal.ts";
import type { OutputOptions } from "./project.ts";

import { Collector } from "../kernel/internal.ts";
import { invalidArgument, withText } from "../model/internal.ts";
import { applyChatResult, applyStepResult, withPendingOutput } from "./project.ts";

/**
 * Computes the session from the events of a stream. `finalize` returns it; for a stream that was left before its
 * end that is a cancelled run. Start with the session before the verb, or, to keep the new message, with the
 * session that the verb built.
 */
export class StreamReducer<Context extends CallerContext = CallerContext> {
  readonly #session: Session<Context>;
  readonly #collector: Collector;
  readonly #mode: "chat" | "step";
  #stepEnded = false;

  /**
   * `output` and `repair` are those of the verb; a session that waits keeps them for the run that continues it.
   * Default: none.
   */
  constructor(
    session: Session<Context>,
    { mode = "chat", ...outputOptions }: { readonly mode?: "chat" | "step" } & OutputOptions = {},
  ) {
    if (mode !== "chat" && mode !== "step") {
      throw invalidArgument(`StreamReducer: mode must be "chat" or "step", not ${String(mode)}`);
    }
    this.#session = withPendingOutput(session, outputOptions);
    this.#collector = new Collector(session.thread);
    this.#mode = mode;
  }

  /** Adds the next event of the stream. */
  add(event: TurnEvent): void {
    if (event.type === "step_completed") this.#stepEnded = true;
    this.#collector.add(event);
  }

  /** Returns the session after the run and the result of the run. Idempotent. */
  finalize(): { readonly session: Session<Context>; readonly result: WithText<ChatResult> } {
    if (this.#mode === "step") {
      const { session } = this.finalizeStep();
      return { session, result: this.#chatResult() };
    }
    const result = this.#chatResult();
    return { session: applyChatResult(this.#session, result), result };
  }

  /**
   * Returns the session after a single step and the result of the step. If the step did not end, the session is
   * unchanged.
   */
  finalizeStep(): { readonly session: Session<Context>; readonly result: WithText<StepResult> } {
    const step = this.#collector.stepResult();
    const result = withText(step, step.response);
    return { session: this.#stepEnded ? applyStepResult(this.#session, result) : this.#session, result };
  }

  #chatResult(): WithText<ChatResult> {
    const result = this.#collector.chatResult();
    return withText(result, result.finalResponse);
  }
}
