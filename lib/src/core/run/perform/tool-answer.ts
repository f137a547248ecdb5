// Converts the return value or the exception of a tool handler into an outcome for the program and content for the
// model.
//
// `onToolError` is asked once for a failure. Its replacement value is encoded like a result; if that fails too, the
// turn halts instead of asking again (no recursion). All texts here are recorded in the response, so they can change
// between releases without affecting the replay of open turns.

import type { Directive, Tool } from "../../engine/internal.ts";
import type {
  CallerContext,
  Issue,
  JsonObject,
  ToolCall,
  ToolFailure,
  ToolMessage,
  ToolOutcome,
} from "../../model/internal.ts";
import type { Plan, RunPlan } from "../plan/plan.ts";
import type { ToolJob } from "./tool-job.ts";

import {
  awaitingUserContent,
  encodeToolValue,
  isEverturnError,
  knownHaltedReasons,
  raisedToolReasons,
  renderIssue,
  toCause,
  toolFailure,
  toolOutcomeParts,
} from "../../model/internal.ts";
import { read, readOrNull, toolMessageShape, toolOutcomeShape } from "../../model/parse/reading.ts";
import { encodeAsJson } from "./encode-result.ts";

/** The result of a handler, or of a decision not to run it, before `afterTool` and `onToolError` are applied. */
export type HandlerResult = Outcome | Failed;
/** The call has an outcome, with the content for the model. */
type Outcome = {
  readonly type: "outcome";
  readonly outcome: ToolOutcome;
  readonly content: ToolMessage["content"];
};
/** The call failed; `onToolError` decides what the model sees. */
export type Failed = { readonly type: "failed"; readonly failure: ToolFailure };

/** The final answer: the outcome, the content for the model, and whether the turn halts at it. */
export type Answer = {
  readonly outcome: ToolOutcome;
  readonly content: ToolMessage["content"];
  readonly stops: boolean;
};

/** Builds the results and the final answer of one call. */
export class ToolAnswers<Context extends CallerContext> {
  readonly #plan: Plan<Context>;
  readonly #call: ToolCall;
  readonly #tool: Tool<Context> | null;

  constructor({ plan, effect, tool }: ToolJob<Context>) {
    this.#plan = plan;
    this.#call = effect.call;
    this.#tool = tool;
  }

  /** Applies the `afterTool` hook and, for a failure, `onToolError`. */
  async settle(result: HandlerResult, job: ToolJob<Context>): Promise<Answer> {
    const hooked = await this.#afterTool(result, job);
    if (hooked.type === "outcome") return { outcome: hooked.outcome, content: hooked.content, stops: false };
    return this.#applyOnToolError(hooked.failure);
  }

  /**
   * The answer to a call with a start mark and without a recorded result (replay policy `never`). The process stopped
   * before the outcome was recorded: the handler may have run in part, completely, or not at all. Neither hooks nor
   * `onToolError` are asked: the tool does not run now, and it is not known to have failed. The model reads the answer
   * and decides.
   */
  outcomeUnknown(): Answer {
    const message =
      `the process that ran ${this.#call.name} stopped before the outcome was recorded, so the tool may or may not have run; ` +
      "check whether it had an effect before calling it again";
    return this.#failure(this.#identified(toolFailure("outcome_unknown", { message })), false);
  }

  /** A failure that the library reports. */
  failed(reason: "not_found" | "invalid_arguments" | "timeout" | "denied", message: string): Failed {
    return { type: "failed", failure: this.#identified(toolFailure(reason, { message })) };
  }

  /** A failure from an exception: the failure of an Everturn tool error is kept, anything else is `handler_raised`. */
  raised(error: unknown): Failed {
    const toolError = failureOfToolError(error);
    if (toolError !== null) return { type: "failed", failure: this.#identified(toolError) };
    const cause = toCause(error);
    const message = cause?.message ?? "the handler threw";
    return { type: "failed", failure: this.#identified(toolFailure("handler_raised", { message, cause })) };
  }

  /** The result of a handler that returned a value. The `toModel` encoder of the tool applies. */
  returned(value: unknown): HandlerResult {
    return this.#succeeded(value, this.#tool);
  }

  /**
   * A value that replaces the result of the handler (from a hook, `onToolError` or a directive). `toModel` of the tool
   * does not apply.
   */
  replaced(value: unknown): HandlerResult {
    return this.#succeeded(value, null);
  }

  /** The outcome that a middleware returned in place of that of the handler. */
  adopted(given: unknown): HandlerResult {
    const parsed = read(toolOutcomeShape, given);
    if (!("value" in parsed)) return this.#invalidOutcome("a middleware", parsed.issues, { middlewareInvalid: true });
    const outcome = parsed.value;
    if (outcome.type === "failure") {
      // The shape of an outcome accepts failures of tools only.
      return { type: "failed", failure: this.#identified(outcome.failure) };
    }
    if (outcome.type === "halt" && isReservedReason(outcome.reason)) return this.#reservedHalt(outcome.reason);
    try {
      return { type: "outcome", outcome, content: checkedContent(this.#contentOf(outcome)) };
    } catch (error) {
      return this.raised(error);
    }
  }

  /** The failure of a call for which a function of the program returned anything but an outcome that can be stored. */
  #invalidOutcome(author: string, issues: readonly Issue[], metadata: JsonObject): Failed {
    const message = `${author} must return the outcome of the tool call: ${issues.map(renderIssue).join("; ")}`;
    return { type: "failed", failure: this.#invalid(message, metadata, null) };
  }

  #contentOf(outcome: ToolOutcome): ToolMessage["content"] {
    if (outcome.type !== "success" && outcome.type !== "halt") return toolOutcomeParts(outcome);
    const toModel = this.#tool?.toModel ?? null;
    return toModel === null ? this.#encode(outcome.value) : toModel(outcome.value);
  }

  /** The answer to arguments that do not match the schema of the tool. */
  invalidArguments(issues: readonly Issue[]): Failed {
    const list = issues.map(renderIssue).join("; ");
    return this.failed("invalid_arguments", `the arguments do not match the schema: ${list}`);
  }

  #reservedHalt(reason: string): Failed {
    const message = `a tool cannot halt a run with the reason "${reason}": it is reserved for the library`;
    return { type: "failed", failure: this.#invalid(message, { reservedHaltReason: reason }, null) };
  }

  /** The result of a handler that returned a directive: a question, a halt, a failure or a control value. */
  directed(directive: Directive): HandlerResult {
    switch (directive.type) {
      case "ask_user": {
        const { question, answerAs, opts } = directive;
        return {
          type: "outcome",
          outcome: { type: "ask_user", question, answerAs, opts },
          content: awaitingUserContent,
        };
      }
      // The call has no result yet: it waits, and the performer returns what it waits for.
      case "ask_and_resume":
        return this.replaced(null);
      case "halt": {
        if (isReservedReason(directive.reason)) return this.#reservedHalt(directive.reason);
        const result = this.returned(directive.value);
        if (result.type === "failed" || result.outcome.type !== "success") return result;
        return { ...result, outcome: { type: "halt", reason: directive.reason, value: result.outcome.value } };
      }
      case "fail":
        return { type: "failed", failure: this.#identified(directive.failure) };
      case "control": {
        const result = this.replaced(directive.value);
        if (result.type === "failed" || result.outcome.type !== "success") return result;
        return { ...result, outcome: { ...result.outcome, control: directive.control } };
      }
    }
  }

  /** Runs the `afterTool` hook, which may replace the outcome. A hook that throws makes the call fail. */
  async #afterTool(result: HandlerResult, { context }: ToolJob<Context>): Promise<HandlerResult> {
    const { afterTool } = this.#plan.hooks;
    if (afterTool === undefined) return result;
    try {
      const returned = await afterTool(this.#call, outcomeOf(result), context);
      if (returned === null || returned === undefined) return result;
      const parsed = read(toolOutcomeShape, returned);
      if (!("value" in parsed)) return this.#invalidOutcome("afterTool", parsed.issues, { afterToolInvalid: true });
      const replaced = parsed.value;
      if (replaced.type === "failure") return { type: "failed", failure: replaced.failure };
      if (replaced.type === "success")
        return { type: "outcome", outcome: replaced, content: checkedContent(this.#encode(replaced.value)) };
      return { type: "outcome", outcome: replaced, content: result.type === "outcome" ? result.content : "" };
    } catch (error) {
      return this.raised(error);
    }
  }

  /**
   * Applies `onToolError` to a failure: continue, halt, or a replacement value. An invalid answer and an exception halt
   * the turn.
   */
  async #applyOnToolError(failure: ToolFailure): Promise<Answer> {
    const { onToolError } = this.#plan.limits;
    if (typeof onToolError !== "function") return this.#failure(failure, onToolError === "halt");
    try {
      const answer: unknown = await onToolError(this.#call, failure);
      if (answer === "halt") return this.#failure(failure, true);
      if (typeof answer === "object" && answer !== null && "continue" in answer) {
        const replacement = this.replaced(answer.continue);
        // `onToolError` is asked once: a replacement that cannot be encoded halts the turn.
        if (replacement.type === "failed") return this.#failure(replacement.failure, true);
        return { outcome: replacement.outcome, content: replacement.content, stops: false };
      }
      const message = 'onToolError must return "halt" or { continue: value }';
      return this.#failure(this.#invalid(message, { onToolErrorInvalid: true }, null), true);
    } catch (error) {
      return this.#failure(this.#invalid("onToolError threw", { onToolErrorRaised: true }, error), true);
    }
  }

  #failure(failure: ToolFailure, stops: boolean): Answer {
    return { outcome: { type: "failure", failure }, content: this.#encodeFailure(failure), stops };
  }

  /**
   * Encodes a value twice: as JSON for the program, and as content for the model. Either can fail with
   * `encoding_failed`.
   */
  #succeeded(value: unknown, tool: Tool<Context> | null): HandlerResult {
    try {
      const encoded = encodeToolValue(value === undefined ? null : value);
      if (!encoded.ok) return { type: "failed", failure: this.#identified(encoded.failure) };
      const content = checkedContent(
        tool?.toModel === null || tool === null ? this.#encode(value) : tool.toModel(encoded.value),
      );
      return { type: "outcome", outcome: { type: "success", value: encoded.value, control: null }, content };
    } catch (error) {
      const message = toCause(error)?.message ?? "the result could not be encoded";
      return {
        type: "failed",
        failure: this.#identified(toolFailure("encoding_failed", { message, cause: toCause(error) })),
      };
    }
  }

  #encode(value: unknown): ToolMessage["content"] {
    const encode = this.#plan.options.toolResultEncoder ?? encodeAsJson;
    return encode({ type: "ok", value: value === undefined ? null : value });
  }

  /**
   * Encodes a failure with the encoder of the run. If that encoder fails, or caused the failure, the default encoding
   * is used.
   */
  #encodeFailure(given: ToolFailure): ToolMessage["content"] {
    const failure = forModel(given, this.#plan);
    const encode = this.#plan.options.toolResultEncoder ?? encodeAsJson;
    try {
      if (failure.reason !== "encoding_failed") return checkedContent(encode({ type: "error", failure }));
    } catch {
      // Falls through to the default encoding.
    }
    return encodeAsJson({ type: "error", failure });
  }

  #invalid(message: string, metadata: JsonObject, error: unknown): ToolFailure {
    return this.#identified(
      toolFailure("invalid_return", { message, metadata, ...(error === null ? {} : { cause: toCause(error) }) }),
    );
  }

  /** The failure with the name and the id of this call. */
  #identified(failure: ToolFailure): ToolFailure {
    return { ...failure, toolName: this.#call.name, toolCallId: this.#call.id };
  }
}

/** The outcome of a result. */
export function outcomeOf(result: HandlerResult): ToolOutcome {
  return result.type === "outcome" ? result.outcome : { type: "failure", failure: result.failure };
}

/** The failure of an Everturn tool error. A thrown value can be anything, also an object whose getters throw. */
function failureOfToolError(error: unknown): ToolFailure | null {
  try {
    return isEverturnError(error) && error.failure.type === "tool_error" ? error.failure : null;
  } catch {
    return null;
  }
}

/** Checks the output of an encoder: it must be text, or parts that a user message may have. */
function checkedContent(content: ToolMessage["content"]): ToolMessage["content"] {
  const message = readOrNull(toolMessageShape, { role: "tool", toolCallId: "x", content });
  if (message !== null) return message.content;
  throw new TypeError("a tool result encoder must return text or a list of parts");
}

/** The failure as the model may read it (`hideErrorsFromModel`). */
export function forModel(failure: ToolFailure, { options: { hideErrorsFromModel } }: RunPlan): ToolFailure {
  if (hideErrorsFromModel !== true || !raisedToolReasons.has(failure.reason)) return failure;
  return { ...failure, message: "the tool failed", cause: null, raw: null, metadata: {} };
}

/** Returns whether a halted reason is reserved by the library. `halt` with a reserved reason fails the call. */
function isReservedReason(reason: string): boolean {
  return knownHaltedReasons.some((reserved) => reserved === reason);
}
