// Mutations of lib/src/core/model: messages, requests, failures, validation, serialization.

import type { Mutation } from "../mutation.ts";

import { inFile } from "../mutation.ts";

export const modelMutations: readonly Mutation[] = [
  ...inFile("lib/src/core/model/message/message.ts", [
    {
      rows: ["allm 1"],
      defect: "the content of a message may be of any type",
      from: '  reading.report("invalid_type", "must be a string or a list of parts");',
      to: "  {\n    void reading;\n    return undefined as never;\n  };",
    },
    {
      rows: ["allm 2"],
      defect: "an assistant message has no tool calls",
      from: "  toolCalls: fallback(array(toolCallShape), []),",
      to: "  toolCalls: fallback(() => [], []),",
    },
    {
      rows: ["allm 3"],
      defect: "a text becomes no part",
      from: 'typeof content === "string" ? [{ ...emptyText, text: content }] : content',
      to: 'typeof content === "string" ? [] : content',
    },
  ]),
  ...inFile("lib/src/core/model/message/part.ts", [
    {
      rows: ["allm 4"],
      defect: "the default detail of an image is low",
      from: 'detail: fallback(oneOf<ImageDetail>(imageDetails), "auto")',
      to: 'detail: fallback(oneOf<ImageDetail>(imageDetails), "low")',
    },
    {
      rows: ["lash 49"],
      defect: "a summary loses the hash of the original",
      from: "[SUMMARY of original ${pruneState.archiveHash}]",
      to: "[SUMMARY of original]",
    },
  ]),
  ...inFile("lib/src/core/model/message/provider-replay.ts", [
    {
      rows: ["lash 51"],
      defect: "replay data is returned to another model",
      from: " && replay.model === route.model;",
      to: ";",
    },
  ]),
  ...inFile("lib/src/core/model/message/image.ts", [
    {
      rows: ["allm 5"],
      defect: "the extension webp has no MIME type",
      from: '  ["webp", "image/webp"],\n',
      to: "",
    },
    {
      rows: ["allm 6"],
      defect: "an image given by a URL has a data URI",
      from: 'if (source.type === "url" || source.type === "provider_file") return problem("remote_source");',
      to: 'if (source.type === "url" || source.type === "provider_file") return ok("data:");',
    },
  ]),
  ...inFile("lib/src/core/model/tool/tool.ts", [
    {
      rows: ["allm 7"],
      defect: "a tool needs no schema",
      from: "  schema: required(jsonObject),",
      to: "  schema: fallback(jsonObject, {}),",
    },
    {
      rows: ["allm 8"],
      defect: "a call loses its raw arguments",
      from: "  rawArguments: fallback(nullable(string), null),",
      to: "  rawArguments: fallback(() => null, null),",
    },
  ]),
  ...inFile("lib/src/core/model/call/request.ts", [
    {
      rows: ["allm 9"],
      defect: "a schema is not strict by default",
      from: "strict: fallback(boolean, true)",
      to: "strict: fallback(boolean, false)",
    },
  ]),
  ...inFile("lib/src/core/model/call/reply.ts", [
    {
      rows: ["allm 10"],
      defect: "the text of the message is preferred to outputText",
      from: "  if (reply.outputText !== null) return reply.outputText;\n",
      to: "  if (reply.message === null) return reply.outputText;\n",
    },
  ]),
  ...inFile("lib/src/core/model/call/usage.ts", [
    {
      rows: ["allm 11"],
      defect: "a total is derived although output is unknown",
      from: "usage.inputTokens === null || usage.outputTokens === null ? null : usage.inputTokens + usage.outputTokens",
      to: "(usage.inputTokens ?? 0) + (usage.outputTokens ?? 0)",
    },
    {
      rows: ["lash 24"],
      defect: "a token count beyond the exact integers is accepted",
      from: 'path.length === 0 && key.endsWith("Tokens") ? Number.isSafeInteger : Number.isFinite',
      to: "Number.isFinite",
    },
  ]),
  ...inFile("lib/src/core/model/message/thread.ts", [
    {
      rows: ["allm 12"],
      defect: "added messages come first",
      from: "messages: [...thread.messages, ...added.map(message)]",
      to: "messages: [...added.map(message), ...thread.messages]",
    },
  ]),
  ...inFile("lib/src/core/model/turn/run-results.ts", [
    {
      rows: ["allm 13"],
      defect: "a completed run is halted",
      from: 'return result.haltedReason !== "completed";',
      to: 'return result.haltedReason !== "";',
    },
  ]),
  ...inFile("lib/src/core/model/session/session.ts", [
    {
      rows: ["allm 14"],
      defect: "a new session is completed",
      from: 'status: fallback(oneOf<SessionStatus>(sessionStatuses), "idle")',
      to: 'status: fallback(oneOf<SessionStatus>(sessionStatuses), "completed")',
    },
    {
      rows: ["allm 83"],
      defect: "appending a message sets the status",
      from: "return { ...session, thread: addMessage(session.thread, added) };",
      to: 'return { ...session, status: "idle", thread: addMessage(session.thread, added) };',
    },
  ]),
  ...inFile("lib/src/core/model/call/model-ref.ts", [
    {
      rows: ["allm 15"],
      defect: "a model name is converted",
      from: 'either((input) => typeof input === "string", string, modelRefShape)',
      to: 'either((input) => typeof input === "string", (input) => String(input).toLowerCase(), modelRefShape)',
    },
  ]),
  ...inFile("lib/src/core/model/call/image-request.ts", [
    {
      rows: ["allm 16"],
      defect: "the default number of images is 2",
      from: "  n: fallback(number, 1),",
      to: "  n: fallback(number, 2),",
    },
  ]),
  ...inFile("lib/src/core/model/failure/failures.ts", [
    {
      rows: ["allm 17"],
      defect: "an unknown reason is accepted",
      from: "if (Object.hasOwn(reasons, reason)) return { type, reason };",
      to: "if (reasons !== null) return { type, reason };",
    },
    {
      rows: ["lash 20"],
      defect: "the raw error is not truncated at 4000 characters",
      from: 'truncateMiddle(details.raw.trim(), 4000, "chars")',
      to: 'truncateMiddle(details.raw.trim(), 5000, "chars")',
    },
  ]),
  ...inFile("lib/src/core/model/failure/failure.ts", [
    {
      rows: ["lash 21"],
      defect: "an unknown failure kind is not parsed",
      from: 'oneOfOr<ProviderFailureKind>(providerFailureKinds, "unknown")',
      to: "oneOf<ProviderFailureKind>(providerFailureKinds)",
    },
    {
      rows: ["lash 60"],
      defect: "a failure without retryable is retryable",
      from: "  retryable: fallback(boolean, false),",
      to: "  retryable: fallback(boolean, true),",
    },
  ]),
  ...inFile("lib/src/core/model/failure/failure-reasons.ts", [
    {
      rows: ["lash 56"],
      defect: "a missing tool is a failure of execution",
      from: 'not_found: { class: "unavailable" },',
      to: 'not_found: { class: "execution" },',
    },
  ]),
  ...inFile("lib/src/core/model/turn/event.ts", [
    {
      rows: ["allm 18"],
      defect: "a text_delta needs no text",
      from: "text_delta: { id: fallback(nullable(string), null), delta: required(string) }",
      to: 'text_delta: { id: fallback(nullable(string), null), delta: fallback(string, "") }',
    },
  ]),
  ...inFile("lib/src/core/model/parse/validate.ts", [
    {
      rows: ["allm 85"],
      defect: "a request may have a temperature above 2",
      from: "temperature >= 0 && temperature <= 2)",
      to: "temperature >= 0)",
    },
    {
      rows: ["allm 86"],
      defect: "the status awaiting_user needs no question",
      from: 'if (status === "awaiting_user" && typeof',
      to: 'if (status === "" && typeof',
    },
    {
      rows: ["allm 88"],
      defect: "the path of a message has the index of the message before",
      from: "messageIssues(message, [...path, index])",
      to: "messageIssues(message, [...path, index === 0 ? 0 : index - 1])",
    },
    {
      rows: ["allm 115"],
      defect: "a system message may contain an image",
      from: '  system: ["text"],',
      to: '  system: ["text", "image"],',
    },
  ]),
  ...inFile("lib/src/core/model/parse/validate-image-request.ts", [
    {
      rows: ["allm 87"],
      defect: "an edit takes three images",
      from: "(inputs < 1 || inputs > 2)",
      to: "(inputs < 1 || inputs > 3)",
    },
  ]),
  ...inFile("lib/src/core/model/parse/serialize.ts", [
    {
      rows: ["allm 89"],
      defect: "a stored value has the tag of another type",
      from: "return { everturn: type, version: storedVersion, data: parsed.value };",
      to: 'return { everturn: type === "thread" ? "message" : type, version: storedVersion, data: parsed.value };',
    },
    {
      rows: ["allm 91"],
      defect: "a value without a tag has another code",
      from: 'refuse(["format"], "missing_type_tag",',
      to: 'refuse(["format"], "malformed",',
    },
    {
      rows: ["allm 92"],
      defect: "an unknown type is not kept as data",
      from: "  if (!isStoredType(tag) || version > storedVersion) return keepAsData(tag, version, data);",
      to: '  if (!isStoredType(tag)) return refuse(["format"], "unknown_type_tag", tag);\n  if (version > storedVersion) return keepAsData(tag, version, data);',
    },
    {
      rows: ["allm 93"],
      defect: "a value with a function is stored",
      from: "  if (parsed.ok) return {",
      to: "  if (!parsed.ok) return { everturn: type, version: storedVersion, data: null };\n  if (parsed.ok) return {",
    },
    {
      rows: ["allm 90"],
      defect: "the data of a stored value is lost",
      from: "return { everturn: type, version: storedVersion, data: parsed.value };",
      to: "return { everturn: type, version: storedVersion, data: {} };",
    },
  ]),
  ...inFile("lib/src/core/model/tool/tool-value.ts", [
    {
      rows: ["lash 54"],
      defect: "a reserved key is not escaped",
      from: "const escaped = Object.hasOwn(value, reservedKey);",
      to: "const escaped = false;",
    },
    {
      rows: ["lash 55"],
      defect: "an empty result has no text",
      from: 'textPart(value === "" ? noOutput : value)',
      to: "textPart(value)",
    },
  ]),
];
