// Mutations of lib/src/core/engine, lib/src/core/adapters, lib/src/core/wire and lib/src/testing: engines, the fake
// model, provider APIs, images, conformance suites.

import type { Mutation } from "../mutation.ts";

import { inFile } from "../mutation.ts";

export const engineMutations: readonly Mutation[] = [
  ...inFile("lib/src/core/engine/engine.ts", [
    {
      rows: ["allm 35"],
      defect: "an unknown field of an engine is accepted",
      from: '  if (unknownField !== undefined) {\n    throw unknownName("an engine has no field"',
      to: '  if (unknownField === "") {\n    throw unknownName("an engine has no field"',
    },
    {
      rows: ["allm 36"],
      defect: "mergeOpts ignores the params of the call",
      from: "\n    params: { ...engine.params, ...",
      to: "\n    params: { ...engine.params, ...null && ",
    },
    {
      rows: ["allm 37"],
      defect: "tools of the call are appended beside those they replace",
      from: "overrides.findLast(({ name }) => name === tool.name) ?? tool",
      to: "tool",
    },
    {
      rows: ["allm 38"],
      defect: "the API key is a param",
      from: ".filter(([name]) => !notParams.has(name))",
      to: '.filter(([name]) => name === "apiKey" || !notParams.has(name))',
    },
  ]),
  ...inFile("lib/src/core/engine/describe.ts", [
    {
      rows: ["allm 90"],
      defect: "a described engine loses its tools",
      from: "    tools: tools.map(({ name }) => name),\n    middleware",
      to: "    tools: [],\n    middleware",
    },
  ]),
  ...inFile("lib/src/core/engine/model-call/retry.ts", [
    {
      rows: ["allm 104"],
      defect: "the delay does not double",
      from: "policy.baseDelayMs * 2 ** (attempt - 1)",
      to: "policy.baseDelayMs",
    },
  ]),
  ...inFile("lib/src/core/engine/model-call/keys.ts", [
    {
      rows: ["allm 103"],
      defect: "the key of the adapter takes precedence over that of the call",
      from: "  if (isKey(call)) return call.trim();\n",
      to: "  if (isKey(call) && source === null) return call.trim();\n",
    },
  ]),
  ...inFile("lib/src/core/engine/model-call/transport.ts", [
    {
      rows: ["allm 105"],
      defect: "the time between chunks is not limited",
      from: "    this.#limit = this.#call.timeouts.betweenChunks;\n",
      to: "    this.#limit = Number.MAX_SAFE_INTEGER;\n",
    },
  ]),
  ...inFile("lib/src/core/engine/model-call/pricing.ts", [
    {
      rows: ["allm 117"],
      defect: "cached tokens have the price of other tokens",
      from: "const reads = price.cacheRead === null ? 0 : (cachedInputTokens ?? 0);",
      to: "const reads = 0 * (cachedInputTokens ?? 0);",
    },
  ]),
  ...inFile("lib/src/core/engine/tool/schema.ts", [
    {
      rows: ["lash 58"],
      defect: "an issue has no path",
      from: 'return { path, code: "invalid_value", message: truncateMiddle(message, longestIssue) };',
      to: 'return { path: [], code: "invalid_value", message: truncateMiddle(message, longestIssue) };',
    },
  ]),
  ...inFile("lib/src/core/engine/telemetry.ts", [
    {
      rows: ["allm 116"],
      defect: "a span has a request id of its own",
      from: "const span: Span = { name, id: lastId, parent: parent?.id ?? null, requestId, metadata };",
      to: "const span: Span = { name, id: lastId, parent: parent?.id ?? null, requestId: `${requestId}-${lastId}`, metadata };",
    },
  ]),
  ...inFile("lib/src/core/adapters/fake.ts", [
    {
      rows: ["allm 20"],
      defect: "a scripted reply does not begin with message_started",
      from: "    yield [started()];\n    for (const step of script) {",
      to: "    for (const step of script) {",
    },
    {
      rows: ["allm 94"],
      defect: "an error of a script does not end the stream",
      from: '          yield [{ type: "error", error: scriptedFailure(this.#provider, step) }];\n          return;',
      to: '          yield [{ type: "error", error: scriptedFailure(this.#provider, step) }];\n          break;',
    },
    {
      rows: ["allm 95"],
      defect: "a script with calls ends with stop",
      from: 'this.#calls.length > 0 ? "tool_calls" : "stop"',
      to: '"stop"',
    },
    {
      rows: ["allm 96"],
      defect: "script and scripts may be set together",
      from: "if (script !== undefined && scripts !== undefined) {",
      to: "if (script === null && scripts === null) {",
    },
    {
      rows: ["allm 97"],
      defect: "a used up fake repeats its last script",
      from: "        const script = scripts[next];\n",
      to: "        const script = scripts[next] ?? scripts.at(-1);\n",
    },
    {
      rows: ["allm 98"],
      defect: "a preflight error is not thrown",
      from: 'if (first?.type === "preflight_error") {',
      to: 'if (first === undefined) {\n      const first = { type: "preflight_error", reason: "unknown" } as const;',
    },
    {
      rows: ["allm 99"],
      defect: "retryUntilCall fails one call too few",
      from: "if (failedCalls < retryUntilCall - 1) {",
      to: "if (failedCalls < retryUntilCall - 2) {",
    },
    {
      rows: ["allm 100"],
      defect: "the usage of a script does not replace the usage of the fake",
      from: "usage({ ...this.#usage, ...step.usage })",
      to: "usage({ ...step.usage, ...this.#usage })",
    },
    {
      rows: ["allm 102"],
      defect: "an adapter throws for an error of the provider",
      from: '          yield [{ type: "error", error: scriptedFailure(this.#provider, step) }];\n          return;',
      to: '          throw new AdapterError("unknown", { provider: this.#provider });',
    },
  ]),
  ...inFile("lib/src/testing/adapter-suite.ts", [
    {
      rows: ["allm 101"],
      defect: "the suite accepts a reply without message_started",
      from: 'written(starts) === "[0]"',
      to: "starts.length <= 1",
    },
  ]),
  ...inFile("lib/src/core/wire/sse.ts", [
    {
      rows: ["allm 106"],
      defect: "a stream without a final blank line loses its last event",
      from: '      parser.feed("\\n\\n");\n',
      to: "",
    },
  ]),
  ...inFile("lib/src/core/wire/classify.ts", [
    {
      rows: ["lash 90"],
      defect: "an exhausted quota is retried",
      from: '...(isQuotaExhausted ? { retryable: false, kind: "quota" as const } : {}),',
      to: "",
    },
  ]),
  ...inFile("lib/src/core/wire/openai-responses/encode.ts", [
    {
      rows: ["allm 107"],
      defect: "requests go to another path",
      from: '    path: "/responses",',
      to: '    path: "/chat/completions",',
    },
    {
      rows: ["allm 108"],
      defect: "the token limit has the name of the other API",
      from: "    max_output_tokens: request.maxTokens,",
      to: "    max_tokens: request.maxTokens,",
    },
  ]),
  ...inFile("lib/src/core/wire/openai-chat/finish-usage-errors.ts", [
    {
      rows: ["allm 109"],
      defect: "filtered output is an error",
      from: '  ["content_filter", "content_filter"],',
      to: '  ["content_filter", "error"],',
    },
  ]),
  ...inFile("lib/src/core/wire/anthropic/codec.ts", [
    {
      rows: ["allm 110"],
      defect: "the default of max_tokens is 1024",
      from: "const defaultMaxTokens = 4096;",
      to: "const defaultMaxTokens = 1024;",
    },
    {
      rows: ["allm 111"],
      defect: "a JSON Schema is not sent as a format",
      from: 'const format = schema === null ? null : { type: "json_schema", schema };',
      to: "const format = schema === undefined ? schema : null;",
    },
  ]),
  ...inFile("lib/src/core/wire/anthropic/decode.ts", [
    {
      rows: ["allm 112"],
      defect: "a refusal is an unknown stop reason",
      from: '    case "refusal":\n      return "content_filter";\n',
      to: "",
    },
  ]),
  ...inFile("lib/src/core/wire/gemini/encode.ts", [
    {
      rows: ["allm 113"],
      defect: "the signature of a call is not returned",
      from: 'textAt(replay, "thoughtSignature") ?? (isFirstCall',
      to: "(isFirstCall",
    },
  ]),
  ...inFile("lib/src/core/wire/gemini/decode.ts", [
    {
      rows: ["allm 114"],
      defect: "a reply that reaches the token limit is complete",
      from: '    case "MAX_TOKENS":\n      return "length";',
      to: '    case "MAX_TOKENS":\n      return "stop";',
    },
  ]),
  ...inFile("lib/src/core/run/images.ts", [
    {
      rows: ["allm 118"],
      defect: "the request is checked before the adapter",
      from: '  if (adapter === null) {\n    throw new EngineError("no_image_adapter"',
      to: '  orThrow(validateImageRequest(request));\n  if (adapter === null) {\n    throw new EngineError("no_image_adapter"',
    },
  ]),
  ...inFile("lib/src/core/adapters/openai-images.ts", [
    {
      rows: ["allm 119"],
      defect: "a size is sent without its height",
      from: "`${size.width}x${size.height}`",
      to: "`${size.width}`",
    },
  ]),
  ...inFile("lib/src/core/adapters/fake-images.ts", [
    {
      rows: ["allm 120"],
      defect: "the fake does not record its calls",
      from: "      calls.push({ request, call });\n",
      to: "",
    },
  ]),
  ...inFile("lib/src/core/run/perform/prepare-tool.ts", [
    {
      rows: ["lash 33"],
      defect: "arguments that are not JSON are replaced by {} (defect G25)",
      from: "    if (args === null) {\n      const raw",
      to: "    if (args === undefined) {\n      const raw",
    },
    {
      rows: ["lash 70"],
      defect: "a call that a hook denies has another code",
      from: 'return answers.failed("denied", hookResult.reason);',
      to: 'return answers.failed("not_found", hookResult.reason);',
    },
    {
      rows: ["lash 74"],
      defect: "beforeTool cannot replace the arguments",
      from: 'hookResult?.type === "replace_arguments" && !onlyDenies ? hookResult.arguments : requested',
      to: "requested",
    },
  ]),
];
