// An engine as a language model of the AI SDK (specification v3, which AI SDK 6 and 7 accept).
//
// Theory of operation
//   A call runs a turn of the engine: model calls, and the engine's own tools between them. The AI SDK sees one reply.
//   Calls of the engine's tools are calls that the provider ran (`providerExecuted`), with their results. Tools that
//   the caller passes to the AI SDK are manual tools of the turn: it ends with their calls, the AI SDK runs them, and
//   calls the model again with the results.
//
//   Each part has the number of its step in its metadata, and the last part of a reply has the whole reply. prompt.ts
//   builds the thread from both when the AI SDK sends the parts back, so signatures of the provider behind the engine
//   are not lost. The end of a block or a call is held back until the next part, because the reply is complete only
//   after it.
//
// Failure cases
//   a failed turn                          an `error` part, and the finish reason `error`; `doGenerate` rejects
//   a retry after content of the step      an `error` part, because the AI SDK cannot take back what it has shown;
//                                          `doGenerate` drops the content. A retry before any content is not visible
//   a call that waits for a person         an `error` part: approvals and questions of the engine's own tools need a
//                                          session
//   the stream is cancelled                the turn is cancelled

import type { Engine } from "../../core/engine/internal.ts";
import type { CallerContext } from "../../core/model/internal.ts";
import type { AiSdkModelPart, AiSdkModelReply } from "./model-parts.ts";
import type { AiSdkCallOptions } from "./specification.ts";

import { stream } from "../../core/run/internal.ts";
import { callerToolsOf } from "./model-call.ts";
import { finishOf } from "./model-parts.ts";
import { Reply } from "./model-reply.ts";
import { metadataKey, readPrompt } from "./prompt.ts";

/** Options of {@link aiSdkModel}. */
type AiSdkModelOptions<Context extends CallerContext = CallerContext> = {
  /** The name of the model in the AI SDK, for logs. Default: the model of the engine. */
  readonly modelId?: string;
  /** The context of tool handlers. Default: the context of the engine. */
  readonly context?: Context;
};

/** A language model of the AI SDK that runs turns of an engine: a `LanguageModelV3`. */
export type AiSdkModel = {
  readonly specificationVersion: "v3";
  readonly provider: string;
  readonly modelId: string;
  readonly supportedUrls: { [mediaType: string]: RegExp[] };
  /** Runs a turn and returns its whole reply. */
  doGenerate(options: AiSdkCallOptions): Promise<AiSdkModelReply>;
  /** Runs a turn and streams its reply. */
  doStream(options: AiSdkCallOptions): Promise<{ stream: ReadableStream<AiSdkModelPart> }>;
};

/**
 * Makes a language model for the AI SDK from an engine, for `generateText`, `streamText` and agents of AI SDK 6 and 7.
 * The engine's tools run inside a call; tools that are passed to the AI SDK run there. Settings of a call override
 * those of the engine. Sessions, approvals and questions need the verbs of Everturn.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { aiSdkModel } from "everturn/ai-sdk";
 * import { generateText } from "ai";
 *
 * const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello." }] }), model: "fake:m" });
 * (await generateText({ model: aiSdkModel(agent), prompt: "Hi!" })).text; // => "Hello."
 * ```
 */
export function aiSdkModel<Context extends CallerContext>(
  engine: Engine<Context>,
  options: AiSdkModelOptions<Context> = {},
): AiSdkModel {
  const { model } = engine;
  const name = typeof model === "string" ? model : (model?.id ?? null);
  const context = options.context ?? engine.context;
  const run = (call: AiSdkCallOptions) => {
    const messages = readPrompt(call.prompt);
    const callerTools = callerToolsOf(engine, call);
    const usedIds = messages.flatMap((message) =>
      message.role === "assistant" ? message.toolCalls.map(({ id }) => id) : [],
    );
    return new Reply(call, callerTools, usedIds, (settings, signal) =>
      stream(engine, messages, { ...settings, context, tools: [...engine.tools, ...callerTools], signal }),
    );
  };
  return {
    specificationVersion: "v3",
    provider: metadataKey,
    modelId: options.modelId ?? name ?? metadataKey,
    // The adapter of the engine decides about URLs; the AI SDK must not fetch them.
    supportedUrls: { "*/*": [/^/] },
    doGenerate: async (call) => collect(run(call)),
    doStream: async (call) => ({ stream: partStream(run(call)) }),
  };
}

/** The parts as a stream with backpressure: each `pull` reads one part. */
function partStream(reply: Reply): ReadableStream<AiSdkModelPart> {
  const parts = reply.parts();
  return new ReadableStream<AiSdkModelPart>({
    pull: async (controller) => {
      const next = await parts.next();
      if (next.done === true) controller.close();
      else controller.enqueue(next.value);
    },
    cancel: async () => {
      reply.cancel();
      await parts.return(undefined);
    },
  });
}

/** Collects the parts of a stream into the result of `doGenerate`. Rejects with the error of an `error` part. */
async function collect(run: Reply): Promise<AiSdkModelReply> {
  const reply: AiSdkModelReply = {
    content: [],
    response: {},
    warnings: [],
    ...finishOf("other", null, null),
  };
  const texts = new Map<string, string>();
  const discard = (step: string) => {
    reply.content = reply.content.filter(
      (part) => !("providerMetadata" in part) || part.providerMetadata?.[metadataKey]?.["step"] !== step,
    );
  };
  for await (const part of run.parts(discard)) {
    switch (part.type) {
      case "stream-start":
        reply.warnings = part.warnings;
        break;
      case "response-metadata": {
        const { type: _, ...response } = part;
        reply.response = response;
        break;
      }
      case "text-delta":
      case "reasoning-delta":
        texts.set(part.id, (texts.get(part.id) ?? "") + part.delta);
        break;
      case "text-end":
      case "reasoning-end": {
        const { type, id, ...metadata } = part;
        reply.content.push({
          type: type === "text-end" ? "text" : "reasoning",
          text: texts.get(id) ?? "",
          ...metadata,
        });
        break;
      }
      case "tool-call":
      case "tool-result":
      case "file":
        reply.content.push(part);
        break;
      case "error":
        throw part.error;
      case "finish": {
        const { type: _, ...finish } = part;
        Object.assign(reply, finish);
        break;
      }
      case "text-start":
      case "reasoning-start":
      case "tool-input-start":
      case "tool-input-delta":
      case "tool-input-end":
      case "raw":
        break;
    }
  }
  return reply;
}
