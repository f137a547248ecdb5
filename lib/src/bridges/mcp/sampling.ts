// Answers requests of a server for a model call (sampling) with an engine.

import type { Engine } from "../../core/engine/internal.ts";
import type { CreateMessageRequestParams, CreateMessageResult } from "@modelcontextprotocol/client";

import { AdapterError } from "../../core/model/internal.ts";
import { generate } from "../../core/run/internal.ts";
import { promptMessages } from "./content.ts";

/**
 * Makes one model call without tools. Images and texts are passed on; the server chooses neither the model nor the key.
 */
export async function sample(
  engine: Engine,
  params: CreateMessageRequestParams,
  signal: AbortSignal,
): Promise<CreateMessageResult> {
  const { messages, systemPrompt, maxTokens, temperature, stopSequences } = params;
  const input = messages.flatMap(({ role, content }) =>
    (Array.isArray(content) ? content : [content]).flatMap((block) =>
      block.type === "text" || block.type === "image" || block.type === "audio" ? [{ role, content: block }] : [],
    ),
  );
  const reply = await generate(
    { ...engine, tools: [], instructions: systemPrompt ?? engine.instructions },
    promptMessages(input),
    {
      maxTokens,
      signal,
      ...(temperature === undefined ? {} : { temperature }),
      ...(stopSequences === undefined ? {} : { stopSequences }),
    },
  );
  if (reply.error !== null) throw new AdapterError("unknown", { message: "the model call failed" });
  const model = reply.model ?? "unknown";
  return { role: "assistant", model, content: { type: "text", text: reply.outputText ?? "" } };
}
