// Defects that a codec could have, as changes of the body it wrote. The comparison must find each of them: this shows
// that its rules hide no content.

import type { WireApi } from "../../../src/core/wire/internal.ts";
import type { Json, JsonObject } from "everturn";

import { isList, isObject, listOf, mapField, mapObjects, objectOf, objectsOf, stringOrNull, without } from "./json.ts";

/** A defect. `mutate` returns `null` if the body has nothing that the defect could change. */
export type Mutation = {
  readonly name: string;
  readonly mutate: (api: WireApi, body: JsonObject) => JsonObject | null;
};

export const mutations: readonly Mutation[] = [
  { name: "tool dropped", mutate: (_, body) => changeLast(body, "tools", dropTool) },
  {
    name: "tool description changed",
    mutate: (_, body) => changeFirst(body, "description", "tools", () => "another description"),
  },
  {
    name: "schema of a tool changed",
    mutate: (_, body) => changeFirst(body, "properties", "tools", () => ({ other: {} })),
  },
  {
    name: "argument changed",
    mutate: (api, body) => changeFirst(body, argumentsField[api], messagesField[api], changeArguments),
  },
  {
    name: "call id changed",
    mutate: (api, body) =>
      api === "gemini" ? null : changeFirst(body, callIdField[api], messagesField[api], () => "call_other"),
  },
  { name: "image lost", mutate: (api, body) => dropFirst(body, messagesField[api], isImage) },
  { name: "text changed", mutate: (api, body) => changeFirst(body, "text", messagesField[api], changeText) },
  { name: "message dropped", mutate: (api, body) => changeLast(body, messagesField[api], () => []) },
  { name: "messages reordered", mutate: (api, body) => swapMessages(body, messagesField[api]) },
  {
    name: "role changed",
    mutate: (api, body) =>
      changeFirst(body, "role", messagesField[api], (role) => (role === "user" ? otherRole[api] : undefined)),
  },
  { name: "signature lost", mutate: (api, body) => dropField(body, signatureFields, messagesField[api]) },
  { name: "system prompt lost", mutate: (api, body) => dropSystem(api, body) },
  { name: "field added", mutate: (_, body) => ({ ...body, unexpected_field: true }) },
  {
    name: "setting changed",
    mutate: (_, body) =>
      changeFirst(body, "temperature", null, (value) => (typeof value === "number" ? value + 0.25 : undefined)),
  },
  { name: "tool choice lost", mutate: dropToolChoice },
  {
    name: "response schema lost",
    mutate: (_, body) => dropField(body, ["format", "response_format", "responseJsonSchema"], null),
  },
];

const messagesField: { readonly [A in WireApi]: string } = {
  "openai-responses": "input",
  "openai-chat": "messages",
  "anthropic-messages": "messages",
  gemini: "contents",
};
const argumentsField: { readonly [A in WireApi]: string } = {
  "openai-responses": "arguments",
  "openai-chat": "arguments",
  "anthropic-messages": "input",
  gemini: "args",
};
const callIdField: { readonly [A in WireApi]: string } = {
  "openai-responses": "call_id",
  "openai-chat": "tool_call_id",
  "anthropic-messages": "tool_use_id",
  gemini: "id",
};
const otherRole: { readonly [A in WireApi]: string } = {
  "openai-responses": "assistant",
  "openai-chat": "assistant",
  "anthropic-messages": "assistant",
  gemini: "model",
};
const signatureFields = ["signature", "thoughtSignature", "encrypted_content", "reasoning_details"];

/**
 * Replaces the first field of this name for which `change` returns a value, below a field of the body (`null`:
 * anywhere).
 */
function changeFirst(
  body: JsonObject,
  name: string,
  below: string | null,
  change: (value: Json) => Json | undefined,
): JsonObject | null {
  let isChanged = false;
  const visit = (value: Json): Json => {
    if (isChanged) return value;
    if (isList(value)) return value.map(visit);
    if (!isObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, item]): [string, Json] => {
        const replaced = isChanged || key !== name ? undefined : change(item);
        if (replaced === undefined) return [key, visit(item)];
        isChanged = true;
        return [key, replaced];
      }),
    );
  };
  const changed = below === null ? objectOf(visit(body)) : mapField(body, below, visit);
  return isChanged ? changed : null;
}

/** Removes the first field with one of these names. The codec's own placeholder signature is no content. */
function dropField(body: JsonObject, names: readonly string[], below: string | null): JsonObject | null {
  let isDropped = false;
  const visit = (value: Json): Json => {
    if (isList(value)) return value.map(visit);
    if (!isObject(value)) return value;
    const name = names.find(
      (key) => (value[key] ?? null) !== null && value[key] !== "skip_thought_signature_validator",
    );
    if (isDropped || name === undefined)
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, visit(item)]));
    isDropped = true;
    return without(value, name);
  };
  const changed = below === null ? objectOf(visit(body)) : mapField(body, below, visit);
  return isDropped ? changed : null;
}

/** Removes the first object of a list, at any depth, that matches. */
function dropFirst(body: JsonObject, below: string, matches: (item: JsonObject) => boolean): JsonObject | null {
  let isDropped = false;
  const visit = (value: Json): Json => {
    if (isList(value)) {
      const index = isDropped ? -1 : value.findIndex((item) => isObject(item) && matches(item));
      if (index !== -1) isDropped = true;
      return index === -1 ? value.map(visit) : value.filter((_, at) => at !== index);
    }
    if (!isObject(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, visit(item)]));
  };
  const changed = mapField(body, below, visit);
  return isDropped ? changed : null;
}

function isImage(part: JsonObject): boolean {
  const type = stringOrNull(part["type"]) ?? "";
  return /image/.test(type) || part["inlineData"] !== undefined || part["fileData"] !== undefined;
}

/** Replaces the last object of a list. */
function changeLast(
  body: JsonObject,
  name: string,
  change: (item: JsonObject) => readonly JsonObject[],
): JsonObject | null {
  const { length } = listOf(body[name]);
  if (length === 0) return null;
  return mapObjects(body, name, (item, index) => (index === length - 1 ? change(item) : [item]));
}

/** Removes a tool: an entry of the list, or the last function of an entry with functions. */
function dropTool(entry: JsonObject): readonly JsonObject[] {
  const functions = listOf(entry["functionDeclarations"]);
  return functions.length < 2 ? [] : [{ ...entry, functionDeclarations: functions.slice(0, -1) }];
}

function changeArguments(value: Json): Json | undefined {
  if (typeof value === "string") return "{}" === value ? '{"other":1}' : "{}";
  return isObject(value) ? { ...value, unexpected_argument: 1 } : undefined;
}

function changeText(value: Json): Json | undefined {
  return typeof value === "string" && value.trim() !== "" ? `${value} changed` : undefined;
}

/** Swaps the first two neighbouring messages that differ and are no results. */
function swapMessages(body: JsonObject, name: string): JsonObject | null {
  const messages = objectsOf(body[name]);
  const at = messages.findIndex((message, index) => {
    const next = messages[index + 1];
    return (
      next !== undefined && !isResult(message) && !isResult(next) && JSON.stringify(message) !== JSON.stringify(next)
    );
  });
  const [one, other] = at === -1 ? [] : messages.slice(at, at + 2);
  if (one === undefined || other === undefined) return null;
  return { ...body, [name]: [...messages.slice(0, at), other, one, ...messages.slice(at + 2)] };
}

function dropSystem(api: WireApi, body: JsonObject): JsonObject | null {
  const field = {
    "openai-responses": "instructions",
    "anthropic-messages": "system",
    gemini: "systemInstruction",
    "openai-chat": null,
  }[api];
  if (field !== null) return body[field] === undefined ? null : without(body, field);
  return dropFirst(body, "messages", ({ role }) => role === "system" || role === "developer");
}

/** Removes a choice that is not the default. */
function dropToolChoice(_: WireApi, body: JsonObject): JsonObject | null {
  const choice = body["tool_choice"] ?? objectOf(objectOf(body["toolConfig"])["functionCallingConfig"])["mode"];
  const isDefault =
    choice === undefined || choice === "auto" || choice === "AUTO" || objectOf(choice)["type"] === "auto";
  return isDefault ? null : without(body, "tool_choice", "toolConfig");
}

function isResult(item: JsonObject): boolean {
  return /output|tool/.test(`${stringOrNull(item["type"]) ?? ""}${stringOrNull(item["role"]) ?? ""}`);
}
