// Checks a request against the documented rules of a provider.

import type { JsonObject } from "../../core/model/internal.ts";
import type { ProviderApi, ProviderRequest, ProviderRule, Violation } from "./rule.ts";

import { MisuseError } from "../../core/model/internal.ts";
import { asObject } from "../../core/wire/internal.ts";
import { anthropicMessagesRules } from "./anthropic-messages.ts";
import { geminiRules } from "./gemini.ts";
import { openaiChatRules } from "./openai-chat.ts";
import { openaiResponsesRules } from "./openai-responses.ts";

/**
 * The documented rules of each API, with their sources. A rule is in the table only if the documentation states it or a
 * report quotes the answer of the API, so a request without violations can still be refused.
 */
export const providerRules: { readonly [A in ProviderApi]: readonly ProviderRule[] } = {
  "openai-responses": openaiResponsesRules,
  "openai-chat": openaiChatRules,
  "anthropic-messages": anthropicMessagesRules,
  gemini: geminiRules,
};

/**
 * The rules that a request violates, in the order of {@link providerRules}. The API would refuse the request with the
 * message of one of them. Throws `MisuseError` for an unknown API and for a request without a body.
 *
 * @example
 * ```ts
 * import { violations } from "everturn/testing";
 *
 * const input = [{ type: "function_call_output", call_id: "call_1", output: "5" }];
 * const [found] = violations("openai-responses", { body: { model: "gpt-5.4", input } });
 * found?.message; // => "No tool call found for function call output with call_id call_1."
 * ```
 */
export function violations(api: ProviderApi, request: ProviderRequest): readonly Violation[] {
  if (!Object.hasOwn(providerRules, api)) {
    const names = Object.keys(providerRules).join(", ");
    throw new MisuseError("invalid_argument", `violations: there is no API ${String(api)}; the APIs are ${names}`);
  }
  if (asObject(request?.body) === null)
    throw new MisuseError("invalid_argument", "violations: the request has no body; pass { body }");
  return providerRules[api].flatMap(({ name, find }) => find(request).map((finding) => ({ rule: name, ...finding })));
}

/** The HTTP status and the body with which the API refuses a request, in the provider's format. */
export function refusalOf(
  api: ProviderApi,
  { rule, message, path }: Violation,
): { readonly status: number; readonly body: JsonObject } {
  const row = providerRules[api].find(({ name }) => name === rule);
  const status = row?.status ?? 400;
  switch (api) {
    case "openai-responses":
    case "openai-chat":
      return {
        status,
        body: { error: { message, type: "invalid_request_error", param: path, code: row?.code ?? null } },
      };
    case "anthropic-messages":
      return { status, body: { type: "error", error: { type: "invalid_request_error", message } } };
    case "gemini":
      return { status, body: { error: { code: status, message, status: "INVALID_ARGUMENT" } } };
  }
}
