// Which JSON Schemas the APIs accept for structured output and for strict tools: one row of data for each API.
// `schema-adaptation.ts` applies a row to a schema.
//
// Sources
//   OpenAI      developers.openai.com/api/docs/guides/structured-outputs, "Supported schemas": closed objects, every
//               field required (optional fields as a union with `null`), an object at the root that is no `anyOf`,
//               `$defs` and recursive references, the listed formats, bounds of numbers and lists; not supported are
//               `allOf`, `not`, `dependentRequired`, `dependentSchemas`, `if`, `then`, `else`; at most 5,000 fields, 10
//               levels, 1,000 enum values and 120,000 characters of names and values. The API answers 400 to `oneOf`,
//               `default` and other keywords ("'oneOf' is not permitted"), to `$ref` beside other keywords and to
//               lookaround in patterns. `minLength` and `maxLength` are not in the list. `$schema` is accepted:
//               recorded requests of SDKs have it.
//   Anthropic   platform.claude.com/docs/en/build-with-claude/structured-outputs, "JSON Schema limitations", and
//               `transformJSONSchema` of @anthropic-ai/sdk: closed objects; optional fields stay optional; no bounds of
//               numbers and strings ("For 'integer' type, property 'minimum' is not supported"), `minItems` of 0 and 1
//               only, enums of primitive values, local references, no recursive schemas. The SDK moves other keywords
//               into the description.
//   Gemini      ai.google.dev/api/generate-content, `responseJsonSchema` (also in the types of @google/genai): the
//               listed keywords are supported and the others ignored; beside `$ref` only keywords that start with `$`
//               are accepted. `const` is not listed, and `enum` is.

/** The schemas that one API accepts. */
export type SchemaRules = {
  /**
   * `strict`: only schemas within these rules are accepted; one that cannot be written within them is `inexpressible`.
   * `lenient`: the API ignores what it does not know, so constructs that have no other form are sent as they are.
   */
  readonly mode: "strict" | "lenient";
  /**
   * Keywords that are sent unchanged, besides those of the structure: `type`, `properties`, `required`, `items`,
   * `anyOf`, `enum`, `$ref`, `$defs`, `description`, …
   */
  readonly keywords: ReadonlySet<string>;
  /** The accepted values of `format`; `null`: all. */
  readonly formats: ReadonlySet<string> | null;
  /** What a regular expression in `pattern` must not contain. */
  readonly refusedPattern: RegExp | null;
  /** The largest accepted `minItems`. */
  readonly maxMinItems: number;
  /** `nullable`: every field is required, and an optional one may be `null`. */
  readonly optionalFields: "optional" | "nullable";
  /** The API accepts `const`. Otherwise it is sent as `enum` with one value. */
  readonly const: boolean;
  /** The root is an object. */
  readonly objectRoot: boolean;
  /** A definition may contain a reference to itself. */
  readonly recursion: boolean;
  /** `null`: no documented limits. */
  readonly limits: {
    readonly fields: number;
    readonly levels: number;
    readonly enumValues: number;
    readonly characters: number;
  } | null;
};

const commonFormats = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/** Structured output and functions of OpenAI with `strict: true`. */
export const openaiStrict: SchemaRules = {
  mode: "strict",
  keywords: new Set([
    "$schema",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
  ]),
  formats: new Set(commonFormats),
  // Lookaround, backreferences and properties of Unicode.
  refusedPattern: /\(\?(?:=|!|<=|<!)|\\(?:[1-9]|k<|p\{|P\{)/,
  maxMinItems: Number.POSITIVE_INFINITY,
  optionalFields: "nullable",
  const: true,
  objectRoot: true,
  recursion: true,
  limits: { fields: 5000, levels: 10, enumValues: 1000, characters: 120_000 },
};

/** `output_config.format` of Anthropic, and tools with `strict: true`. */
export const anthropicStrict: SchemaRules = {
  mode: "strict",
  keywords: new Set(["format", "minItems"]),
  formats: new Set([...commonFormats, "uri"]),
  refusedPattern: null,
  maxMinItems: 1,
  optionalFields: "optional",
  const: true,
  objectRoot: false,
  recursion: false,
  limits: null,
};

/** `responseJsonSchema` of Gemini. */
export const geminiJson: SchemaRules = {
  mode: "lenient",
  keywords: new Set([
    "$anchor",
    "$id",
    "format",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "prefixItems",
    "propertyOrdering",
  ]),
  formats: null,
  refusedPattern: null,
  maxMinItems: Number.POSITIVE_INFINITY,
  optionalFields: "optional",
  const: false,
  objectRoot: false,
  recursion: true,
  limits: null,
};
