// The data of the built-in model catalog, as published by the providers on the date below. `null` means "not verified"
// or "no separate price".
//
// Prices are list prices for short prompts. Surcharges for long prompts are not modelled: OpenAI from GPT-5.4 on above
// 272,000 tokens (not mini and nano), Gemini 3.1 Pro above 200,000, Claude Haiku 5.5 above 100,000. The price of cache
// writes is that of the shortest retention.

/** One model of the catalog. */
export type CatalogEntry = {
  readonly provider: string;
  readonly id: string;
  readonly aliases: readonly string[];
  /** The context window in tokens, input and output together. */
  readonly context: number | null;
  /** The longest reply, in tokens. */
  readonly output: number | null;
  readonly tools: boolean | null;
  readonly json: boolean | null;
  readonly parallel: boolean | null;
  readonly reasoning: boolean | null;
  readonly vision: boolean | null;
  readonly files: boolean | null;
  /** Price of input in US dollars per million tokens, as are the three prices below. */
  readonly input: number | null;
  readonly cached: number | null;
  readonly cacheWrite: number | null;
  readonly outputPrice: number | null;
};

export const catalogDate = "2026-11-15";

/** Where the data comes from. The sources are stored copies of different ages; none was read live on the date above. */
export const catalogSources: readonly string[] = [
  "OpenAI: Models pages (September to October 2026)",
  "Anthropic: Models overview, model pages and Pricing page (September to October 2026)",
  "Google: Gemini API model, deprecations and pricing pages (September to October 2026, in part as transcribed by API Evangelist and APIYI)",
  "LiteLLM: model_prices_and_context_window.json (2026-08-08), release posts for GPT-6, GPT-6.1 and Gemini 3.7 and 3.8",
  "models.dev: provider files (2026-07-02)",
  "Vercel AI Gateway, Bifrost and Oxen: model pages (capabilities of GPT-6 and GPT-6.1)",
  "Token Stats 0.3.2, synaps, agent-telemetry 1.6.6: price tables checked against the providers' pages (September to October 2026)",
];

type Family = Omit<CatalogEntry, "id" | "input" | "cached" | "cacheWrite" | "outputPrice">;

const gpt5: Family = {
  provider: "openai",
  aliases: [],
  context: 1_050_000,
  output: 128_000,
  tools: true,
  json: true,
  parallel: true,
  reasoning: true,
  vision: true,
  files: true,
};

// OpenAI accepts tools for these models only in the Responses API.
const gpt6: Family = { ...gpt5, parallel: null, files: null };

const gpt5Small: Family = { ...gpt5, context: 400_000, files: null };

const claude: Family = {
  provider: "anthropic",
  aliases: [],
  context: 1_000_000,
  output: 128_000,
  tools: true,
  json: true,
  parallel: null,
  reasoning: true,
  vision: true,
  files: true,
};

const claudeNew: Family = { ...claude, json: null, files: null };

const gemini: Family = {
  provider: "gemini",
  aliases: [],
  context: 1_048_576,
  output: 65_536,
  tools: true,
  json: true,
  parallel: true,
  reasoning: true,
  vision: true,
  files: true,
};

export const catalogModels: readonly CatalogEntry[] = [
  { ...gpt6, id: "gpt-6-astra", json: null, input: 10, cached: 1, cacheWrite: 12.5, outputPrice: 50 },
  { ...gpt6, id: "gpt-6.1-sol", input: 2, cached: 0.1, cacheWrite: 2.5, outputPrice: 10 },
  { ...gpt6, id: "gpt-6.1-terra", parallel: true, input: 1, cached: 0.05, cacheWrite: 1.25, outputPrice: 5 },
  { ...gpt6, id: "gpt-6-sol", input: 2, cached: 0.2, cacheWrite: 2.5, outputPrice: 10 },
  { ...gpt6, id: "gpt-6-luna", parallel: true, input: 0.1, cached: 0.01, cacheWrite: 0.125, outputPrice: 0.5 },
  // Promised until 2026-11-21.
  { ...gpt5, id: "gpt-5.6-sol", aliases: ["gpt-5.6"], input: 4, cached: 0.4, cacheWrite: 5, outputPrice: 20 },
  { ...gpt5, id: "gpt-5.6-terra", input: 2, cached: 0.2, cacheWrite: 2.5, outputPrice: 12 },
  { ...gpt5, id: "gpt-5.6-luna", input: 0.2, cached: 0.02, cacheWrite: 0.25, outputPrice: 1.2 },
  { ...gpt5, id: "gpt-5.5", input: 5, cached: 0.5, cacheWrite: null, outputPrice: 30 },
  // Sources disagree on schemas and on cached input.
  { ...gpt5, id: "gpt-5.5-pro", json: null, input: 30, cached: null, cacheWrite: null, outputPrice: 180 },
  { ...gpt5, id: "gpt-5.4", input: 2.5, cached: 0.25, cacheWrite: null, outputPrice: 15 },
  { ...gpt5Small, id: "gpt-5.4-mini", input: 0.75, cached: 0.075, cacheWrite: null, outputPrice: 4.5 },
  { ...gpt5Small, id: "gpt-5.4-nano", input: 0.2, cached: 0.02, cacheWrite: null, outputPrice: 1.25 },
  { ...gpt5Small, id: "gpt-5.2", input: 1.75, cached: 0.175, cacheWrite: null, outputPrice: 14 },
  { ...gpt5Small, id: "gpt-5.1", input: 1.25, cached: 0.125, cacheWrite: null, outputPrice: 10 },

  { ...claudeNew, id: "claude-fable-5-1", input: 10, cached: 0.25, cacheWrite: 12.5, outputPrice: 50 },
  { ...claudeNew, id: "claude-opus-5-5", input: 4, cached: 0.2, cacheWrite: 5, outputPrice: 20 },
  // Cached input was 0.20 when the model came out, and 0.10 by 2026-10-09.
  { ...claudeNew, id: "claude-sonnet-5-5", input: 2, cached: 0.1, cacheWrite: 2.5, outputPrice: 10 },
  { ...claudeNew, id: "claude-haiku-5-5", input: 0.1, cached: 0.01, cacheWrite: 0.125, outputPrice: 0.5 },
  { ...claude, id: "claude-fable-5", json: null, input: 10, cached: 1, cacheWrite: 12.5, outputPrice: 50 },
  { ...claude, id: "claude-opus-5", input: 5, cached: 0.5, cacheWrite: 6.25, outputPrice: 25 },
  { ...claude, id: "claude-opus-4-8", input: 5, cached: 0.5, cacheWrite: 6.25, outputPrice: 25 },
  { ...claude, id: "claude-opus-4-7", input: 5, cached: 0.5, cacheWrite: 6.25, outputPrice: 25 },
  { ...claude, id: "claude-opus-4-6", input: 5, cached: 0.5, cacheWrite: 6.25, outputPrice: 25 },
  { ...claude, id: "claude-sonnet-5", json: null, input: 2, cached: 0.2, cacheWrite: 2.5, outputPrice: 10 },
  { ...claude, id: "claude-sonnet-4-6", input: 3, cached: 0.3, cacheWrite: 3.75, outputPrice: 15 },
  {
    ...claude,
    id: "claude-haiku-4-5",
    aliases: ["claude-haiku-4-5-20251001"],
    context: 200_000,
    output: 64_000,
    json: null,
    input: 1,
    cached: 0.1,
    cacheWrite: 1.25,
    outputPrice: 5,
  },

  // Half price until 2026-12-31, like the two below.
  {
    ...gemini,
    id: "gemini-3.8-flash",
    parallel: null,
    input: 0.75,
    cached: 0.075,
    cacheWrite: null,
    outputPrice: 3.75,
  },
  {
    ...gemini,
    id: "gemini-3.7-flash",
    json: null,
    parallel: null,
    files: null,
    input: 0.75,
    cached: null,
    cacheWrite: null,
    outputPrice: 3.75,
  },
  { ...gemini, id: "gemini-3.6-flash", input: 0.75, cached: null, cacheWrite: null, outputPrice: 3.75 },
  { ...gemini, id: "gemini-3.5-flash", input: 1.5, cached: 0.15, cacheWrite: null, outputPrice: 9 },
  { ...gemini, id: "gemini-3.5-flash-lite", input: 0.3, cached: 0.03, cacheWrite: null, outputPrice: 2.5 },
  { ...gemini, id: "gemini-3.1-pro-preview", parallel: null, input: 2, cached: 0.2, cacheWrite: null, outputPrice: 12 },
  { ...gemini, id: "gemini-3.1-flash-lite", input: 0.25, cached: 0.025, cacheWrite: null, outputPrice: 1.5 },
];
