// The documented rules of the Gemini API (`generateContent`, `streamGenerateContent`).

import type { JsonObject } from "../../core/model/internal.ts";
import type { Finding, ProviderRequest, ProviderRule } from "./rule.ts";

import { listOf, objectOf, objectsOf, textOrEmpty, valuesAt, findingIf, findingUnless } from "./rule.ts";
import { subschemasOf } from "./schema-walk.ts";

const functions = "https://ai.google.dev/api/caching#FunctionDeclaration";

const question: JsonObject = { role: "user", parts: [{ text: "Hi." }] };
const base: JsonObject = { contents: [question] };
const call: JsonObject = { functionCall: { name: "weather", args: {} }, thoughtSignature: "c2ln" };
const response: JsonObject = { functionResponse: { name: "weather", response: { result: "Sunny." } } };
const declaration: JsonObject = { name: "weather", description: "The weather." };
const address = (model: string) =>
  `https://generativelanguage.googleapis.com/v1beta/models/${model}:streamGenerateContent?alt=sse`;

function body(fields: JsonObject, model = "gemini-3-flash"): ProviderRequest {
  return { body: { ...base, ...fields }, url: address(model) };
}

function conversation(contents: readonly JsonObject[], model?: string): ProviderRequest {
  return body({ contents: [question, ...contents] }, model);
}

function declaring(fields: JsonObject): ProviderRequest {
  return body({ tools: [{ functionDeclarations: [{ ...declaration, ...fields }] }] });
}

const model = (...parts: readonly JsonObject[]): JsonObject => ({ role: "model", parts });
const user = (...parts: readonly JsonObject[]): JsonObject => ({ role: "user", parts });

/** The types of media that `functionResponse.parts` may hold. */
const mediaInResponses: ReadonlySet<string> = new Set([
  "image/png",
  "image/jpeg",
  "image/webp",
  "application/pdf",
  "text/plain",
]);

function responseWith(mimeType: string): JsonObject {
  const parts = [{ inlineData: { mimeType, data: "AAAA" } }];
  return { functionResponse: { name: "weather", response: { result: "Attached." }, parts } };
}

/** Does the address name a model before Gemini 3? Unknown names count as newer. */
function isBeforeGemini3({ url = "" }: ProviderRequest): boolean {
  return /gemini-[12](?!\d)/.test(url);
}

function isGemini3({ url = "" }: ProviderRequest): boolean {
  return /gemini-3(?!\d)/.test(url);
}

/** The parts of a turn with a field. */
function contentParts(content: JsonObject | undefined, field: string): readonly JsonObject[] {
  return objectsOf(content?.["parts"]).filter((part) => objectOf(part[field]) !== null);
}

/**
 * The turns: consecutive contents of one role, which the API combines. Parts that are results of functions are never
 * from the model.
 */
function turnsOf(body: JsonObject): readonly JsonObject[] {
  const turns: JsonObject[] = [];
  for (const content of objectsOf(body["contents"])) {
    const last = turns.at(-1);
    if (last === undefined || (last["role"] === "model") !== (content["role"] === "model")) turns.push(content);
    else turns.splice(-1, 1, { ...last, parts: [...listOf(last["parts"]), ...listOf(content["parts"])] });
  }
  return turns;
}

/** The fields of a part that hold its data. */
const dataFields = [
  "text",
  "inlineData",
  "fileData",
  "functionCall",
  "functionResponse",
  "executableCode",
  "codeExecutionResult",
  "toolCall",
  "toolResponse",
  "videoMetadata",
];

/** The fields of `Schema`, the subset of OpenAPI 3.0 of `parameters` and `responseSchema`. */
const schemaFields: ReadonlySet<string> = new Set([
  "anyOf",
  "default",
  "description",
  "enum",
  "example",
  "format",
  "items",
  "maxItems",
  "maxLength",
  "maxProperties",
  "maximum",
  "minItems",
  "minLength",
  "minProperties",
  "minimum",
  "nullable",
  "pattern",
  "properties",
  "propertyOrdering",
  "required",
  "title",
  "type",
]);

/** The API accepts the names of fields in both notations, `inlineData` and `inline_data`. */
function camelCase(field: string): string {
  return field.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** The schemas in the format of `Schema`, with their paths in the notation of the API. */
function openApiSchemas(body: JsonObject): readonly { readonly path: string; readonly schema: JsonObject }[] {
  const config = objectOf(body["generationConfig"]);
  const output = objectOf(config?.["responseSchema"]);
  const parameters = declarationsOf(body).flatMap(({ path, declared }) => {
    const schema = objectOf(declared["parameters"]);
    return schema === null ? [] : [{ path: `${path}.parameters`, schema }];
  });
  return [...(output === null ? [] : [{ path: "generation_config.response_schema", schema: output }]), ...parameters];
}

/** The declarations of functions, with their paths in the notation of the API. */
function declarationsOf(body: JsonObject): readonly { readonly path: string; readonly declared: JsonObject }[] {
  return valuesAt(body, "tools[].functionDeclarations[]").flatMap(({ path, value }) => {
    const declared = objectOf(value);
    return declared === null ? [] : [{ path: path.replace("functionDeclarations", "function_declarations"), declared }];
  });
}

/** `properties[0].value.items`: how the API names a place in a schema. */
function schemaPlace(path: string, schema: JsonObject, context: readonly string[]): string {
  let at = path;
  let current: JsonObject | null = schema;
  for (let index = 0; index < context.length; index += 1) {
    const key: string = context[index] ?? "";
    const next: string = context[index + 1] ?? "";
    const child: JsonObject | null = objectOf(current?.[key]);
    if (key === "properties" && child !== null) {
      at += `.properties[${Object.keys(child).indexOf(next)}].value`;
      current = objectOf(child[next]);
      index += 1;
    } else if (Array.isArray(current?.[key])) {
      at += `.${key}[${next}]`;
      current = objectOf(listOf(current[key])[Number(next)]);
      index += 1;
    } else {
      at += `.${key}`;
      current = child;
    }
  }
  return at;
}

/** The rules of the Gemini API. */
export const geminiRules: readonly ProviderRule[] = [
  {
    name: "contents_required",
    source: "https://ai.google.dev/api/generate-content",
    find: ({ body }) =>
      findingIf(
        listOf(body["contents"]).length === 0,
        "contents",
        "* GenerateContentRequest.contents: contents is not specified\n",
      ),
    refused: body({ contents: [] }),
    accepted: body({}),
  },
  {
    name: "parts_required",
    source: "https://github.com/vercel/ai/issues/3775",
    find: ({ body }) =>
      objectsOf(body["contents"]).flatMap((content, index) =>
        findingIf(
          listOf(content["parts"]).length === 0,
          `contents[${index}].parts`,
          `* GenerateContentRequest.contents[${index}].parts: contents.parts must not be empty.\n`,
        ),
      ),
    refused: conversation([model(), question]),
    accepted: conversation([model({ text: "Hello." }), question]),
  },
  {
    name: "part_data_required",
    source: "https://github.com/54xzh/FLIT/issues/69",
    find: ({ body }) =>
      valuesAt(body, "contents[].parts[]").flatMap(({ path, value }) => {
        const part = objectOf(value) ?? {};
        return findingUnless(
          Object.keys(part).some((field) => dataFields.includes(camelCase(field))),
          path,
          `* GenerateContentRequest.${path}.data: required oneof field 'data' must have one initialized field\n`,
        );
      }),
    refused: conversation([model({ thought: true }), question]),
    accepted: conversation([model({ text: "Hm.", thought: true }), question]),
  },
  {
    name: "role",
    source: "https://github.com/the-open-agent/openagent/issues/1666",
    find: ({ body }) =>
      objectsOf(body["contents"]).flatMap(({ role }, index) =>
        findingUnless(
          role === undefined || role === "user" || role === "model" || role === "function",
          `contents[${index}].role`,
          "Please use a valid role: user, model.",
        ),
      ),
    refused: conversation([{ role: "assistant", parts: [{ text: "Hello." }] }, question]),
    accepted: conversation([model({ text: "Hello." }), question]),
  },
  {
    name: "part_id",
    source: "https://github.com/Chevey339/kelivo/issues/543",
    find: ({ body }) =>
      valuesAt(body, "contents[].parts[]").flatMap(({ path, value }) =>
        findingUnless(
          objectOf(value)?.["id"] === undefined,
          path,
          `Invalid JSON payload received. Unknown name "id" at '${path}': Cannot find field.`,
        ),
      ),
    refused: conversation([model({ ...call, id: "call_1" }), user(response)]),
    accepted: conversation([
      model({ ...call, functionCall: { name: "weather", args: {}, id: "call_1" } }),
      user({ functionResponse: { name: "weather", id: "call_1", response: {} } }),
    ]),
  },
  {
    name: "response_count",
    source: "https://github.com/google-gemini/gemini-cli/issues/5443",
    find: ({ body }) => {
      const contents = turnsOf(body);
      return contents.flatMap((content, index): readonly Finding[] => {
        const next = contents[index + 1];
        const calls = contentParts(content, "functionCall").length;
        return findingUnless(
          calls === 0 || next === undefined || contentParts(next, "functionResponse").length === calls,
          `contents[${index + 1}]`,
          "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
        );
      });
    },
    refused: conversation([model(call, { functionCall: { name: "time", args: {} } }), user(response)]),
    accepted: conversation([model(call), user(response)]),
  },
  {
    name: "response_after_call",
    source: "https://github.com/GoogleCloudPlatform/generative-ai/pull/368",
    find: ({ body }) => {
      const contents = turnsOf(body);
      return contents.flatMap((content, index): readonly Finding[] =>
        findingUnless(
          contentParts(content, "functionResponse").length === 0 ||
            contentParts(contents[index - 1], "functionCall").length > 0,
          `contents[${index}]`,
          "Please ensure that function response turn comes immediately after a function call turn.",
        ),
      );
    },
    refused: conversation([user(response)]),
    accepted: conversation([model(call), user(response)]),
  },
  {
    name: "call_after_user",
    source: "https://github.com/google-gemini/gemini-cli/issues/11814",
    find: ({ body }) => {
      const contents = turnsOf(body);
      return contents.flatMap((content, index): readonly Finding[] =>
        findingUnless(
          contentParts(content, "functionCall").length === 0 ||
            (index > 0 && contents[index - 1]?.["role"] !== "model"),
          `contents[${index}]`,
          "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
        ),
      );
    },
    refused: body({ contents: [model(call), user(response)] }),
    accepted: conversation([model(call), user(response)]),
  },
  {
    name: "thought_signature",
    source: "https://ai.google.dev/gemini-api/docs/thought-signatures",
    find: (request) => {
      if (!isGemini3(request)) return [];
      const contents = objectsOf(request.body["contents"]);
      // The current turn begins after the last message of the user that is more than results of functions.
      const start = contents.findLastIndex(
        (content) => content["role"] !== "model" && contentParts(content, "functionResponse").length === 0,
      );
      return contents.flatMap((content, index): readonly Finding[] => {
        const first = index > start ? contentParts(content, "functionCall")[0] : undefined;
        const name = textOrEmpty(objectOf(first?.["functionCall"])?.["name"]);
        return findingIf(
          first !== undefined && textOrEmpty(first["thoughtSignature"]) === "",
          `contents[${index}]`,
          `Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call \`default_api:${name}\` , position ${index + 1}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.`,
        );
      });
    },
    refused: conversation([model({ functionCall: { name: "weather", args: {} } }), user(response)]),
    accepted: conversation(
      [model({ functionCall: { name: "weather", args: {} } }), user(response)],
      "gemini-2.5-flash",
    ),
  },
  {
    name: "function_name",
    source: functions,
    find: ({ body }) =>
      declarationsOf(body).flatMap(({ path, declared }) =>
        findingUnless(
          /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/.test(textOrEmpty(declared["name"])),
          `${path}.name`,
          `* GenerateContentRequest.${path}.name: Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:) or dashes (-), with a maximum length of 128.\n`,
        ),
      ),
    refused: declaring({ name: "n".repeat(129) }),
    accepted: declaring({ name: "n".repeat(128) }),
  },
  {
    name: "function_parameters",
    source: functions,
    find: ({ body }) =>
      declarationsOf(body).flatMap(({ path, declared }) =>
        findingUnless(
          declared["parameters"] === undefined || declared["parametersJsonSchema"] === undefined,
          path,
          "`parameters_json_schema` is mutually exclusive with `parameters`.",
        ),
      ),
    refused: declaring({
      parameters: { type: "OBJECT", properties: { city: { type: "STRING" } } },
      parametersJsonSchema: { type: "object" },
    }),
    accepted: declaring({ parametersJsonSchema: { type: "object" } }),
  },
  {
    name: "function_parameters_object",
    source: "https://github.com/diegosouzapw/OmniRoute/pull/3360",
    find: ({ body }) =>
      declarationsOf(body).flatMap(({ path, declared }) => {
        const schema = objectOf(declared["parametersJsonSchema"]) ?? objectOf(declared["parameters"]);
        const isTyped = schema === null || ["type", "$ref", "anyOf", "oneOf", "allOf"].some((key) => key in schema);
        const isObject = schema === null || /^object$/i.test(textOrEmpty(schema["type"] ?? "object"));
        const name = textOrEmpty(declared["name"]);
        return findingUnless(
          isTyped && isObject,
          path,
          `Unable to submit request because \`${name}\` functionDeclaration \`parameters\` schema should be of type OBJECT.`,
        );
      }),
    refused: declaring({ parametersJsonSchema: { properties: { city: { type: "string" } } } }),
    accepted: declaring({ parametersJsonSchema: { type: "object", properties: { city: { type: "string" } } } }),
  },
  {
    name: "response_schema",
    source: "https://ai.google.dev/api/generate-content#generationconfig",
    find: ({ body }) => {
      const config = objectOf(body["generationConfig"]);
      return findingUnless(
        config?.["responseSchema"] === undefined || config["responseJsonSchema"] === undefined,
        "generation_config.response_json_schema",
        "If `response_json_schema` is set, `response_schema` must be omitted, but `response_mime_type` is required.",
      );
    },
    refused: body({
      generationConfig: {
        responseMimeType: "application/json",
        responseSchema: { type: "STRING" },
        responseJsonSchema: { type: "string" },
      },
    }),
    accepted: body({
      generationConfig: { responseMimeType: "application/json", responseJsonSchema: { type: "string" } },
    }),
  },
  {
    name: "response_mime_type",
    source: "https://ai.google.dev/api/generate-content#generationconfig",
    find: ({ body }) => {
      const config = objectOf(body["generationConfig"]);
      const hasSchema = config?.["responseJsonSchema"] !== undefined || config?.["responseSchema"] !== undefined;
      return findingUnless(
        config === null || !hasSchema || config["responseMimeType"] !== undefined,
        "generation_config.response_mime_type",
        "If a schema is set, a compatible `response_mime_type` must also be set.",
      );
    },
    refused: body({ generationConfig: { responseJsonSchema: { type: "string" } } }),
    accepted: body({
      generationConfig: { responseMimeType: "application/json", responseJsonSchema: { type: "string" } },
    }),
  },
  {
    name: "schema_fields",
    source: "https://github.com/Laisky/one-api/issues/60",
    find: ({ body }) =>
      openApiSchemas(body).flatMap(({ path, schema }) =>
        subschemasOf(schema).flatMap((each) =>
          Object.keys(each.schema)
            .filter((field) => !schemaFields.has(camelCase(field)))
            .map((field) => {
              const place = schemaPlace(path, schema, each.context);
              return {
                path: place,
                message: `Invalid JSON payload received. Unknown name "${field}" at '${place}': Cannot find field.`,
              };
            }),
        ),
      ),
    refused: declaring({
      parameters: { type: "OBJECT", properties: { city: { type: "STRING" } }, additionalProperties: false },
    }),
    accepted: declaring({
      parametersJsonSchema: { type: "object", properties: { city: { type: "string" } }, additionalProperties: false },
    }),
  },
  {
    name: "schema_type_list",
    source: "https://github.com/prism-php/prism/issues/974",
    find: ({ body }) =>
      openApiSchemas(body).flatMap(({ path, schema }) =>
        subschemasOf(schema).flatMap((each) => {
          const place = schemaPlace(path, schema, each.context);
          return findingIf(
            Array.isArray(each.schema["type"]),
            place,
            `Invalid JSON payload received. Unknown name "type" at '${place}': Proto field is not repeating, cannot start list.`,
          );
        }),
      ),
    refused: declaring({ parameters: { type: "OBJECT", properties: { city: { type: ["STRING", "NULL"] } } } }),
    accepted: declaring({ parameters: { type: "OBJECT", properties: { city: { type: "STRING", nullable: true } } } }),
  },
  {
    name: "functions_with_json",
    source: "https://github.com/googleapis/python-genai/issues/867",
    find: (request) => {
      const type = objectOf(request.body["generationConfig"])?.["responseMimeType"];
      return findingIf(
        isBeforeGemini3(request) && type === "application/json" && declarationsOf(request.body).length > 0,
        "generation_config.response_mime_type",
        "Function calling with a response mime type: 'application/json' is unsupported",
      );
    },
    refused: body(
      { tools: [{ functionDeclarations: [declaration] }], generationConfig: { responseMimeType: "application/json" } },
      "gemini-2.5-flash",
    ),
    accepted: body({
      tools: [{ functionDeclarations: [declaration] }],
      generationConfig: { responseMimeType: "application/json" },
    }),
  },
  {
    name: "functions_with_hosted_tools",
    source: "https://github.com/symfony/ai/issues/803",
    find: (request) => {
      const hosted = objectsOf(request.body["tools"]).some((tool) => tool["functionDeclarations"] === undefined);
      return findingIf(
        isBeforeGemini3(request) && hosted && declarationsOf(request.body).length > 0,
        "tools",
        "Tool use with function calling is unsupported",
      );
    },
    refused: body({ tools: [{ functionDeclarations: [declaration] }, { googleSearch: {} }] }, "gemini-2.5-flash"),
    accepted: body({ tools: [{ functionDeclarations: [declaration] }, { googleSearch: {} }] }),
  },
  {
    name: "response_media_type",
    source: "https://ai.google.dev/gemini-api/docs/function-calling#multimodal-function-responses",
    find: ({ body }) =>
      valuesAt(body, "contents[].parts[].functionResponse.parts[].inlineData.mimeType").flatMap(({ path, value }) =>
        findingUnless(mediaInResponses.has(textOrEmpty(value)), path, `Unsupported MIME type: ${textOrEmpty(value)}`),
      ),
    refused: conversation([model(call), user(responseWith("audio/wav"))]),
    accepted: conversation([model(call), user(responseWith("image/webp"))]),
  },
];
