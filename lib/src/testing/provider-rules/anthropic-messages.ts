// The documented rules of the Anthropic Messages API.

import type { Json, JsonObject } from "../../core/model/internal.ts";
import type { FieldLimit, LimitWords } from "./field-limits.ts";
import type { Finding, ProviderRequest, ProviderRule } from "./rule.ts";

import { limitRule, required } from "./field-limits.ts";
import { listOf, objectOf, objectsOf, textOrEmpty, valuesAt, findingIf, findingUnless } from "./rule.ts";
import { hasType, subschemasOf } from "./schema-walk.ts";

const reference = "https://platform.claude.com/docs/en/api/messages";
const structuredOutputs = "https://platform.claude.com/docs/en/build-with-claude/structured-outputs";

const question: JsonObject = { role: "user", content: "Hi." };
const base: JsonObject = { model: "claude-opus-4-5", max_tokens: 4096, messages: [question] };
const weather: JsonObject = { name: "weather", input_schema: { type: "object", properties: {} } };
const call: JsonObject = { type: "tool_use", id: "toolu_1", name: "weather", input: {} };
const result: JsonObject = { type: "tool_result", tool_use_id: "toolu_1", content: "Sunny." };
const thought: JsonObject = { type: "thinking", thinking: "Hm.", signature: "c2ln" };
const enabled: JsonObject = { type: "enabled", budget_tokens: 1024 };

function body(fields: JsonObject): ProviderRequest {
  return { body: { ...base, ...fields } };
}

/** A conversation whose replies and results alternate after the question. */
function conversation(contents: readonly (readonly JsonObject[])[], fields: JsonObject = {}): ProviderRequest {
  const messages = contents.map((content, index) => ({ role: index % 2 === 0 ? "assistant" : "user", content }));
  return body({ messages: [question, ...messages], ...fields });
}

function compactionAt(value: number): ProviderRequest {
  const trigger = { type: "input_tokens", value };
  return {
    ...body({ context_management: { edits: [{ type: "compact_20260112", trigger }] } }),
    headers: { "anthropic-beta": "compact-2026-01-12" },
  };
}

function toolNamed(name: string): ProviderRequest {
  return body({ tools: [{ ...weather, name }] });
}

/** Paths are `tools.0.custom.name`: dots, and the kind of the tool after its number. */
function dotted(path: string): string {
  return path.replaceAll(/\[(\d+)\]/g, ".$1").replace(/^tools\.(\d+)/, "tools.$1.custom");
}

const words: LimitWords = {
  required: { message: (path) => `${path}: Field required` },
  pattern: { message: (path, pattern) => `${path}: String should match pattern '${pattern}'` },
  max_length: { message: (path, max) => `${path}: String should have at most ${max} characters` },
  min_items: {
    message: (path, min, size) => `${path}: List should have at least ${min} item after validation, not ${size}`,
  },
  max_items: {
    message: (path, max, size) => `${path}: List should have at most ${max} items after validation, not ${size}`,
  },
  max_properties: {
    message: (path, max, size) => `${path}: Dictionary should have at most ${max} items after validation, not ${size}`,
  },
  min: { message: (path, min) => `${path}: Input should be greater than or equal to ${min}` },
  max: { message: (path, max) => `${path}: Input should be less than or equal to ${max}` },
};

const limits: readonly FieldLimit[] = [
  required(
    "max_tokens_required",
    reference,
    "max_tokens",
    { body: { model: "claude-opus-4-5", messages: [question] } },
    { body: base },
  ),
  required("model_required", reference, "model", { body: { max_tokens: 4096, messages: [question] } }, { body: base }),
  required(
    "messages_required",
    reference,
    "messages",
    { body: { model: "claude-opus-4-5", max_tokens: 4096 } },
    { body: base },
  ),
  required(
    "tool_use_id_required",
    reference,
    "messages[].content[type=tool_result].tool_use_id",
    conversation([[call], [result, { type: "tool_result", content: "Sunny." }]]),
    conversation([[call], [result]]),
  ),
  {
    name: "thinking_budget_minimum",
    source: "https://github.com/themaximalist/llm.js/issues/30",
    path: "thinking.budget_tokens",
    constraint: { type: "min", min: 1024 },
    refused: body({ thinking: { type: "enabled", budget_tokens: 1023 } }),
    accepted: body({ thinking: { type: "enabled", budget_tokens: 1024 } }),
  },
  {
    name: "compaction_trigger_minimum",
    source: "https://platform.claude.com/docs/en/build-with-claude/compaction-threshold",
    path: "context_management.edits[type=compact_20260112].trigger.value",
    constraint: { type: "min", min: 50_000 },
    refused: compactionAt(49_999),
    accepted: compactionAt(50_000),
  },
];

/** Rows for tools of the caller, which have no `type` or the type `custom`. */
const toolLimits: readonly FieldLimit[] = [
  {
    name: "tool_name_pattern",
    source: "https://github.com/home-assistant/core/issues/147760",
    path: "tools[].name",
    constraint: { type: "pattern", pattern: "^[a-zA-Z0-9_-]{1,128}$" },
    refused: toolNamed("caldav.list"),
    accepted: toolNamed("n".repeat(128)),
  },
  required(
    "tool_schema_required",
    reference,
    "tools[].input_schema",
    body({ tools: [{ name: "weather" }] }),
    body({ tools: [weather] }),
  ),
  required(
    "tool_schema_type_required",
    reference,
    "tools[].input_schema.type",
    body({ tools: [{ name: "weather", input_schema: { properties: {} } }] }),
    body({ tools: [{ name: "weather", input_schema: { type: "object" } }] }),
  ),
];

/** Fields that the API knows only with a beta header. */
const betaFields: readonly {
  readonly field: string;
  readonly beta: string;
  readonly source: string;
  readonly value: Json;
}[] = [
  {
    field: "mcp_servers",
    beta: "mcp-client-2025-11-20",
    source: "https://platform.claude.com/docs/en/agents-and-tools/mcp-connector",
    value: [{ type: "url", url: "https://example.com/mcp", name: "example" }],
  },
  {
    field: "context_management",
    beta: "context-management-2025-06-27",
    source: "https://github.com/anthropics/claude-code/issues/14135",
    value: { edits: [{ type: "clear_tool_uses_20250919" }] },
  },
];

const betaRules: readonly ProviderRule[] = betaFields.map(({ field, beta, source, value }) => ({
  name: `beta_of_${field}`,
  source,
  find: ({ body, headers = {} }) => {
    // Every date of a beta counts. Compaction has a beta of its own.
    const families = [beta.replace(/-\d{4}-\d\d-\d\d$/, ""), ...(field === "context_management" ? ["compact-"] : [])];
    const isOn = families.some((family) => (headers["anthropic-beta"] ?? "").includes(family));
    return findingUnless((body[field] ?? null) === null || isOn, field, `${field}: Extra inputs are not permitted`);
  },
  refused: body({ [field]: value }),
  accepted: { ...body({ [field]: value }), headers: { "anthropic-beta": beta } },
}));

/** A turn: consecutive messages of one role, which the API combines. `index` is the number of its last message. */
type Turn = { readonly role: string; readonly index: number; readonly blocks: readonly JsonObject[] };

function turnsOf(body: JsonObject): readonly Turn[] {
  const turns: Turn[] = [];
  for (const [index, message] of objectsOf(body["messages"]).entries()) {
    const role = textOrEmpty(message["role"]);
    const { content } = message;
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : objectsOf(content);
    const last = turns.at(-1);
    if (last !== undefined && last.role === role)
      turns.splice(-1, 1, { role, index, blocks: [...last.blocks, ...blocks] });
    else turns.push({ role, index, blocks });
  }
  return turns;
}

function idsOf(turn: Turn | undefined, type: string, key: string): readonly string[] {
  return (turn?.blocks ?? []).flatMap((block) => (block["type"] === type ? [textOrEmpty(block[key])] : []));
}

/** Every block of content with its path, `messages.1.content.0`. */
function blocksOf(
  body: JsonObject,
): readonly { readonly path: string; readonly block: JsonObject; readonly role: string }[] {
  return objectsOf(body["messages"]).flatMap((message, index) =>
    objectsOf(message["content"]).map((block, at) => ({
      path: `messages.${index}.content.${at}`,
      block,
      role: textOrEmpty(message["role"]),
    })),
  );
}

const isEnabled = (body: JsonObject) => objectOf(body["thinking"])?.["type"] === "enabled";
const isThought = (block: JsonObject | undefined) =>
  block?.["type"] === "thinking" || block?.["type"] === "redacted_thinking";

const histories: readonly ProviderRule[] = [
  {
    name: "messages_empty",
    source: reference,
    find: ({ body }) =>
      findingIf(
        Array.isArray(body["messages"]) && listOf(body["messages"]).length === 0,
        "messages",
        "messages: at least one message is required",
      ),
    refused: body({ messages: [] }),
    accepted: body({ messages: [question] }),
  },
  {
    name: "empty_text",
    source: "https://github.com/anthropics/claude-code/issues/59812",
    find: ({ body }) =>
      findingIf(
        blocksOf(body).some(({ block }) => block["type"] === "text" && block["text"] === ""),
        "messages",
        "messages: text content blocks must be non-empty",
      ),
    refused: body({ messages: [{ role: "user", content: [{ type: "text", text: "" }] }] }),
    accepted: body({ messages: [{ role: "user", content: [{ type: "text", text: "Hi." }] }] }),
  },
  {
    name: "empty_message",
    source: "https://github.com/glowingjade/obsidian-smart-composer/pull/156",
    find: ({ body }) => {
      const messages = objectsOf(body["messages"]);
      return messages.flatMap((message, index): readonly Finding[] => {
        const isFinalReply = index === messages.length - 1 && message["role"] === "assistant";
        const isEmpty =
          message["content"] === "" || (Array.isArray(message["content"]) && listOf(message["content"]).length === 0);
        return findingIf(
          isEmpty && !isFinalReply,
          `messages.${index}`,
          `messages.${index}: all messages must have non-empty content except for the optional final assistant message`,
        );
      });
    },
    refused: body({ messages: [question, { role: "assistant", content: "" }, question] }),
    accepted: body({ messages: [question, { role: "assistant", content: "" }] }),
  },
  {
    name: "call_without_result",
    source: "https://github.com/anthropics/claude-code/issues/5989",
    find: ({ body }) => {
      const turns = turnsOf(body);
      return turns.flatMap((turn, at): readonly Finding[] => {
        const results = idsOf(turns[at + 1], "tool_result", "tool_use_id");
        const missing = idsOf(turn, "tool_use", "id").filter((id) => !results.includes(id));
        const path = `messages.${turn.index}`;
        return findingIf(
          missing.length > 0,
          path,
          `${path}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${missing.join(", ")}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
        );
      });
    },
    refused: conversation([[call], [{ type: "text", text: "Go on." }]]),
    accepted: conversation([[call], [result]]),
  },
  {
    name: "result_without_call",
    source: "https://github.com/router-for-me/CLIProxyAPI/issues/497",
    find: ({ body }) => {
      const turns = turnsOf(body);
      return turns.flatMap((turn, at): readonly Finding[] => {
        const calls = idsOf(turns[at - 1], "tool_use", "id");
        return turn.blocks.flatMap((block, index): readonly Finding[] => {
          const id = textOrEmpty(block["tool_use_id"]);
          const path = `messages.${turn.index}.content.${index}`;
          return findingIf(
            block["type"] === "tool_result" && id !== "" && !calls.includes(id),
            path,
            `${path}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
          );
        });
      });
    },
    refused: body({ messages: [{ role: "user", content: [result] }] }),
    accepted: conversation([[call], [result]]),
  },
  {
    name: "server_result_without_call",
    source: "https://github.com/anthropics/claude-code/issues/64383",
    find: ({ body }) => {
      const blocks = blocksOf(body);
      return blocks.flatMap(({ path, block }, index): readonly Finding[] => {
        const type = textOrEmpty(block["type"]);
        if (!type.endsWith("_tool_result") || type === "mcp_tool_result") return [];
        const isCalled = blocks
          .slice(0, index)
          .some((before) => before.block["type"] === "server_tool_use" && before.block["id"] === block["tool_use_id"]);
        return findingUnless(
          isCalled,
          path,
          `${path}: unexpected \`tool_use_id\` found in \`${type}\` blocks: ${textOrEmpty(block["tool_use_id"])}. Each \`${type}\` block must have a corresponding \`server_tool_use\` block before it.`,
        );
      });
    },
    refused: conversation([
      [{ type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] }],
      [{ type: "text", text: "Go on." }],
    ]),
    accepted: conversation([
      [
        { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} },
        { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] },
      ],
      [{ type: "text", text: "Go on." }],
    ]),
  },
  {
    name: "container_required",
    source: "https://github.com/anthropics/anthropic-sdk-typescript/issues/1114",
    find: ({ body }) => {
      const last = turnsOf(body).findLast(({ role }) => role === "assistant");
      const isPending = (last?.blocks ?? []).some(
        (block) =>
          block["type"] === "tool_use" && textOrEmpty(objectOf(block["caller"])?.["type"]).startsWith("code_execution"),
      );
      return findingIf(
        isPending && (body["container"] ?? null) === null,
        "container",
        "container_id is required when there are pending tool uses generated by code execution with tools.",
      );
    },
    refused: conversation([
      [{ ...call, caller: { type: "code_execution_20250825", tool_id: "srvtoolu_1" } }],
      [result],
    ]),
    accepted: conversation(
      [[{ ...call, caller: { type: "code_execution_20250825", tool_id: "srvtoolu_1" } }], [result]],
      {
        container: "container_1",
      },
    ),
  },
  {
    name: "thinking_first",
    source: "https://github.com/deepset-ai/haystack-core-integrations/issues/2146",
    find: ({ body }) => {
      if (!isEnabled(body)) return [];
      const turns = turnsOf(body);
      // The reply that is being continued: the first of the last replies that are only separated by results of tools.
      let at = turns.length;
      while (idsOf(turns[at - 1], "tool_result", "tool_use_id").length > 0 && turns[at - 2]?.role === "assistant")
        at -= 2;
      const reply = turns[at];
      const first = reply?.blocks[0];
      const path = `messages.${reply?.index}.content.0.type`;
      return findingUnless(
        reply?.role !== "assistant" || at === turns.length || isThought(first),
        path,
        `${path}: Expected \`thinking\` or \`redacted_thinking\`, but found \`${textOrEmpty(first?.["type"])}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block (preceeding the lastmost set of \`tool_use\` and \`tool_result\` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable \`thinking\`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking`,
      );
    },
    refused: conversation([[call], [result]], { thinking: enabled }),
    accepted: conversation([[thought, call], [result]], { thinking: enabled }),
  },
  {
    name: "thinking_last",
    source: "https://github.com/tailcallhq/forgecode/issues/2107",
    find: ({ body }) =>
      turnsOf(body).flatMap((turn): readonly Finding[] =>
        findingIf(
          turn.role === "assistant" && isThought(turn.blocks.at(-1)),
          `messages.${turn.index}`,
          `messages.${turn.index}: The final block in an assistant message cannot be \`thinking\`.`,
        ),
      ),
    refused: conversation([[thought], [{ type: "text", text: "Go on." }]], { thinking: enabled }),
    accepted: conversation([[thought, { type: "text", text: "Hello." }], [{ type: "text", text: "Go on." }]], {
      thinking: enabled,
    }),
  },
  {
    name: "thinking_signature_required",
    source: "https://github.com/justlovemaki/AIClient2API/issues/437",
    find: ({ body }) =>
      blocksOf(body).flatMap(({ path, block }) =>
        findingIf(
          block["type"] === "thinking" && block["signature"] === undefined,
          path,
          `${path}.thinking.signature: Field required`,
        ),
      ),
    refused: conversation([[{ type: "thinking", thinking: "Hm." }, call], [result]]),
    accepted: conversation([[thought, call], [result]]),
  },
  {
    name: "thinking_signature",
    source: "https://github.com/kaitranntt/ccs/issues/415",
    find: ({ body }) =>
      blocksOf(body).flatMap(({ path, block }) =>
        findingIf(
          block["type"] === "thinking" && block["signature"] === "",
          path,
          `${path}: Invalid \`signature\` in \`thinking\` block`,
        ),
      ),
    refused: conversation([[{ ...thought, signature: "" }, call], [result]]),
    accepted: conversation([[thought, call], [result]]),
  },
  {
    name: "thinking_budget_below_max_tokens",
    source: "https://github.com/themaximalist/llm.js/issues/30",
    find: ({ body, headers = {} }) => {
      const budget = objectOf(body["thinking"])?.["budget_tokens"];
      const max = body["max_tokens"];
      // With interleaved thinking the budget spans several blocks of thinking and may be higher.
      if ((headers["anthropic-beta"] ?? "").includes("interleaved-thinking")) return [];
      return findingIf(
        isEnabled(body) && typeof budget === "number" && typeof max === "number" && budget >= max,
        "max_tokens",
        "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size",
      );
    },
    refused: body({ max_tokens: 2048, thinking: { type: "enabled", budget_tokens: 2048 } }),
    accepted: body({ max_tokens: 2049, thinking: { type: "enabled", budget_tokens: 2048 } }),
  },
  {
    name: "thinking_temperature",
    source: "https://github.com/MartialBE/one-hub/issues/529",
    find: ({ body }) =>
      findingIf(
        isEnabled(body) && typeof body["temperature"] === "number" && body["temperature"] !== 1,
        "temperature",
        "`temperature` may only be set to 1 when thinking is enabled. Please consult our documentation at https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking#important-considerations-when-using-extended-thinking",
      ),
    refused: body({ thinking: enabled, temperature: 0.9 }),
    accepted: body({ thinking: enabled, temperature: 1 }),
  },
  {
    name: "thinking_forced_tool",
    source: "https://github.com/mastra-ai/mastra/issues/7507",
    find: ({ body }) => {
      const choice = objectOf(body["tool_choice"])?.["type"];
      return findingIf(
        isEnabled(body) && (choice === "any" || choice === "tool"),
        "tool_choice",
        "Thinking may not be enabled when tool_choice forces tool use.",
      );
    },
    refused: body({ thinking: enabled, tools: [weather], tool_choice: { type: "any" } }),
    accepted: body({ thinking: enabled, tools: [weather], tool_choice: { type: "auto" } }),
  },
  {
    name: "cache_breakpoints",
    source: "https://github.com/tghamm/Anthropic.SDK/issues/50",
    find: ({ body }) => {
      const count = breakpointsIn(body);
      return findingIf(
        count > 4,
        "cache_control",
        `A maximum of 4 blocks with cache_control may be provided. Found ${count}.`,
      );
    },
    refused: body({ messages: [{ role: "user", content: cachedBlocks(5) }] }),
    accepted: body({ messages: [{ role: "user", content: cachedBlocks(4) }] }),
  },
  {
    name: "tool_names_unique",
    source: "https://github.com/eclipse-theia/theia/issues/16122",
    find: ({ body }) => {
      const names = objectsOf(body["tools"]).map(({ name }) => textOrEmpty(name));
      return findingIf(
        names.some((name, index) => name !== "" && names.indexOf(name) !== index),
        "tools",
        "tools: Tool names must be unique.",
      );
    },
    refused: body({ tools: [weather, weather] }),
    accepted: body({ tools: [weather, { ...weather, name: "time" }] }),
  },
  {
    name: "tool_schema_union",
    source: "https://github.com/anthropics/claude-code/issues/5973",
    find: ({ body }) =>
      customTools(body).flatMap(({ path, tool }) => {
        const schema = objectOf(tool["input_schema"]);
        return findingIf(
          ["oneOf", "allOf", "anyOf"].some((keyword) => schema?.[keyword] !== undefined),
          `${path}.input_schema`,
          `${path}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level`,
        );
      }),
    refused: body({ tools: [{ name: "weather", input_schema: { type: "object", anyOf: [{ required: ["city"] }] } }] }),
    accepted: body({
      tools: [
        { name: "weather", input_schema: { type: "object", properties: { city: { anyOf: [{ type: "string" }] } } } },
      ],
    }),
  },
];

function cachedBlocks(count: number): readonly JsonObject[] {
  return Array.from({ length: count }, () => ({ type: "text", text: "Hi.", cache_control: { type: "ephemeral" } }));
}

/** The number of objects with `cache_control` in system, tools and messages. */
function breakpointsIn(body: JsonObject): number {
  const count = (value: Json | undefined): number => {
    if (Array.isArray(value)) return listOf(value).reduce<number>((sum, item) => sum + count(item), 0);
    const object = objectOf(value);
    if (object === null) return 0;
    const own = objectOf(object["cache_control"]) === null ? 0 : 1;
    return own + count(object["content"]);
  };
  return count(body["system"]) + count(body["tools"]) + count(body["messages"]);
}

function customTools(body: JsonObject): readonly { readonly path: string; readonly tool: JsonObject }[] {
  return valuesAt(body, "tools[]").flatMap(({ path, value }) => {
    const tool = objectOf(value);
    const isCustom =
      tool !== null && (tool["type"] === undefined || tool["type"] === null || tool["type"] === "custom");
    return isCustom ? [{ path: dotted(path), tool }] : [];
  });
}

// Schemas

type SchemaRow = {
  readonly name: string;
  readonly source: string;
  /** The message about a subschema; `null` if it is accepted. */
  readonly complaint: (schema: JsonObject) => string | null;
  readonly refused: JsonObject;
  readonly accepted: JsonObject;
};

/** Keywords that structured output and strict tools refuse, by the type of the schema, with an example of a value. */
const refusedKeywords: readonly {
  readonly type: "integer" | "number" | "string" | "array";
  readonly keyword: string;
  readonly source: string;
  readonly value: Json;
}[] = [
  { type: "integer", keyword: "minimum", source: "https://github.com/agentjido/req_llm/issues/302", value: 1 },
  { type: "integer", keyword: "maximum", source: structuredOutputs, value: 9 },
  { type: "integer", keyword: "exclusiveMinimum", source: structuredOutputs, value: 0 },
  { type: "integer", keyword: "exclusiveMaximum", source: structuredOutputs, value: 9 },
  { type: "integer", keyword: "multipleOf", source: structuredOutputs, value: 2 },
  { type: "number", keyword: "minimum", source: structuredOutputs, value: 1 },
  { type: "number", keyword: "maximum", source: structuredOutputs, value: 9 },
  { type: "number", keyword: "exclusiveMinimum", source: structuredOutputs, value: 0 },
  { type: "number", keyword: "exclusiveMaximum", source: structuredOutputs, value: 9 },
  { type: "number", keyword: "multipleOf", source: structuredOutputs, value: 2 },
  { type: "string", keyword: "minLength", source: structuredOutputs, value: 1 },
  { type: "string", keyword: "maxLength", source: structuredOutputs, value: 9 },
  { type: "array", keyword: "maxItems", source: "https://github.com/agentjido/req_llm/pull/707", value: 9 },
];

function closed(properties: { readonly [name: string]: JsonObject }): JsonObject {
  return { type: "object", properties, required: Object.keys(properties), additionalProperties: false };
}

const schemaRows: readonly SchemaRow[] = [
  {
    name: "schema_closed_objects",
    source: "https://github.com/veryfront/veryfront-code/issues/3918",
    complaint: (schema) =>
      hasType(schema, "object") && schema["additionalProperties"] !== false
        ? "For 'object' type, 'additionalProperties' must be explicitly set to false"
        : null,
    refused: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    accepted: closed({ city: { type: "string" } }),
  },
  {
    name: "schema_without_oneOf",
    source: "https://github.com/vercel/ai/issues/12876",
    complaint: (schema) => (schema["oneOf"] === undefined ? null : "Schema type 'oneOf' is not supported"),
    refused: closed({ value: { oneOf: [{ type: "string" }, { type: "boolean" }] } }),
    accepted: closed({ value: { anyOf: [{ type: "string" }, { type: "boolean" }] } }),
  },
  {
    name: "schema_min_items",
    source: "https://github.com/ghostlobster/memorize-everything/issues/93",
    complaint: (schema) => {
      const { minItems } = schema;
      return hasType(schema, "array") && typeof minItems === "number" && minItems > 1
        ? "For 'array' type, 'minItems' values other than 0 or 1 are not supported"
        : null;
    },
    refused: closed({ list: { type: "array", items: { type: "string" }, minItems: 2 } }),
    accepted: closed({ list: { type: "array", items: { type: "string" }, minItems: 1 } }),
  },
  ...refusedKeywords.map(({ type, keyword, source, value }): SchemaRow => ({
    name: `schema_${type}_without_${keyword}`,
    source,
    complaint: (schema) =>
      hasType(schema, type) && schema[keyword] !== undefined
        ? `For '${type}' type, property '${keyword}' is not supported`
        : null,
    refused: closed({ value: { type, ...(type === "array" ? { items: { type: "string" } } : {}), [keyword]: value } }),
    // A field of that name is no keyword.
    accepted: closed({ [keyword]: { type, ...(type === "array" ? { items: { type: "string" } } : {}) } }),
  })),
];

const schemaRules: readonly ProviderRule[] = schemaRows.map(({ name, source, complaint, refused, accepted }) => ({
  name,
  source,
  find: ({ body }) =>
    schemasIn(body).flatMap(({ path, schema }) =>
      subschemasOf(schema).flatMap((each): readonly Finding[] => {
        const message = complaint(each.schema);
        return findingUnless(message === null, path, `${path}: ${message}`);
      }),
    ),
  refused: body({ output_config: { format: { type: "json_schema", schema: refused } } }),
  accepted: body({ output_config: { format: { type: "json_schema", schema: accepted } } }),
}));

/** The schemas that the API compiles: of the output and of strict tools. */
function schemasIn(body: JsonObject): readonly { readonly path: string; readonly schema: JsonObject }[] {
  const outputs = ["output_config.format.schema", "output_format.schema"].flatMap((path) => valuesAt(body, path));
  const tools = customTools(body).flatMap(({ path, tool }) =>
    tool["strict"] === true ? [{ path, value: tool["input_schema"] }] : [],
  );
  return [...outputs, ...tools].flatMap(({ path, value }) => {
    const schema = objectOf(value);
    return schema === null ? [] : [{ path, schema }];
  });
}

/** A rule about the fields of tools, for tools of the caller only. */
function customOnly(rule: ProviderRule): ProviderRule {
  return {
    ...rule,
    find: (request) => {
      const custom = customTools(request.body).map(({ path }) => `${path}.`);
      return rule.find(request).filter(({ path }) => custom.some((prefix) => path.startsWith(prefix)));
    },
  };
}

/** The rules of the Anthropic Messages API. */
export const anthropicMessagesRules: readonly ProviderRule[] = [
  ...limits.map((row) => limitRule(words, row, dotted)),
  ...toolLimits.map((row) => customOnly(limitRule(words, row, dotted))),
  ...betaRules,
  ...histories,
  ...schemaRules,
];
