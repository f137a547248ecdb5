// Names of the OpenTelemetry semantic conventions for generative AI, and of everturn's own attributes. This is the only
// file that has them: the conventions are in development and rename attributes between releases. A test compares the
// names with `@opentelemetry/semantic-conventions/incubating`. They are written out here, because that package may
// rename and remove its incubating exports in minor releases.

/** Names of attributes. */
export const attributes = {
  operation: "gen_ai.operation.name",
  provider: "gen_ai.provider.name",
  agent: "gen_ai.agent.name",
  conversation: "gen_ai.conversation.id",
  requestModel: "gen_ai.request.model",
  maxTokens: "gen_ai.request.max_tokens",
  temperature: "gen_ai.request.temperature",
  topP: "gen_ai.request.top_p",
  seed: "gen_ai.request.seed",
  stopSequences: "gen_ai.request.stop_sequences",
  outputType: "gen_ai.output.type",
  dimensions: "gen_ai.embeddings.dimension.count",
  responseId: "gen_ai.response.id",
  responseModel: "gen_ai.response.model",
  finishReasons: "gen_ai.response.finish_reasons",
  timeToFirstChunk: "gen_ai.response.time_to_first_chunk",
  inputTokens: "gen_ai.usage.input_tokens",
  outputTokens: "gen_ai.usage.output_tokens",
  cacheReadTokens: "gen_ai.usage.cache_read.input_tokens",
  cacheWriteTokens: "gen_ai.usage.cache_creation.input_tokens",
  reasoningTokens: "gen_ai.usage.reasoning.output_tokens",
  tokenType: "gen_ai.token.type",
  toolName: "gen_ai.tool.name",
  toolType: "gen_ai.tool.type",
  toolCallId: "gen_ai.tool.call.id",
  toolDescription: "gen_ai.tool.description",
  // Content: set only with `captureContent`.
  systemInstructions: "gen_ai.system_instructions",
  inputMessages: "gen_ai.input.messages",
  outputMessages: "gen_ai.output.messages",
  toolDefinitions: "gen_ai.tool.definitions",
  toolArguments: "gen_ai.tool.call.arguments",
  toolResult: "gen_ai.tool.call.result",
  errorType: "error.type",
} as const;

/** Attributes that the conventions do not have. */
export const ownAttributes = {
  requestId: "everturn.request.id",
  attempt: "everturn.attempt",
  haltedReason: "everturn.halted_reason",
  steps: "everturn.steps",
  cost: "everturn.usage.cost",
  droppedMessages: "everturn.dropped_messages",
} as const;

/** Names of metrics. */
export const metricNames = {
  duration: "gen_ai.client.operation.duration",
  tokens: "gen_ai.client.token.usage",
  timeToFirstChunk: "gen_ai.client.operation.time_to_first_chunk",
} as const;

/** Bucket boundaries that the conventions recommend: seconds, and tokens. */
export const buckets = {
  seconds: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
  tokens: [1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864],
};

/** Values of `gen_ai.operation.name`. */
export const operations = {
  agent: "invoke_agent",
  model: "chat",
  tool: "execute_tool",
  image: "generate_content",
  embeddings: "embeddings",
} as const;

/** Values of `gen_ai.operation.name` that the conventions do not have. They allow others. */
export const ownOperations = { rerank: "rerank" } as const;

/** Providers whose name in the conventions differs from the name of the adapter. */
const providerNames: { readonly [provider: string]: string } = {
  azure: "azure.ai.openai",
  bedrock: "aws.bedrock",
  gemini: "gcp.gemini",
  mistral: "mistral_ai",
  vertex: "gcp.vertex_ai",
  xai: "x_ai",
};

/**
 * Names of models of the AI SDK: a package and one of its APIs, such as `openai.responses`. The conventions name the
 * provider without the API.
 */
const aiSdkNames: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/^(google\.vertex|vertex|googleVertex)(\.|$)/, "gcp.vertex_ai"],
  [/^google\.generative-ai$/, "gcp.gemini"],
  [/^(amazon-bedrock|bedrock)(\.|$)/, "aws.bedrock"],
  [/^(azure|azure-openai)\.(?!ai\.)/, "azure.ai.openai"],
  [/^mistral\./, "mistral_ai"],
  [/^xai\./, "x_ai"],
  [/^openai\./, "openai"],
  [/^anthropic\./, "anthropic"],
  [/^cohere\./, "cohere"],
  [/^deepseek\./, "deepseek"],
  [/^groq\./, "groq"],
  [/^perplexity\./, "perplexity"],
];

/** The name of a provider in the conventions. A provider that they do not list keeps the name of its adapter. */
export function providerName(provider: string): string {
  if (Object.hasOwn(providerNames, provider)) return providerNames[provider] ?? provider;
  return aiSdkNames.find(([pattern]) => pattern.test(provider))?.[1] ?? provider;
}
