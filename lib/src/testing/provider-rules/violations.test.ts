import type { JsonObject } from "everturn";

import { describe, expect, test } from "vitest";

import { providerRules, refusalOf, violations } from "./violations.ts";

/**
 * The names of all rules. Rows of tables of keywords are named after the keyword, so a keyword that is removed or
 * misspelt is noticed.
 */
const names = {
  "openai-responses": `
    tool_name_required tool_name_pattern tool_name_length format_name_required format_name_pattern format_name_length call_id_length
    reasoning_summary_required output_required compact_threshold_minimum metadata_count temperature_minimum temperature_maximum top_p_maximum
    top_logprobs_maximum safety_identifier_length strict_root_object strict_closed_objects strict_required_fields strict_without_oneOf strict_without_allOf
    strict_without_not strict_without_dependentRequired strict_without_dependentSchemas strict_without_if strict_without_then strict_without_else
    strict_without_propertyNames strict_levels strict_properties strict_enum_values function_object function_without_union function_properties
    function_array_items call_without_output output_without_call duplicate_item reasoning_without_next_item item_not_stored call_item_id
    conversation_or_previous_response audio_file
  `,
  "openai-chat": `
    messages_required messages_empty tool_name_required tool_name_pattern tool_name_length tool_count call_count call_id_length result_id_required
    format_name_required format_name_pattern format_name_length stop_count metadata_count temperature_minimum temperature_maximum top_p_maximum
    top_logprobs_maximum safety_identifier_length frequency_penalty_maximum presence_penalty_maximum strict_root_object strict_closed_objects
    strict_required_fields strict_without_oneOf strict_without_allOf strict_without_not strict_without_dependentRequired
    strict_without_dependentSchemas strict_without_if strict_without_then strict_without_else strict_without_propertyNames strict_levels
    strict_properties strict_enum_values function_object function_without_union function_properties function_array_items call_without_result
    result_without_call result_content audio_format file_type parallel_calls_without_tools
  `,
  "anthropic-messages": `
    max_tokens_required model_required messages_required tool_use_id_required thinking_budget_minimum compaction_trigger_minimum tool_name_pattern
    tool_schema_required tool_schema_type_required beta_of_mcp_servers beta_of_context_management messages_empty empty_text empty_message call_without_result
    result_without_call server_result_without_call container_required thinking_first thinking_last thinking_signature_required thinking_signature
    thinking_budget_below_max_tokens thinking_temperature thinking_forced_tool cache_breakpoints tool_names_unique tool_schema_union
    schema_closed_objects schema_without_oneOf schema_min_items schema_integer_without_minimum schema_integer_without_maximum
    schema_integer_without_exclusiveMinimum schema_integer_without_exclusiveMaximum schema_integer_without_multipleOf schema_number_without_minimum
    schema_number_without_maximum schema_number_without_exclusiveMinimum schema_number_without_exclusiveMaximum schema_number_without_multipleOf
    schema_string_without_minLength schema_string_without_maxLength schema_array_without_maxItems
  `,
  gemini: `
    contents_required parts_required part_data_required role part_id response_count response_after_call call_after_user thought_signature
    function_name function_parameters function_parameters_object response_schema response_mime_type schema_fields schema_type_list functions_with_json
    functions_with_hosted_tools response_media_type
  `,
};

const apis = ["openai-responses", "openai-chat", "anthropic-messages", "gemini"] as const;

describe.each(apis)("the rules of %s", (api) => {
  const rules = providerRules[api];

  test("have the listed names, each once, and a source each", () => {
    expect(rules.map(({ name }) => name)).toEqual(names[api].trim().split(/\s+/));
    expect(new Set(rules.map(({ name }) => name)).size).toBe(rules.length);
    for (const { source } of rules) expect(source).toMatch(/^https:\/\/[^ ]+$/);
  });

  // The examples are at the limit and do not follow from the row, so a change of a number, a pattern or a field fails
  // here.
  test.each(rules)("$name refuses its example and nothing else does", ({ name, refused, accepted }) => {
    expect([...new Set(violations(api, refused).map(({ rule }) => rule))]).toEqual([name]);
    expect(violations(api, accepted)).toEqual([]);
  });

  test("are answered in the format of the provider", () => {
    for (const { refused } of rules) {
      const [violation] = violations(api, refused);
      if (violation === undefined) throw new Error("no violation");
      const { status, body } = refusalOf(api, violation);
      expect(status).toBeGreaterThanOrEqual(400);
      expect(JSON.stringify(body)).toContain(JSON.stringify(violation.message).slice(1, -1));
    }
  });
});

describe("schemas in requests", () => {
  const closed = (properties: JsonObject): JsonObject => ({
    type: "object",
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
  });
  const open = { type: "object", properties: {} };
  const rulesOf = (schema: JsonObject) => {
    const format = { type: "json_schema", name: "n", schema, strict: true };
    return violations("openai-responses", { body: { model: "gpt-5.4", input: "Hi.", text: { format } } }).map(
      ({ rule }) => rule,
    );
  };

  test.each(["items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"])(
    "are checked below %s",
    (keyword) => {
      expect(rulesOf(closed({ value: { [keyword]: open } }))).toContain("strict_closed_objects");
    },
  );

  test.each(["anyOf", "oneOf", "allOf", "prefixItems"])("are checked in the list of %s", (keyword) => {
    expect(rulesOf(closed({ value: { [keyword]: [{ type: "string" }, open] } }))).toContain("strict_closed_objects");
  });

  test.each(["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"])(
    "are checked in the object of %s",
    (keyword) => {
      expect(rulesOf(closed({ value: { [keyword]: { inner: open } } }))).toContain("strict_closed_objects");
    },
  );

  test("have a place in the words of OpenAI", () => {
    const format = {
      type: "json_schema",
      name: "n",
      schema: closed({ list: { type: "array", items: open } }),
      strict: true,
    };
    const [found] = violations("openai-responses", { body: { model: "gpt-5.4", input: "Hi.", text: { format } } });
    expect(found?.message).toBe(
      "Invalid schema for response_format 'n': In context=('properties', 'list', 'items'), 'additionalProperties' is required to be supplied and to be false.",
    );
  });

  test.each(["oneOf", "anyOf", "allOf", "enum", "not"])("of functions must not have %s at the top", (keyword) => {
    const parameters = { type: "object", properties: {}, [keyword]: keyword === "not" ? {} : [] };
    const body = {
      model: "gpt-5.4",
      input: "Hi.",
      tools: [{ type: "function", name: "act", parameters, strict: false }],
    };
    expect(violations("openai-responses", { body }).map(({ rule }) => rule)).toEqual(["function_without_union"]);
  });

  test("of strict tools are checked as those of the output are", () => {
    const parameters = { type: "object", properties: { a: { type: "integer", minimum: 1 } }, required: [] };
    const chat = { type: "function", function: { name: "act", parameters, strict: true } };
    const claude = { name: "act", input_schema: parameters, strict: true };
    const messages = [{ role: "user", content: "Hi." }];
    expect(
      violations("openai-chat", { body: { model: "gpt-5.4", messages, tools: [chat] } }).map(({ rule, path }) => [
        rule,
        path,
      ]),
    ).toEqual([
      ["strict_closed_objects", "tools[0].function.parameters"],
      ["strict_required_fields", "tools[0].function.parameters"],
    ]);
    const body = { model: "claude-opus-5", max_tokens: 9, messages, tools: [claude] };
    expect(violations("anthropic-messages", { body }).map(({ message }) => message)).toEqual([
      "tools.0.custom: For 'object' type, 'additionalProperties' must be explicitly set to false",
      "tools.0.custom: For 'integer' type, property 'minimum' is not supported",
    ]);
  });

  test("of Gemini may have every field of its format, in both notations", () => {
    const text = {
      type: "STRING",
      format: "enum",
      enum: ["a"],
      minLength: "1",
      maxLength: "9",
      pattern: "a",
      example: "a",
      default: "a",
    };
    const list = {
      type: "ARRAY",
      items: { type: "INTEGER", minimum: 1, maximum: 9 },
      minItems: "1",
      max_items: "9",
      nullable: true,
    };
    const properties = { text, list, any: { anyOf: [{ type: "STRING" }] } };
    const schema = {
      type: "OBJECT",
      title: "T",
      description: "D",
      properties,
      required: ["text"],
      propertyOrdering: ["text"],
    };
    const parameters = { ...schema, minProperties: "1", maxProperties: "9" };
    const body = {
      contents: [{ parts: [{ text: "Hi." }] }],
      tools: [{ functionDeclarations: [{ name: "act", parameters }] }],
    };
    expect(violations("gemini", { body })).toEqual([]);
  });
});

test.each([
  "text",
  "inlineData",
  "inline_data",
  "fileData",
  "executableCode",
  "codeExecutionResult",
  "toolCall",
  "toolResponse",
  "videoMetadata",
])("a part of Gemini may have %s", (field) => {
  expect(violations("gemini", { body: { contents: [{ role: "user", parts: [{ [field]: {} }] }] } })).toEqual([]);
});

test.each([
  ["mcp_servers", "mcp-client-2025-04-04"],
  ["context_management", "interleaved-thinking-2025-05-14,context-management-2025-06-27"],
])("Anthropic takes %s with the beta header %s only", (field, beta) => {
  const body = { model: "claude-opus-5", max_tokens: 9, messages: [{ role: "user", content: "Hi." }], [field]: {} };
  expect(violations("anthropic-messages", { body }).map(({ message }) => message)).toEqual([
    `${field}: Extra inputs are not permitted`,
  ]);
  expect(violations("anthropic-messages", { body, headers: { "anthropic-beta": beta } })).toEqual([]);
});

test("thinking blocks of Anthropic are only required in the reply that is being continued", () => {
  const question = { role: "user", content: "Hi." };
  const call = { type: "tool_use", id: "toolu_1", name: "act", input: {} };
  const result = { type: "tool_result", tool_use_id: "toolu_1", content: "done" };
  const thought = { type: "thinking", thinking: "Hm.", signature: "c2ln" };
  const loop = [question, { role: "assistant", content: [call] }, { role: "user", content: [result] }];
  const rulesOf = (...messages: readonly JsonObject[]) => {
    const body = {
      model: "claude-opus-4-5",
      max_tokens: 4096,
      thinking: { type: "enabled", budget_tokens: 1024 },
      messages,
    };
    return violations("anthropic-messages", { body }).map(({ rule }) => rule);
  };
  expect(rulesOf(...loop)).toEqual(["thinking_first"]);
  expect(rulesOf(...loop, { role: "assistant", content: "Done." }, question)).toEqual([]);
  // Without interleaved thinking, only the first reply of a loop has a thinking block.
  const second = { ...call, id: "toolu_2" };
  const answered = { ...result, tool_use_id: "toolu_2" };
  const first = { role: "assistant", content: [thought, call] };
  expect(
    rulesOf(
      question,
      first,
      { role: "user", content: [result] },
      { role: "assistant", content: [second] },
      { role: "user", content: [answered] },
    ),
  ).toEqual([]);
});
