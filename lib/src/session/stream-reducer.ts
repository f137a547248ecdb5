// Folds the events of a session's stream into the session they leave behind.

import type { CallerContext, ChatResult, Session, StepResult, TurnEvent } from "../model/internal.ts";

import { Collector } from "../kernel/internal.ts";
import { MisuseError } from "../model/internal.ts";
import { applyChatResult, applyStepResult } from "./project.ts";

/**
 * Computes the session from the events of a stream. `finalize` returns it; for a stream that was left before its
 * end that is a cancelled run. Start with the session before the verb, or, to keep the new message, with the
 * session that the verb built.
 */
export class StreamReducer<Context extends CallerContext = CallerContext> {
  readonly #session: Session<Context>;
  readonly #collector: Collector;
  readonly #mode: "chat" | "step";
  #stepped = false;

  constructor(session: Session<Context>, { mode = "chat" }: { readonly mode?: "chat" | "step" } = {}) {
    if (mode !== "chat" && mode !== "step") {
      throw new MisuseError("invalid_argument", `a stream is folded as "chat" or as "step", not as ${String(mode)}`);
    }
    this.#session = session;
    this.#collector = new Collector(session.thread);
    this.#mode = mode;
  }

  add(event: TurnEvent): void {
    if (event.type === "step_completed") this.#stepped = true;
    this.#collector.add(event);
  }

  /** The session after the run, and the run. Asking again gives the same. */
  finalize(): { readonly session: Session<Context>; readonly result: ChatResult } {
    if (this.#mode === "step") {
      const { session } = this.finalizeStep();
      return { session, result: this.#collector.chatResult() };
    }
    const result = this.#collector.chatResult();
    return { session: applyChatResult(this.#session, result), result };
  }

  /** The session after a single step, and the step. One that never ended changes nothing. */
  finalizeStep(): { readonly session: Session<Context>; readonly result: StepResult } {
    const result = this.#collector.stepResult();
    return { session: this.#stepped ? applyStepResult(this.#session, result) : this.#session, result };
  }
}
