// Directives: values that a tool handler returns to control the turn (ask the user, end the turn, fail, hand off)
// instead of a plain result.

import type { AnswerForm, Json, JsonObject, Message, ToolControl, ToolFailure } from "../../model/internal.ts";
import type { Shape } from "../../model/parse/reading.ts";

import { encodeToolValue, invalidArgument, MisuseError, renderIssue, toolFailure } from "../../model/internal.ts";
import { array, describe, isPlainObject, messageShape, read, settings } from "../../model/parse/reading.ts";
import { checkRule, oneOf } from "../option-rules.ts";

// `Symbol.for` is shared by all copies of the library in a process, so a directive built by one copy is recognised by
// another.
const mark = Symbol.for("everturn.directive");

/**
 * A value that a tool handler returns to control the turn instead of returning a result. Built by `askUser`,
 * `askAndResume`, `halt`, `fail`, `finish`, `failTurn` and `handoff`.
 */
export type Directive = { readonly [mark]: true } & (
  | { readonly type: "ask_user"; readonly question: string; readonly answerAs: AnswerForm; readonly opts: JsonObject }
  | {
      readonly type: "ask_and_resume";
      readonly question: string;
      readonly state: Json;
      readonly opts: JsonObject;
    }
  | { readonly type: "halt"; readonly reason: string; readonly value: unknown }
  | { readonly type: "fail"; readonly failure: ToolFailure }
  | { readonly type: "control"; readonly value: unknown; readonly control: ToolControl }
);

/**
 * Returns whether a handler's return value is a directive. A result that merely looks like one, for example parsed
 * JSON, is not.
 */
export function isDirective(value: unknown): value is Directive {
  return typeof value === "object" && value !== null && mark in value;
}

/**
 * Ends the turn with a question to the user. The next user message is the answer; with `answerAs: "tool_result"`
 * it becomes the result of this call. The other entries of `opts` are hints for the user interface; those that are
 * `undefined` are left out. Hints are stored: `MisuseError` is thrown if they are not JSON, or look like a credential.
 */
export function askUser(
  question: string,
  // The index signature includes `undefined`: without `exactOptionalPropertyTypes`, the optional `answerAs` conflicts
  // with a narrower one (TS2411).
  options: { readonly answerAs?: AnswerForm; readonly [hint: string]: Json | undefined } = {},
): Directive {
  checkText("askUser", "the question", question);
  checkOptions("askUser", options);
  const { answerAs = "user_message", ...hints } = options;
  checkRule("askUser: ", ["answerAs"], answerAs, oneOf(["user_message", "tool_result"]));
  const given = Object.fromEntries(Object.entries(hints).filter(([, hint]) => hint !== undefined));
  const opts = checked("askUser", settings, given);
  return { [mark]: true, type: "ask_user", question, answerAs, opts };
}

/**
 * Ends the turn with a question to the user, and runs the handler again with the answer (`context.answer`). The call
 * stays pending until then, also in another process. `state` is what the handler needs to continue; it is stored, and
 * readers of the session can see it, so it must not contain secrets. `opts` are hints for the user interface. The
 * second run has the same arguments and the same idempotency key, and asks neither hooks nor an approval again. Throws
 * `MisuseError` if state or options are not JSON, or look like a credential.
 */
export function askAndResume(
  question: string,
  options: { readonly state?: Json; readonly opts?: JsonObject } = {},
): Directive {
  checkText("askAndResume", "the question", question);
  checkOptions("askAndResume", options);
  const { state = null, opts = {} } = options;
  checkOptions("askAndResume", opts);
  checked("askAndResume", settings, { ...opts, state });
  return { [mark]: true, type: "ask_and_resume", question, state, opts };
}

/** Ends the turn with a halted reason of the tool's own and a value. The reasons of the library are reserved. */
export function halt(reason: string, value: unknown = null): Directive {
  checkText("halt", "the reason", reason);
  return { [mark]: true, type: "halt", reason, value };
}

/** Fails the call with a message for the model. The turn continues unless `onToolError` ends it. */
export function fail(
  message: string,
  details: Partial<Omit<ToolFailure, "type" | "reason" | "message" | "cause">> = {},
): Directive {
  checkText("fail", "the message", message);
  return {
    [mark]: true,
    type: "fail",
    failure: toolFailure("handler_failed", { ...details, message, source: "tool" }),
  };
}

/**
 * Ends the turn successfully with a value as its result. As in JSON, dates become text, and keys that are `undefined`
 * are left out. Throws `MisuseError` for a value that JSON would lose, such as a function.
 */
export function finish(value: Json): Directive {
  const encoded = encodeToolValue(value);
  if (!encoded.ok) throw new MisuseError("not_serializable", `finish: ${encoded.failure.message}`);
  const result: Json = JSON.parse(JSON.stringify(value ?? null));
  return { [mark]: true, type: "control", value, control: { type: "finish", value: result } };
}

/** Ends the turn as failed, with a message. */
export function failTurn(message: string): Directive {
  checkText("failTurn", "the message", message);
  const failure = toolFailure("handler_failed", { message, source: "tool" });
  return { [mark]: true, type: "control", value: message, control: { type: "fail", failure } };
}

/**
 * Ends the turn and names the agent that continues, its task and its first messages. Throws `MisuseError` for an
 * empty target or task, and for messages that are invalid.
 */
export function handoff(target: string, task: string, initialMessages: readonly Message[] = []): Directive {
  checkText("handoff", "the target", target);
  checkText("handoff", "the task", task);
  if (target.trim() === "" || task.trim() === "") {
    throw invalidArgument("handoff: the target and the task have to be non-empty texts");
  }
  checked("handoff", array(messageShape), initialMessages);
  return { [mark]: true, type: "control", value: task, control: { type: "handoff", target, task, initialMessages } };
}

/** Continues the turn, and replaces old messages by a summary before the next model call. */
export function compactConversation(instructions: string | null): Directive {
  const value = "The older messages are replaced by a summary before the next step.";
  return { [mark]: true, type: "control", value, control: { type: "compact", instructions } };
}

// A directive is stored as a part of the response of its call. Handlers may be written without a compiler, so the
// values are checked here, where the error names the function that was called wrongly.

function checkText(caller: string, what: string, value: unknown): void {
  if (typeof value === "string") return;
  throw invalidArgument(`${caller}: ${what} has to be text, not ${describe(value)}`);
}

function checkOptions(caller: string, options: unknown): void {
  if (isPlainObject(options)) return;
  throw invalidArgument(`${caller}: the options must be an object, not ${describe(options)}`);
}

function checked<T>(caller: string, shape: Shape<T>, value: unknown): T {
  const parsed = read(shape, value);
  if ("value" in parsed) return parsed.value;
  const problems = parsed.issues.map(renderIssue).join("; ");
  throw invalidArgument(`${caller}: ${problems}`, parsed.issues[0]?.path ?? []);
}
