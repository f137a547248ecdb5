// The adapter of OpenAI's chat models: the Responses API, or Chat Completions.

import type { Adapter } from "../engine/internal.ts";
import type { Quirks } from "../wire/internal.ts";
import type { ProviderOptions, ProviderProfile } from "./http-adapter.ts";

import { MisuseError } from "../model/internal.ts";
import { openaiChat, openaiResponses } from "../wire/internal.ts";
import { httpAdapter } from "./http-adapter.ts";

/** Options of {@link openai}. */
export type OpenAIOptions = ProviderOptions & {
  /** The API: `responses`, or `chat` for Chat Completions. Default: `responses`. */
  readonly api?: "responses" | "chat";
  /**
   * Runs responses in the background (Responses API only): the provider computes a response without a connection. A connection that is cut is resumed where
   * it was cut, and a process that takes over a turn after a crash reads the response instead of paying for another one. The provider stores such responses
   * (`store: true`). A request decides for itself with `options: { background }`. Default: `false`.
   */
  readonly background?: boolean;
  /** Sent as the header `openai-organization`. */
  readonly organization?: string;
  /** Sent as the header `openai-project`. */
  readonly project?: string;
};

/**
 * Models of OpenAI, by the Responses API (default) or Chat Completions. The default API key is the environment
 * variable `OPENAI_API_KEY`.
 */
export function openai({
  api = "responses",
  background = false,
  organization,
  project,
  ...options
}: OpenAIOptions = {}): Adapter {
  if (background && api === "chat") {
    const message = 'openai: background responses need the Responses API; leave out api: "chat"';
    throw new MisuseError("invalid_argument", message, { path: ["background"] });
  }
  const headers = {
    ...(organization === undefined ? {} : { "openai-organization": organization }),
    ...(project === undefined ? {} : { "openai-project": project }),
    ...options.headers,
  };
  const chat: Quirks = { maxTokensField: "max_completion_tokens", streamUsage: true, systemRole: "developer" };
  const profile: ProviderProfile = {
    provider: "openai",
    codec: api === "responses" ? openaiResponses : openaiChat,
    baseURL: "https://api.openai.com/v1",
    auth: "bearer",
    variables: ["OPENAI_API_KEY"],
    quirks: api === "responses" ? {} : chat,
    background,
  };
  return httpAdapter(profile, { ...options, headers });
}
