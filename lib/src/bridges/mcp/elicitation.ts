// Questions of a server to the user (elicitation), as text for a person and back.
//
// The answer of a person is one text. It is read in this order:
//   1. `decline` or `cancel`, or the answer that a passed deadline gives: that action;
//   2. a JSON object with `action`: the result itself, as a program sends it;
//   3. a JSON object: the fields of the form;
//   4. any other text: the value of the only field, or of the only required field, converted to its type; for a URL,
//      the consent.
// Fields that are missing get the default of their schema. Values that do not match the schema are reported to the
// person, who is asked again.

import type { Json, JsonObject } from "../../core/model/internal.ts";
import type { McpElicitation, McpElicitationResult } from "./types.ts";

import { checkValue } from "../../core/engine/internal.ts";
import { deadlineAnswer, parseJson, renderIssue } from "../../core/model/internal.ts";
import {
  fallback,
  isPlainObject,
  jsonObject,
  object,
  optional,
  read,
  required,
  string,
} from "../../core/model/parse/reading.ts";

const paramsShape = object({
  mode: fallback(string, "form"),
  message: required(string),
  requestedSchema: optional(jsonObject),
  url: optional(string),
});

/** Reads the parameters of `elicitation/create`; `null`: they are not valid, or the mode is unknown. */
export function readElicitation(params: unknown): McpElicitation | null {
  if (!isPlainObject(params)) return null;
  const { mode, message, requestedSchema, url } = params;
  const known = Object.fromEntries(
    Object.entries({ mode, message, requestedSchema, url }).filter(([, value]) => value !== undefined),
  );
  const parsed = read(paramsShape, known);
  if (!("value" in parsed)) return null;
  const { value } = parsed;
  if (value.mode === "url") {
    // Other schemes, such as `javascript:`, could run code in a user interface that makes the address a link.
    const isAddress =
      value.url !== undefined && URL.canParse(value.url) && /^https?:$/.test(new URL(value.url).protocol);
    return value.url !== undefined && isAddress ? { mode: "url", message: value.message, url: value.url } : null;
  }
  if (value.mode !== "form") return null;
  return { mode: "form", message: value.message, schema: value.requestedSchema ?? { type: "object", properties: {} } };
}

/** The question for a person. `problem`: what was wrong with the answer before. */
export function questionText(elicitation: McpElicitation, server: string, problem: string | null): string {
  const head = `${problem === null ? "" : `${problem}\n\n`}${server} asks: ${elicitation.message}`;
  if (elicitation.mode === "url") {
    return `${head}\nOpen ${elicitation.url}\nThen answer "done", or "decline".`;
  }
  const fields = formFields(elicitation.schema);
  const lines = fields.map(({ name, schema, isRequired }) => `- ${name}${fieldText(schema, isRequired)}`);
  const how =
    fields.length > 1
      ? "Answer with a JSON object of these fields, or with the only required one"
      : "Answer with the value";
  return [head, ...lines, `${fields.length === 0 ? 'Answer "yes"' : how}, or "decline".`].join("\n");
}

/** Reads the answer of a person: the result for the server, or what is wrong with the answer. */
export async function readAnswer(
  elicitation: McpElicitation,
  text: string,
): Promise<McpElicitationResult | { readonly problem: string }> {
  const trimmed = text.trim();
  const word = trimmed.toLowerCase();
  if (trimmed === deadlineAnswer) return { action: "cancel" };
  if (word === "decline" || word === "cancel") return { action: word };
  const parsed = jsonIn(trimmed);
  const given = isPlainObject(parsed) ? parsed : null;
  const action = given?.["action"];
  if (given !== null && (action === "decline" || action === "cancel")) return { action };
  if (elicitation.mode === "url") return { action: "accept" };
  const fields = formFields(elicitation.schema);
  const own =
    given !== null && action === "accept" && !fields.some(({ name }) => name === "action")
      ? (given["content"] ?? {})
      : given;
  const content = own !== null && isPlainObject(own) ? own : fromText(fields, trimmed);
  if (content === null) return { problem: "The answer has to be a JSON object with the fields of the form." };
  const complete = { ...defaultsOf(fields), ...content };
  const checked = await checkValue(elicitation.schema, complete);
  if (checked.ok) return { action: "accept", content: complete };
  return { problem: `The answer does not match the form: ${checked.issues.map(renderIssue).join("; ")}.` };
}

type Field = { readonly name: string; readonly schema: JsonObject; readonly isRequired: boolean };

function formFields({ properties, required: names }: JsonObject): readonly Field[] {
  if (properties === undefined || !isPlainObject(properties)) return [];
  const requiredNames = Array.isArray(names) ? names : [];
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    schema: isPlainObject(schema) ? schema : {},
    isRequired: requiredNames.includes(name),
  }));
}

/** The type, the choices, the default and the description of a field. */
function fieldText(schema: JsonObject, isRequired: boolean): string {
  const { type, description, title } = schema;
  const choices = choicesOf(schema);
  const about = [
    typeof type === "string" ? type : "",
    isRequired ? "required" : "",
    choices.length > 0 ? `one of ${choices.join(", ")}` : "",
    schema["default"] === undefined ? "" : `default ${JSON.stringify(schema["default"])}`,
  ].filter((item) => item !== "");
  const label = [description, title].find((item) => typeof item === "string") ?? "";
  return `${about.length > 0 ? ` (${about.join(", ")})` : ""}${typeof label === "string" && label !== "" ? `: ${label}` : ""}`;
}

/** The values of an enumeration: `enum`, or `const` of `oneOf` and `anyOf`; those of the items for a list. */
function choicesOf(schema: JsonObject): readonly string[] {
  const { items } = schema;
  const of = items !== undefined && isPlainObject(items) ? items : schema;
  const listed = [of["enum"], of["oneOf"], of["anyOf"]].find((item) => Array.isArray(item));
  if (!Array.isArray(listed)) return [];
  return listed.map((item: Json) => {
    const value = isPlainObject(item) ? (item["const"] ?? null) : item;
    return typeof value === "string" ? value : JSON.stringify(value);
  });
}

function defaultsOf(fields: readonly Field[]): JsonObject {
  return Object.fromEntries(
    fields.flatMap(({ name, schema }) => {
      const value = schema["default"];
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
}

/**
 * A plain text as the value of the only field, or of the only required one; `null`: it is not clear which field is
 * meant.
 */
function fromText(fields: readonly Field[], text: string): JsonObject | null {
  if (fields.length === 0) return {};
  const requiredFields = fields.filter(({ isRequired }) => isRequired);
  const [field] = fields.length === 1 ? fields : requiredFields;
  if (field === undefined || (fields.length > 1 && requiredFields.length > 1)) return null;
  return { [field.name]: converted(field.schema, text) };
}

function converted({ type }: JsonObject, text: string): Json {
  const word = text.toLowerCase();
  switch (type) {
    case "boolean":
      return ["yes", "y", "true", "ok", "on"].includes(word)
        ? true
        : ["no", "n", "false", "off"].includes(word)
          ? false
          : text;
    case "number":
    case "integer":
      return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
    case "array":
      return jsonIn(text) ?? text.split(",").map((item) => item.trim());
    default:
      return text;
  }
}

function jsonIn(text: string): Json {
  return parseJson(text)?.value ?? null;
}
