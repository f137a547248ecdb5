// What a handler may return besides a value: a wish about the turn it runs in.

import type { AnswerForm, Json, JsonObject, Message, ToolControl, ToolFailure } from "../../model/internal.ts";

import { knownHaltedReasons, MisuseError, toolFailure } from "../../model/internal.ts";

// The same in every copy of the library a program may have loaded.
const mark = Symbol.for("everturn.directive");

export type Directive = { readonly [mark]: true } & (
  | { readonly type: "ask_user"; readonly question: string; readonly answerAs: AnswerForm; readonly opts: JsonObject }
  | { readonly type: "halt"; readonly reason: string; readonly value: unknown }
  | { readonly type: "fail"; readonly failure: ToolFailure }
  | { readonly type: "control"; readonly value: unknown; readonly control: ToolControl }
);

export function isDirective(value: unknown): value is Directive {
  return typeof value === "object" && value !== null && mark in value;
}

/**
 * Ends the turn with a question. What the person says next is the answer; with `answerAs: "tool_result"` it becomes the result of this
 * call instead. Everything else in `opts` are hints for whoever shows the question.
 */
export function askUser(
  question: string,
  { answerAs = "user_message", ...opts }: { readonly answerAs?: AnswerForm; readonly [hint: string]: Json } = {},
): Directive {
  if (typeof question !== "string") throw new MisuseError("invalid_argument", "askUser: the question has to be text");
  return { [mark]: true, type: "ask_user", question, answerAs, opts };
}

/** Ends the turn for a reason of the tool's own, with a value. The library's own reasons are taken. */
export function halt(reason: string, value: unknown = null): Directive {
  return { [mark]: true, type: "halt", reason, value };
}

/** The call failed. The model gets to read why, and the turn goes on unless `onToolError` says otherwise. */
export function fail(
  message: string,
  details: Partial<Omit<ToolFailure, "type" | "reason" | "message" | "cause">> = {},
): Directive {
  return {
    [mark]: true,
    type: "fail",
    failure: toolFailure("handler_failed", { ...details, message, source: "tool" }),
  };
}

/** Ends the turn with a value as its result. */
export function finish(value: Json): Directive {
  return { [mark]: true, type: "control", value, control: { type: "finish", value } };
}

/** Ends the turn as failed. */
export function failTurn(message: string): Directive {
  const failure = toolFailure("handler_failed", { message, source: "tool" });
  return { [mark]: true, type: "control", value: message, control: { type: "fail", failure } };
}

/** Ends the turn and names who goes on, with what. */
export function handoff(target: string, task: string, initialMessages: readonly Message[] = []): Directive {
  if (target.trim() === "" || task.trim() === "") {
    throw new MisuseError("invalid_argument", "handoff: whoever takes over has to be named, and told what to do");
  }
  return { [mark]: true, type: "control", value: task, control: { type: "handoff", target, task, initialMessages } };
}

/** Is this one of the library's own words for why a run stopped? A tool cannot stop with one of them. */
export function isReservedReason(reason: string): boolean {
  return knownHaltedReasons.some((known) => known === reason);
}
