import type { Adapter } from "../engine/internal.ts";
import type { Quirks } from "../wire/internal.ts";
import type { ProviderOptions, ProviderProfile } from "./http-adapter.ts";

import { openaiChat, openaiResponses } from "../wire/internal.ts";
import { httpAdapter } from "./http-adapter.ts";

export type OpenAIOptions = ProviderOptions & {
  /** Which of the two APIs; `responses` unless said otherwise. */
  readonly api?: "responses" | "chat";
  readonly organization?: string;
  readonly project?: string;
};

/**
 * Models of OpenAI, by the Responses API (default) or Chat Completions. The default API key is the environment
 * variable `OPENAI_API_KEY`.
 */
export function openai({ api = "responses", organization, project, ...options }: OpenAIOptions = {}): Adapter {
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
  };
  return httpAdapter(profile, { ...options, headers });
}
