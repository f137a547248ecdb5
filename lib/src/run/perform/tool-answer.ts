// From what a handler did, returned or threw to an outcome for the program, and to what the model gets to see of it.

import type { Directive, Tool } from "../../engine/internal.ts";
import type {
  CallerContext,
  JsonObject,
  ToolCall,
  ToolFailure,
  ToolMessage,
  ToolOutcome,
} from "../../model/internal.ts";
import type { Plan } from "../plan/plan.ts";
import type { ToolJob } from "./tool-job.ts";

import { isReservedReason } from "../../engine/internal.ts";
import {
  awaitingUserContent,
  encodeToolValue,
  isEverturnError,
  parse,
  toCause,
  toolFailure,
} from "../../model/internal.ts";
import { encodeAsJson } from "./encode-result.ts";

/** What a call came to, before anybody says what the model gets to see of it. */
export type Ran = Outcome | Failed;
export type Outcome = {
  readonly type: "outcome";
  readonly outcome: ToolOutcome;
  readonly content: ToolMessage["content"];
};
export type Failed = { readonly type: "failed"; readonly failure: ToolFailure };

/** What is settled: the outcome, what the model sees of it, and whether the turn stops there. */
export type Answer = {
  readonly outcome: ToolOutcome;
  readonly content: ToolMessage["content"];
  readonly stops: boolean;
};

export class ToolAnswers<Context extends CallerContext> {
  readonly #plan: Plan<Context>;
  readonly #call: ToolCall;
  readonly #tool: Tool<Context> | null;

  constructor({ plan, effect, tool }: ToolJob<Context>) {
    this.#plan = plan;
    this.#call = effect.call;
    this.#tool = tool;
  }

  /** What the model gets to see, after hooks and the policy for failures have had their say. */
  async settle(ran: Ran, job: ToolJob<Context>): Promise<Answer> {
    const after = await this.#afterTool(ran, job);
    if (after.type === "outcome") return { outcome: after.outcome, content: after.content, stops: false };
    return this.#policy(after.failure);
  }

  /**
   * The answer to a call that was running when its process died. The model gets to read it and decides what to do: nothing of the program's own
   * is asked, neither hooks, for the tool does not run, nor `onToolError`, for nobody knows whether it failed.
   */
  outcomeUnknown(): Answer {
    const message =
      `the process that ran ${this.#call.name} died before the tool had returned; ` +
      "whether it had an effect is not known: find out before you call it again";
    return this.#failure(this.#named(toolFailure("outcome_unknown", { message })), false);
  }

  failed(reason: "not_found" | "invalid_arguments" | "timeout" | "denied", message: string): Failed {
    return { type: "failed", failure: this.#named(toolFailure(reason, { message })) };
  }

  /** What was thrown may be anything, also something that throws when it is looked at. */
  raised(error: unknown): Failed {
    const known = ownFailure(error);
    if (known !== null) return { type: "failed", failure: this.#named(known) };
    const cause = toCause(error);
    const message = cause?.message ?? "the handler threw";
    return { type: "failed", failure: this.#named(toolFailure("handler_raised", { message, cause })) };
  }

  /** What a handler returned. */
  returned(value: unknown): Ran {
    return this.#succeeded(value, this.#tool);
  }

  /** What is given in place of what a handler would have returned. */
  replaced(value: unknown): Ran {
    return this.#succeeded(value, null);
  }

  directed(directive: Directive): Ran {
    switch (directive.type) {
      case "ask_user": {
        const { question, answerAs, opts } = directive;
        return {
          type: "outcome",
          outcome: { type: "ask_user", question, answerAs, opts },
          content: awaitingUserContent,
        };
      }
      case "halt": {
        if (isReservedReason(directive.reason)) {
          const message = `a tool cannot stop a run with "${directive.reason}": that word is the library's own`;
          return { type: "failed", failure: this.#invalid(message, { reservedHaltReason: directive.reason }, null) };
        }
        const ran = this.returned(directive.value);
        if (ran.type === "failed" || ran.outcome.type !== "success") return ran;
        return { ...ran, outcome: { type: "halt", reason: directive.reason, value: ran.outcome.value } };
      }
      case "fail":
        return { type: "failed", failure: this.#named(directive.failure) };
      case "control": {
        const ran = this.replaced(directive.value);
        if (ran.type === "failed" || ran.outcome.type !== "success") return ran;
        return { ...ran, outcome: { ...ran.outcome, control: directive.control } };
      }
    }
  }

  async #afterTool(ran: Ran, { context }: ToolJob<Context>): Promise<Ran> {
    const { afterTool } = this.#plan.hooks;
    if (afterTool === undefined) return ran;
    const outcome: ToolOutcome = ran.type === "outcome" ? ran.outcome : { type: "failure", failure: ran.failure };
    try {
      const replaced = await afterTool(this.#call, outcome, context);
      if (replaced === null || replaced === undefined) return ran;
      if (replaced.type === "failure") return { type: "failed", failure: replaced.failure };
      if (replaced.type === "success")
        return { type: "outcome", outcome: replaced, content: checkedContent(this.#encode(replaced.value)) };
      return { type: "outcome", outcome: replaced, content: ran.type === "outcome" ? ran.content : "" };
    } catch (error) {
      return this.raised(error);
    }
  }

  async #policy(failure: ToolFailure): Promise<Answer> {
    const { onToolError } = this.#plan;
    if (typeof onToolError !== "function") return this.#failure(failure, onToolError === "halt");
    try {
      const answer: unknown = await onToolError(this.#call, failure);
      if (answer === "halt") return this.#failure(failure, true);
      if (typeof answer === "object" && answer !== null && "continue" in answer) {
        const ran = this.replaced(answer.continue);
        // Asked once: a replacement that cannot be shown either ends the turn.
        if (ran.type === "failed") return this.#failure(ran.failure, true);
        return { outcome: ran.outcome, content: ran.content, stops: false };
      }
      const message = 'onToolError has to answer "halt" or { continue: … }';
      return this.#failure(this.#invalid(message, { onToolErrorInvalid: true }, null), true);
    } catch (error) {
      return this.#failure(this.#invalid("onToolError threw", { onToolErrorRaised: true }, error), true);
    }
  }

  #failure(failure: ToolFailure, stops: boolean): Answer {
    return { outcome: { type: "failure", failure }, content: this.#encodeFailure(failure), stops };
  }

  /** The value for the program, and its other form for the model. */
  #succeeded(value: unknown, tool: Tool<Context> | null): Ran {
    try {
      const encoded = encodeToolValue(value === undefined ? null : value);
      if (!encoded.ok) return { type: "failed", failure: this.#named(encoded.failure) };
      const content = checkedContent(
        tool?.toModel === null || tool === null ? this.#encode(value) : tool.toModel(encoded.value),
      );
      return { type: "outcome", outcome: { type: "success", value: encoded.value, control: null }, content };
    } catch (error) {
      const message = toCause(error)?.message ?? "the result could not be encoded";
      return {
        type: "failed",
        failure: this.#named(toolFailure("encoding_failed", { message, cause: toCause(error) })),
      };
    }
  }

  #encode(value: unknown): ToolMessage["content"] {
    return this.#plan.encode({ type: "ok", value: value === undefined ? null : value });
  }

  #encodeFailure(failure: ToolFailure): ToolMessage["content"] {
    try {
      if (failure.reason !== "encoding_failed") return checkedContent(this.#plan.encode({ type: "error", failure }));
    } catch {
      // Then as the library says it.
    }
    return encodeAsJson({ type: "error", failure });
  }

  #invalid(message: string, metadata: JsonObject, error: unknown): ToolFailure {
    return this.#named(
      toolFailure("invalid_return", { message, metadata, ...(error === null ? {} : { cause: toCause(error) }) }),
    );
  }

  #named(failure: ToolFailure): ToolFailure {
    return { ...failure, toolName: this.#call.name, toolCallId: this.#call.id };
  }
}

function ownFailure(error: unknown): ToolFailure | null {
  try {
    return isEverturnError(error) && error.failure.type === "tool_error" ? error.failure : null;
  } catch {
    return null;
  }
}

/** What an encoder made has to be text, or parts a user's message may have. */
function checkedContent(content: ToolMessage["content"]): ToolMessage["content"] {
  const read = parse("message", { role: "tool", toolCallId: "x", content });
  if (read.ok && read.value.role === "tool") return read.value.content;
  throw new TypeError("an encoder has to make text, or a list of parts");
}
