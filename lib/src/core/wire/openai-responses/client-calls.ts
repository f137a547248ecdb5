// Calls of OpenAI's own tools that the program runs: how an item becomes a call, and how the answer of the program
// becomes an output item.
//
// Item                   name of the call    arguments                    output item
//   computer_call          computer            action or actions, and the   computer_call_output: the first image of
//                                              pending safety checks        the answer
//   local_shell_call       local_shell         the action                   local_shell_call_output: text
//   shell_call             shell               the action                   shell_call_output: stdout, stderr and
//                                                                           outcome of each command
//   apply_patch_call       apply_patch         the operation                apply_patch_call_output: `completed` or
//                                                                           `failed`, and text
//   mcp_approval_request   mcp_<server label>  server, tool and arguments   mcp_approval_response: approved if the call
//                                                                           succeeded
//   tool_search_call       tool_search         the arguments                tool_search_output: definitions of tools
// `custom_tool_call` has its own item too, but with a name and an input, so `items.ts` and `encode.ts` treat it like
// `function_call`.
//
// Invariants
//   1. A `shell_call` in a container and a `tool_search_call` with the execution `server` are run by the provider. They
//      are no calls for the program.
//   2. The item is sent back unchanged (W4). The replay data of a call holds all fields of its item, except those that
//      are the arguments of the call as they are.
//   3. Structured answers are read from the JSON text of a successful result, because the answer is stored as text.
//      Failures are never parsed.
//   4. Safety checks are acknowledged only by a successful answer. The engine runs a call with pending checks only
//      after an approval.
//   5. An answer that the API cannot express (a computer call without a screenshot) has no output item: `encode.ts`
//      then sends the call and the answer as a function call, whose output can be any text.

import type { Json, JsonObject, ToolCall, ToolMessage, UserPart } from "../../model/internal.ts";

import { isJsonArray, normalizeContent, parseJson, textOrPlaceholder } from "../../model/internal.ts";
import { asObject, listAt, numberAt, objectAt, omitNullish, textAt } from "../fields.ts";
import { isHostedEnvironment, mcpCallName } from "../provider-tools.ts";

/** What a client call needs to build its output item. */
type Answer = {
  readonly call: ToolCall;
  readonly message: ToolMessage;
  /** The replay data of the call: the fields of its item. */
  readonly item: JsonObject;
  /** Encodes an image of the answer as the fields of a screenshot. */
  readonly imageFields: (part: UserPart) => JsonObject;
};

/** One type of item. */
type ClientCall = {
  readonly name: (item: JsonObject) => string;
  /** The fields of the item that are stored as arguments of the call and not as replay data. */
  readonly argumentFields: readonly string[];
  readonly argumentsOf: (item: JsonObject) => JsonObject;
  /** The argument fields of the item, built from the arguments of the call. */
  readonly fieldsOf: (args: JsonObject) => JsonObject;
  /** The output item; `null`: the API cannot express the answer. */
  readonly outputOf: (answer: Answer) => JsonObject | null;
  /** The API requires the item id, so the item cannot be sent without the reasoning that belongs to the id. */
  readonly needsId: boolean;
};

const clientCalls: { readonly [type: string]: ClientCall } = {
  computer_call: {
    name: () => "computer",
    argumentFields: ["action", "actions"],
    argumentsOf: (item) =>
      omitNullish({
        action: item["action"],
        actions: item["actions"],
        pending_safety_checks: listAt(item, "pending_safety_checks"),
      }),
    fieldsOf: ({ action, actions }) => omitNullish({ action, actions }),
    outputOf: ({ call, message, imageFields }) => {
      const checks = listAt(call.arguments, "pending_safety_checks");
      const screenshot = outputParts(message).find(isImage);
      const isSuccess = message.status === "success";
      if (screenshot === undefined || (checks.length > 0 && !isSuccess)) return null;
      return omitNullish({
        type: "computer_call_output",
        call_id: message.toolCallId,
        output: { type: "computer_screenshot", ...imageFields(screenshot) },
        acknowledged_safety_checks: checks.length === 0 ? null : checks,
      });
    },
    needsId: true,
  },
  local_shell_call: {
    name: () => "local_shell",
    argumentFields: ["action"],
    argumentsOf: (item) => objectAt(item, "action") ?? {},
    fieldsOf: (args) => ({ action: args }),
    outputOf: ({ message }) => ({
      type: "local_shell_call_output",
      call_id: message.toolCallId,
      output: outputText(message),
    }),
    needsId: true,
  },
  shell_call: {
    name: () => "shell",
    argumentFields: ["action"],
    argumentsOf: (item) => objectAt(item, "action") ?? {},
    fieldsOf: (args) => ({ action: args }),
    outputOf: ({ call, message, item }) =>
      omitNullish({
        type: "shell_call_output",
        call_id: message.toolCallId,
        output: shellOutputs(message),
        max_output_length: numberAt(call.arguments, "max_output_length"),
        caller: item["caller"],
      }),
    needsId: false,
  },
  apply_patch_call: {
    name: () => "apply_patch",
    argumentFields: ["operation"],
    argumentsOf: (item) => objectAt(item, "operation") ?? {},
    fieldsOf: (args) => ({ operation: args }),
    outputOf: ({ message, item }) => {
      const { value, notes } = structuredText(message);
      const result = asObject(value);
      const isFailed = message.status !== "success" || textAt(result, "status") === "failed";
      const text = result === null ? outputText(message) : [...notes, textAt(result, "output") ?? ""].join("");
      return omitNullish({
        type: "apply_patch_call_output",
        call_id: message.toolCallId,
        status: isFailed ? "failed" : "completed",
        output: text === "" ? null : text,
        caller: item["caller"],
      });
    },
    needsId: false,
  },
  mcp_approval_request: {
    name: (item) => mcpCallName(textAt(item, "server_label") ?? ""),
    argumentFields: [],
    argumentsOf: (item) => {
      const text = textAt(item, "arguments");
      const parsed = text === null ? null : parseJson(text);
      return omitNullish({ server_label: item["server_label"], name: item["name"], arguments: parsed?.value ?? text });
    },
    fieldsOf: () => ({}),
    outputOf: ({ message, item }) => {
      const approve = message.status === "success";
      const reason = approve ? null : outputText(message);
      return omitNullish({
        type: "mcp_approval_response",
        approval_request_id: textAt(item, "id") ?? message.toolCallId,
        approve,
        reason: reason === "" ? null : reason,
      });
    },
    needsId: true,
  },
  tool_search_call: {
    name: () => "tool_search",
    argumentFields: [],
    argumentsOf: (item) => {
      const text = textAt(item, "arguments");
      return asObject(item["arguments"]) ?? asObject(text === null ? null : parseJson(text)?.value) ?? {};
    },
    fieldsOf: () => ({}),
    outputOf: ({ message }) => {
      const { value } = structuredText(message);
      const tools = isJsonArray(value) ? value : asObject(value)?.["tools"];
      // The output item has no field for a text or an error. The API accepts the output of a function call in its
      // place.
      if (!isJsonArray(tools))
        return { type: "function_call_output", call_id: message.toolCallId, output: outputText(message) };
      return {
        type: "tool_search_output",
        call_id: message.toolCallId,
        execution: "client",
        status: "completed",
        tools: tools.flatMap((definition) => asObject(definition) ?? []),
      };
    },
    needsId: false,
  },
};

/** How the program runs an item; `null`: the item is no call of a provider tool that the program runs. */
export function clientCallOf(item: JsonObject | null): ClientCall | null {
  const type = textAt(item, "type") ?? "";
  if (type === "shell_call" && isHostedEnvironment(objectAt(item, "environment"))) return null;
  if (type === "tool_search_call" && textAt(item, "execution") !== "client") return null;
  return Object.hasOwn(clientCalls, type) ? (clientCalls[type] ?? null) : null;
}

/** The fields of an item that are its replay data: all except the arguments and the id of the call. */
export function replayFieldsOf({ argumentFields }: ClientCall, item: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(item).filter(([name]) => name !== "call_id" && !argumentFields.includes(name)),
  );
}

/**
 * The outputs of the commands of a shell call. A text is the output of one command; a failure is an error of one
 * command.
 */
function shellOutputs(message: ToolMessage): readonly JsonObject[] {
  // A placeholder for the answer of a user (`awaiting_user`) is no error.
  if (message.status !== "success" && message.status !== "awaiting_user") {
    const outcome = message.code === "timeout" ? { type: "timeout" } : { type: "exit", exit_code: 1 };
    return [{ stdout: "", stderr: outputText(message), outcome }];
  }
  const { value, notes } = structuredText(message);
  const result = asObject(value);
  const list = isJsonArray(value) ? value : (result?.["output"] ?? (result === null ? null : [result]));
  const outputs = (isJsonArray(list) ? list : []).flatMap((output): readonly JsonObject[] => {
    const object = asObject(output);
    return object === null ? [] : [object];
  });
  const isStructured = outputs.length > 0 && outputs.every((output) => "stdout" in output || "stderr" in output);
  if (!isStructured) return [{ stdout: outputText(message), stderr: "", outcome: { type: "exit", exit_code: 0 } }];
  return outputs.map((output, index) => ({
    stdout: (index === 0 ? notes.join("") : "") + (textAt(output, "stdout") ?? ""),
    stderr: textAt(output, "stderr") ?? "",
    outcome: shellOutcome(objectAt(output, "outcome")),
  }));
}

function shellOutcome(outcome: JsonObject | null): JsonObject {
  if (textAt(outcome, "type") === "timeout") return { type: "timeout" };
  return { type: "exit", exit_code: numberAt(outcome, "exit_code") ?? 0 };
}

/**
 * The JSON value in a successful answer, and the texts before it: a note that an approval changed the arguments.
 * `value` is `null` if the last text is no JSON object or list.
 */
function structuredText(message: ToolMessage): { readonly value: Json; readonly notes: readonly string[] } {
  const texts = messageTexts(message);
  const parsed = message.status === "success" ? parseJson(texts.at(-1) ?? "") : null;
  const value = typeof parsed?.value === "object" ? parsed.value : null;
  return { value, notes: value === null ? [] : texts.slice(0, -1) };
}

function outputParts(message: ToolMessage): readonly UserPart[] {
  return normalizeContent<UserPart>(message.content);
}

function messageTexts(message: ToolMessage): readonly string[] {
  return outputParts(message).flatMap((part) =>
    part.type === "text" ? [textOrPlaceholder(part.text, part.pruneState)] : [],
  );
}

function outputText(message: ToolMessage): string {
  return messageTexts(message).join("");
}

function isImage(part: UserPart): boolean {
  if (part.type === "text" || part.pruneState !== null) return false;
  return part.type === "image" || part.mimeType?.startsWith("image/") === true;
}
