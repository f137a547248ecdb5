// Decides whether a request of the Responses API asks for encrypted reasoning.
//
// The API refuses `include: ["reasoning.encrypted_content"]` for models that do not reason, with the status 400 and the
// message "Encrypted content is not supported with this model". If the field is missing for a model that reasons, the
// request succeeds, but its reasoning cannot be sent back under `store: false` and is left out of the next request. The
// field is therefore sent only if something says that the model reasons.

import type { ModelRequest } from "../../model/internal.ts";

/**
 * Names of models that reason: OpenAI's o-series, GPT-5 and later, Codex and computer use; xAI's Grok 4 and later,
 * `grok-3-mini` and `grok-code`. A prefix (`openai/`) or a fine-tuning mark (`ft:`) may precede the name.
 */
const reasoningName =
  /(?:^|[/:])(?:o[1-9]\d*(?=-|:|$)|gpt-(?:[5-9]|[1-9]\d)(?=[.:-]|$)|codex-|computer-use|grok-(?:[4-9]|3-mini|code|build))/i;

/**
 * Names of models that do not reason: OpenAI's GPT-3.5 and GPT-4 families, and variants of families that reason
 * (`gpt-5-chat-latest`, `grok-4-fast-non-reasoning`).
 */
const nonReasoningName = /-(?:chat|non-reasoning)(?:-|:|$)|(?:^|[/:])(?:chat)?gpt-[34](?:[.:o-]|$)/i;

/**
 * Does the model of this request reason? The capabilities of the request's model decide, which come from the catalog or
 * from the caller. If they are unknown, the name decides, and for an unknown name (a deployment on Azure, a local
 * server) the caller's reasoning settings.
 */
export function modelReasons({ model, reasoning }: Pick<ModelRequest, "model" | "reasoning">, name: string): boolean {
  const capability = typeof model === "string" ? null : (model?.capabilities?.reasoning ?? null);
  if (capability !== null) return capability;
  // A deployment on Azure is sent under its own name, and the request names the model.
  const requestedName = typeof model === "string" ? model : (model?.id ?? "");
  const names = [requestedName, name];
  if (names.some((candidate) => nonReasoningName.test(candidate))) return false;
  if (names.some((candidate) => reasoningName.test(candidate))) return true;
  return reasoning !== null && reasoning.effort !== "none";
}
