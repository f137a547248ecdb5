// The dialect of OpenAI's chat completions, as an option of the handler.

import type { Engine } from "../../../core/engine/internal.ts";
import type { Dialect } from "../../http/internal.ts";

import { completionErrorResponse, openaiRoutes } from "./routes.ts";

/**
 * OpenAI's chat completions: a {@link Dialect} that serves engines at `/v1/chat/completions` and lists them at
 * `/v1/models`. The keys of `engines` are the model names that clients use. A caller posts the whole conversation, also
 * the replies of the assistant; system and developer messages need `"instructions"` in the option `allow` of the
 * handler, and calls of the engine's tools are rejected. The limits of the runtime hold. Errors have OpenAI's format.
 */
export function openaiCompletions(engines: { readonly [model: string]: Engine }): Dialect {
  return {
    name: "openai-completions",
    routes: (settings) => openaiRoutes(engines, settings),
    errorResponse: completionErrorResponse,
  };
}
