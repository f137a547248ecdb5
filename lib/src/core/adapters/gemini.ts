// The adapter of Google's Gemini models.

import type { Adapter } from "../engine/internal.ts";
import type { ModelRequest } from "../model/internal.ts";
import type { ProviderOptions } from "./http-adapter.ts";
import type { VertexOptions } from "./vertex.ts";

import { geminiGenerateContentLoader } from "../wire/internal.ts";
import { checkProviderOptions } from "./adapter-rules.ts";
import { geminiServer } from "./base-url.ts";
import { httpAdapter } from "./http-adapter.ts";
import { vertexBaseURL, vertexRule } from "./vertex.ts";

/** Options of {@link gemini}. */
export type GeminiOptions = ProviderOptions & {
  /**
   * Calls Gemini on Vertex AI: the base URL follows from project and location, and `authToken` is a token of Google's
   * OAuth. Default: the Gemini API.
   */
  readonly vertex?: VertexOptions;
};

/**
 * Models of Google, by the Gemini API. The default API key is the environment variable `GEMINI_API_KEY` or
 * `GOOGLE_API_KEY`, the default base URL `GOOGLE_GEMINI_BASE_URL` (without `/v1beta`, as in Google's SDK) or
 * `GEMINI_BASE_URL`.
 */
export function gemini(options: GeminiOptions = {}): Adapter {
  checkProviderOptions("gemini", options, { vertex: vertexRule });
  const { vertex, ...providerOptions } = options;
  const profile = {
    ...geminiServer,
    ...(vertex === undefined ? {} : { baseURL: vertexBaseURL(vertex, "google"), baseURLVariables: [] }),
    codec: geminiGenerateContentLoader,
    needsFinalize,
  };
  return httpAdapter(profile, providerOptions);
}

/**
 * Gemini 1 and 2 refuse a response schema together with tools. The structured answer is then requested by a second call
 * (finalize).
 */
function needsFinalize({ model, tools, responseFormat }: ModelRequest): boolean {
  const name = typeof model === "string" ? model : (model?.id ?? "");
  return tools.length > 0 && responseFormat?.type === "json_schema" && /gemini-(?:1|2)\b/.test(name);
}
