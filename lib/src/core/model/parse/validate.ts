// Validation: rules that a value of the right shape must satisfy before it is used. parse.ts checks shapes; this file
// checks meaning, such as "every call has an answer".
//
// Every violation is reported with its path, in a fixed order. Validation changes nothing and never throws, even if a
// JavaScript caller passes a value of the wrong type: every rule treats its input as unknown.

import type { ModelRequest } from "../call/request.ts";
import type { ValidationErrorReason, ValidationFailure } from "../failure/failure.ts";
import type { Issue, Path } from "../failure/issue.ts";
import type { Result } from "../failure/result.ts";
import type { Message } from "../message/message.ts";
import type { Thread } from "../message/thread.ts";
import type { Session } from "../session/session.ts";
import type { ToolSpec } from "../tool/tool.ts";

import { failureShape } from "../failure/failure.ts";
import { validationFailure } from "../failure/failures.ts";
import { failed, ok } from "../failure/result.ts";
import { roles } from "../message/message.ts";
import { textHead } from "../message/truncate-text.ts";
import { sessionStatuses } from "../session/session-status.ts";
import { reservedToolNames } from "../tool/tool.ts";
import { describe, isPlainObject, ownValue } from "./json.ts";
import { isPositiveInteger, issue, notAnObject } from "./rule.ts";
import { maxIssues, read } from "./shape.ts";

/**
 * Checks that a request can be sent: it has messages, tool names are unique, numbers are in range. A violation is
 * a failure (`invalid_request`).
 */
export function validateRequest(request: ModelRequest): Result<ModelRequest, ValidationFailure> {
  return toResult("invalid_request", request, requestIssues(request));
}

/**
 * Checks that role, content and calls of a message fit together, that call ids are unique and that a user message
 * is not blank. A violation is a failure (`invalid_message`).
 */
export function validateMessage(message: Message): Result<Message, ValidationFailure> {
  return toResult("invalid_message", message, messageIssues(message, []));
}

/**
 * Checks a tool specification: a usable name, a description, a schema that is an object. A violation is a failure
 * (`invalid_tool`).
 */
export function validateTool(tool: ToolSpec): Result<ToolSpec, ValidationFailure> {
  return toResult("invalid_tool", tool, toolIssues(tool, []));
}

/**
 * Checks that every message is valid, every call is answered and every answer has its call (S2). An answer may
 * be anywhere after its call: rendering for a model moves late results to their calls (Q4). An empty thread is
 * valid. A violation is a failure (`invalid_thread`).
 */
export function validateThread(thread: Thread): Result<Thread, ValidationFailure> {
  return toResult("invalid_thread", thread, threadIssues(thread, [], []));
}

/**
 * Checks that the status fits the pending calls and that every call of the thread is answered or pending (S2). A
 * violation is a failure (`invalid_session`).
 */
export function validateSession(session: Session): Result<Session, ValidationFailure> {
  return toResult("invalid_session", session, sessionIssues(session));
}

/** Returns the value, or a failure with at most `maxIssues` issues. */
export function toResult<T>(
  reason: ValidationErrorReason,
  value: T,
  issues: readonly Issue[],
): Result<T, ValidationFailure> {
  return issues.length === 0 ? ok(value) : failed(validationFailure(reason, { issues: issues.slice(0, maxIssues) }));
}

// Rules. Each takes an unknown input and returns its issues.

function requestIssues(input: unknown): readonly Issue[] {
  if (!isPlainObject(input)) return [notAnObject([], input)];
  const messages = ownValue(input, "messages");
  const isEmpty = Array.isArray(messages) && messages.length === 0;
  return [
    ...(isEmpty ? [issue(["messages"], "empty", "a request needs at least one message")] : []),
    ...messageListIssues(messages, ["messages"]),
    ...toolListIssues(ownValue(input, "tools") ?? []),
    ...numberIssues(input),
    ...formatIssues(input),
  ];
}

function messageListIssues(input: unknown, path: Path): readonly Issue[] {
  if (!Array.isArray(input)) return [issue(path, "not_a_list", `must be a list of messages, not ${describe(input)}`)];
  return input.flatMap((message: unknown, index) => messageIssues(message, [...path, index]));
}

function messageIssues(input: unknown, path: Path): readonly Issue[] {
  if (!isPlainObject(input)) return [notAnObject(path, input)];
  const role = ownValue(input, "role");
  const knownRole = roles.find((word) => word === role);
  const issues: Issue[] = [];
  if (knownRole === undefined) issues.push(issue([...path, "role"], "unknown", `must be one of ${roles.join(", ")}`));
  // An unknown role is checked like `assistant`, which allows every part: one issue for the role is enough.
  issues.push(...contentIssues(ownValue(input, "content"), knownRole ?? "assistant", [...path, "content"]));
  if (knownRole === "tool" && typeof ownValue(input, "toolCallId") !== "string") {
    issues.push(issue([...path, "toolCallId"], "required", "a tool message needs the id of the call it answers"));
  }
  return knownRole === "assistant" ? [...issues, ...callIssues(input, path)] : issues;
}

/** The calls of one reply have distinct ids, and every `tool_call` part refers to one of the calls. */
function callIssues(message: { readonly [key: string]: unknown }, path: Path): readonly Issue[] {
  const calls = callIds(message);
  const ids = new Set<unknown>();
  const repeated = calls.find(({ id }) => ids.has(id) || !ids.add(id));
  const content = ownValue(message, "content");
  const stray = Array.isArray(content) ? content.findIndex((part: unknown) => isStrayCallPart(part, ids)) : -1;
  return [
    ...(repeated === undefined
      ? []
      : [
          issue([...path, "toolCalls", repeated.slot], "duplicate_tool_call_id", "two calls of one reply have this id"),
        ]),
    ...(stray === -1
      ? []
      : [issue([...path, "content", stray], "unknown_tool_call_id", "no call of this message has this id")]),
  ];
}

/**
 * Returns whether a part marks the position of a call that the message does not have. Provider-run calls are in the
 * part itself.
 */
function isStrayCallPart(part: unknown, ids: ReadonlySet<unknown>): boolean {
  if (!isPlainObject(part) || ownValue(part, "type") !== "tool_call") return false;
  return !isPlainObject(ownValue(part, "providerExecuted")) && !ids.has(ownValue(part, "toolCallId"));
}

/** Returns the first string that occurs twice. */
function firstRepeated(words: readonly string[]): string | null {
  const seen = new Set<string>();
  for (const word of words) {
    if (seen.has(word)) return word;
    seen.add(word);
  }
  return null;
}

/**
 * Checks that every user message has content. Adapters and verbs of the runtime use it where the other rules were
 * checked before.
 */
export function blankUserIssues(messages: readonly Message[]): readonly Issue[] {
  const issues: Issue[] = [];
  for (let index = 0; index < messages.length; index += 1) {
    const message = messages[index];
    if (message?.role === "user" && isBlank(message.content)) issues.push(blankIssue(["messages", index, "content"]));
  }
  return issues;
}

function blankIssue(path: Path): Issue {
  return issue(path, "empty", "a user message needs text that is not blank, an image or a file");
}

/**
 * Returns whether content has nothing that a model could read. A pruned part has a marker, and replay data must be sent
 * back.
 */
function isBlank(content: unknown): boolean {
  if (typeof content === "string") return !/\S/.test(content);
  return Array.isArray(content) && content.every(isBlankPart);
}

function isBlankPart(part: unknown): boolean {
  if (!isPlainObject(part) || ownValue(part, "type") !== "text") return false;
  const text = ownValue(part, "text");
  const isMarked = (ownValue(part, "pruneState") ?? null) !== null || (ownValue(part, "provider") ?? null) !== null;
  return typeof text === "string" && !/\S/.test(text) && !isMarked;
}

function contentIssues(content: unknown, role: (typeof roles)[number], path: Path): readonly Issue[] {
  if (role === "user" && isBlank(content)) return [blankIssue(path)];
  if (typeof content === "string") return [];
  if (!Array.isArray(content)) {
    return [issue(path, "invalid_type", `must be a string or a list of parts, not ${describe(content)}`)];
  }
  const allowed = partsByRole[role];
  const types = content.map((part: unknown) => (isPlainObject(part) ? ownValue(part, "type") : undefined));
  const invalidIndex = types.findIndex((type) => !allowed.some((word) => word === type));
  if (invalidIndex === -1) return [];
  if (role === "system" && types[invalidIndex] === "image") {
    return [issue(path, "image_in_system_message", "a system message cannot contain an image; use a user message")];
  }
  const message = `part ${invalidIndex} is not allowed; a message of role ${role} may contain parts of type ${allowed.join(", ")}`;
  return [issue(path, "invalid_part_type", message)];
}

const partsByRole: { readonly [R in (typeof roles)[number]]: readonly string[] } = {
  system: ["text"],
  user: ["text", "image", "file"],
  assistant: ["text", "image", "file", "reasoning", "tool_call", "tool_result", "opaque"],
  tool: ["text", "image", "file"],
  event: ["text"],
};

function toolListIssues(tools: unknown): readonly Issue[] {
  if (!Array.isArray(tools)) return [issue(["tools"], "not_a_list", `must be a list of tools, not ${describe(tools)}`)];
  const names = tools.map((tool: unknown) => (isPlainObject(tool) ? ownValue(tool, "name") : undefined));
  const repeated = firstRepeated(names.filter((name) => typeof name === "string"));
  return [
    ...tools.flatMap((tool: unknown, index) => toolIssues(tool, ["tools", index])),
    ...(repeated === null
      ? []
      : [issue(["tools"], "duplicate_name", `two tools have the name ${JSON.stringify(textHead(repeated, 64))}`)]),
  ];
}

function toolIssues(input: unknown, path: Path): readonly Issue[] {
  if (!isPlainObject(input)) return [notAnObject(path, input)];
  const description = ownValue(input, "description");
  const schema = ownValue(input, "schema");
  const issues = [...toolNameIssues(ownValue(input, "name"), [...path, "name"])];
  if (typeof description !== "string") {
    issues.push(issue([...path, "description"], "not_a_string", `must be a string, not ${describe(description)}`));
  }
  if (!isPlainObject(schema)) {
    issues.push(issue([...path, "schema"], "not_a_map", `must be a JSON Schema object, not ${describe(schema)}`));
  }
  return issues;
}

function toolNameIssues(name: unknown, path: Path): readonly Issue[] {
  if (name === "") return [issue(path, "empty", "a tool needs a name")];
  if (reservedToolNames.some((reserved) => reserved === name)) {
    return [issue(path, "reserved_tool_name", `${reservedToolNames.join(", ")} are keywords of toolChoice`)];
  }
  if (typeof name === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(name)) return [];
  const given = typeof name === "string" ? JSON.stringify(textHead(name, 80)) : describe(name);
  return [issue(path, "invalid_format", `must be 1 to 64 letters, digits, underscores and hyphens, not ${given}`)];
}

function numberIssues(request: { readonly [key: string]: unknown }): readonly Issue[] {
  const temperature = ownValue(request, "temperature") ?? null;
  const maxTokens = ownValue(request, "maxTokens") ?? null;
  const issues: Issue[] = [];
  if (temperature !== null && !(typeof temperature === "number" && temperature >= 0 && temperature <= 2)) {
    issues.push(issue(["temperature"], "out_of_range", "must be a number from 0 to 2"));
  }
  if (maxTokens !== null && !isPositiveInteger(maxTokens)) {
    issues.push(issue(["maxTokens"], "must_be_positive", "must be a whole number of 1 or more"));
  }
  return issues;
}

function formatIssues(request: { readonly [key: string]: unknown }): readonly Issue[] {
  const format = ownValue(request, "responseFormat") ?? null;
  const type = isPlainObject(format) ? ownValue(format, "type") : undefined;
  const issues: Issue[] = [];
  if (format !== null && type !== "text" && type !== "json_object" && type !== "json_schema") {
    issues.push(issue(["responseFormat"], "invalid_shape", "must be of type text, json_object or json_schema"));
  }
  if (ownValue(request, "structuredFinalize") === true && type !== "json_schema" && type !== "json_object") {
    const message = "needs a responseFormat of type json_schema, built by jsonSchema(name, schema), or json_object";
    issues.push(issue(["structuredFinalize"], "requires_json_schema", message));
  }
  return issues;
}

function threadIssues(input: unknown, path: Path, pending: readonly string[]): readonly Issue[] {
  if (!isPlainObject(input)) return [notAnObject(path, input)];
  const messages = ownValue(input, "messages");
  const at = [...path, "messages"];
  const issues = messageListIssues(messages, at);
  return Array.isArray(messages) ? [...issues, ...pairingIssues(messages, at, pending)] : issues;
}

/**
 * Calls without an answer, and answers without a call. Call ids are unique within a reply only, so an answer belongs to
 * the oldest unanswered call with its id. Linear in the number of messages and calls.
 */
function pairingIssues(messages: readonly unknown[], path: Path, pending: readonly string[]): readonly Issue[] {
  const callsById = new Map<string, { readonly places: Path[]; answered: number }>();
  const orphans: Issue[] = [];
  for (const [index, message] of messages.entries()) {
    if (!isPlainObject(message)) continue;
    const role = ownValue(message, "role");
    if (role === "assistant") {
      for (const { id, slot } of callIds(message)) {
        const place = [...path, index, "toolCalls", slot];
        const calls = callsById.get(id);
        if (calls === undefined) callsById.set(id, { places: [place], answered: 0 });
        else calls.places.push(place);
      }
    }
    const answeredId = role === "tool" ? ownValue(message, "toolCallId") : undefined;
    const calls = typeof answeredId === "string" ? callsById.get(answeredId) : undefined;
    if (calls !== undefined && calls.answered < calls.places.length) {
      calls.answered += 1;
    } else if (typeof answeredId === "string") {
      const text = `no unanswered call with the id ${JSON.stringify(textHead(answeredId, 64))} precedes this answer`;
      orphans.push(issue([...path, index, "toolCallId"], "unknown_tool_call_id", text));
    }
  }
  // A pending call accounts for one unanswered call of its id, the newest first: the older ones are violations.
  for (const id of pending) callsById.get(id)?.places.pop();
  const unanswered = [...callsById].flatMap(([id, { places, answered }]) =>
    places.slice(answered).map((place) => unansweredAt(id, place)),
  );
  return [...orphans, ...unanswered];
}

function callIds(message: {
  readonly [key: string]: unknown;
}): readonly { readonly id: string; readonly slot: number }[] {
  const calls = ownValue(message, "toolCalls");
  if (!Array.isArray(calls)) return [];
  return calls.flatMap((call: unknown, slot) => {
    const id = isPlainObject(call) ? ownValue(call, "id") : undefined;
    return typeof id === "string" ? [{ id, slot }] : [];
  });
}

function unansweredAt(id: string, path: Path): Issue {
  const quotedId = JSON.stringify(textHead(id, 64));
  return issue(path, "unanswered_tool_call", `the call ${quotedId} has no answer; append toolResult(${quotedId}, …)`);
}

function sessionIssues(input: unknown): readonly Issue[] {
  if (!isPlainObject(input)) return [notAnObject([], input)];
  const status = ownValue(input, "status");
  const pendingCalls = ownValue(input, "pendingToolCalls");
  const metadata = ownValue(input, "metadata");
  const issues: Issue[] = [];
  if (!sessionStatuses.some((word) => word === status)) {
    issues.push(issue(["status"], "unknown", `must be one of ${sessionStatuses.join(", ")}`));
  }
  if (status === "awaiting_user" && typeof ownValue(input, "pendingQuestion") !== "string") {
    issues.push(issue(["pendingQuestion"], "required_for_status", "the status awaiting_user requires a question"));
  }
  if (status === "awaiting_tools" && !(Array.isArray(pendingCalls) && pendingCalls.length > 0)) {
    issues.push(issue(["pendingToolCalls"], "required_for_status", "the status awaiting_tools requires pending calls"));
  }
  if (status === "error" && !hasFailure(metadata)) {
    issues.push(
      issue(["metadata"], "error_required_for_status", "the status error requires a failure in metadata.error"),
    );
  }
  if (status === "idle" || status === "completed") issues.push(...openItemIssues(status, input));
  return [
    ...issues,
    ...threadIssues(
      ownValue(input, "thread"),
      ["thread"],
      callIds({ toolCalls: pendingCalls }).map(({ id }) => id),
    ),
  ];
}

/** A session in the status `idle` or `completed` has no question and no undecided pending call. */
function openItemIssues(status: string, session: { readonly [key: string]: unknown }): readonly Issue[] {
  const pendingCalls = ownValue(session, "pendingToolCalls");
  const undecided = Array.isArray(pendingCalls)
    ? pendingCalls.findIndex((call: unknown) => isPlainObject(call) && (ownValue(call, "decision") ?? null) === null)
    : -1;
  const question = ownValue(session, "pendingQuestion") ?? null;
  return [
    ...(question === null
      ? []
      : [issue(["pendingQuestion"], "not_allowed_for_status", `the status ${status} allows no open question`)]),
    ...(undecided === -1
      ? []
      : [
          issue(
            ["pendingToolCalls", undecided],
            "not_allowed_for_status",
            `the status ${status} allows no undecided call`,
          ),
        ]),
  ];
}

function hasFailure(metadata: unknown): boolean {
  return isPlainObject(metadata) && "value" in read(failureShape, ownValue(metadata, "error"));
}
