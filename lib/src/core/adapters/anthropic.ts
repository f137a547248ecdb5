// The adapter of Anthropic's models: the Messages API.

import type { Adapter, KeySource } from "../engine/internal.ts";
import type { EncodedRequest } from "../wire/internal.ts";
import type { ProviderOptions } from "./http-adapter.ts";
import type { VertexOptions } from "./vertex.ts";

import { anything } from "../engine/internal.ts";
import { anthropicMessagesLoader } from "../wire/internal.ts";
import { checkProviderOptions } from "./adapter-rules.ts";
import { httpAdapter } from "./http-adapter.ts";
import { vertexBaseURL, vertexRule } from "./vertex.ts";

/** Options of {@link anthropic}. */
export type AnthropicOptions = ProviderOptions & {
  /** Beta features, sent as the header `anthropic-beta`. Default: none. */
  readonly betas?: readonly string[];
  /**
   * Tokens of MCP servers that the provider calls, by `name` in `mcp_servers`: a text, or a function that returns it
   * for each call. They are sent as `authorization_token` and never stored; in `options` and `providerOptions`, which
   * durable turns store, they are rejected. A token is sent to the provider for every server of that name. Default:
   * none.
   */
  readonly mcpAuthorization?: { readonly [server: string]: KeySource };
  /**
   * Calls Claude on Vertex AI: the base URL follows from project and location, and `authToken` is a token of Google's
   * OAuth. Default: Anthropic's own server.
   */
  readonly vertex?: VertexOptions;
};

/**
 * Models of Anthropic, by the Messages API. The default API key is the environment variable `ANTHROPIC_API_KEY`, the
 * default base URL `ANTHROPIC_BASE_URL` (without `/v1`, as in Anthropic's SDK).
 */
export function anthropic(options: AnthropicOptions = {}): Adapter {
  checkProviderOptions("anthropic", options, { betas: anything, mcpAuthorization: anything, vertex: vertexRule });
  const { betas = [], mcpAuthorization = {}, vertex, ...providerOptions } = options;
  const headers = { ...(betas.length === 0 ? {} : { "anthropic-beta": betas.join(",") }), ...providerOptions.headers };
  const profile = {
    provider: "anthropic",
    codec: anthropicMessagesLoader,
    ...(vertex === undefined
      ? { baseURL: "https://api.anthropic.com/v1", baseURLVariables: [{ name: "ANTHROPIC_BASE_URL", path: "/v1" }] }
      : { baseURL: vertexBaseURL(vertex, "anthropic"), baseURLVariables: [], rewrite: forVertex }),
    auth: "x-api-key",
    betaHeader: "anthropic-beta",
    variables: ["ANTHROPIC_API_KEY"],
    mcp: { list: "mcp_servers", type: null, name: "name", token: "authorization_token", sources: mcpAuthorization },
  } as const;
  return httpAdapter(profile, { ...providerOptions, headers });
}

/**
 * The Messages API on Vertex AI: the model is in the path, and the body names a version in place of the model
 * (https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude).
 */
function forVertex(encoded: EncodedRequest, model: string): EncodedRequest {
  const { model: _, ...body } = encoded.body;
  const method = body["stream"] === false ? "rawPredict" : "streamRawPredict";
  return {
    ...encoded,
    path: `/models/${encodeURIComponent(model).replaceAll("%40", "@")}:${method}`,
    body: { anthropic_version: "vertex-2023-10-16", ...body },
  };
}
