// The adapter of OpenAI's chat models: the Responses API, or Chat Completions.

import type { Adapter, KeySource } from "../engine/internal.ts";
import type { Quirks } from "../wire/internal.ts";
import type { ProviderOptions, ProviderProfile } from "./http-adapter.ts";

import { anything, aString } from "../engine/internal.ts";
import { invalidArgument } from "../model/internal.ts";
import { openaiChatLoader, openaiResponsesLoader } from "../wire/internal.ts";
import { apiRule, checkProviderOptions } from "./adapter-rules.ts";
import { openaiServer, organizationHeaders } from "./base-url.ts";
import { httpAdapter } from "./http-adapter.ts";

/** Options of {@link openai}. */
export type OpenAIOptions = ProviderOptions & {
  /** The API: `responses`, or `chat` for Chat Completions. Default: `responses`. */
  readonly api?: "responses" | "chat";
  /**
   * Runs responses in the background (Responses API only): the provider computes a response without a connection. A
   * connection that is cut is resumed where it was cut, and a process that takes over a turn after a crash reads the
   * response instead of paying for another one. The provider stores such responses (`store: true`). A request decides
   * for itself with `options: { background }`. Default: `false`.
   */
  readonly background?: boolean;
  /**
   * Tokens of MCP servers that the provider calls, by `server_label`: a text, or a function that returns it for each
   * call. They are sent as `authorization` and never stored; in `providerTools`, which durable turns store, they are
   * rejected. A token is sent to the provider for every server of that name. Default: none.
   */
  readonly mcpAuthorization?: { readonly [server: string]: KeySource };
  /** Sent as the header `openai-organization`. */
  readonly organization?: string;
  /** Sent as the header `openai-project`. */
  readonly project?: string;
};

/**
 * Models of OpenAI, by the Responses API (default) or Chat Completions. The default API key is the environment
 * variable `OPENAI_API_KEY`, the default base URL `OPENAI_BASE_URL`.
 */
export function openai(options: OpenAIOptions = {}): Adapter {
  checkProviderOptions("openai", options, {
    api: apiRule,
    background: anything,
    mcpAuthorization: anything,
    organization: aString,
    project: aString,
  });
  const {
    api = "responses",
    background = false,
    mcpAuthorization = {},
    organization: _organization,
    project: _project,
    ...providerOptions
  } = options;
  if (background && api === "chat") {
    const message = 'openai: background responses need the Responses API; leave out api: "chat"';
    throw invalidArgument(message, ["background"]);
  }
  const headers = { ...organizationHeaders(options), ...providerOptions.headers };
  const chat: Quirks = { maxTokensField: "max_completion_tokens", streamUsage: true, systemRole: "developer" };
  const profile: ProviderProfile = {
    ...openaiServer,
    codec: api === "responses" ? openaiResponsesLoader : openaiChatLoader,
    quirks: api === "responses" ? {} : chat,
    background,
    mcp: { list: "tools", type: "mcp", name: "server_label", token: "authorization", sources: mcpAuthorization },
  };
  return httpAdapter(profile, { ...providerOptions, headers });
}
