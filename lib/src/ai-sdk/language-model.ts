// An engine as a language model of the AI SDK (specification v3, which AI SDK 6 and 7 accept).
//
// Theory of operation
//   A call runs a turn of the engine: model calls, and the engine's own tools between them. The AI SDK sees one reply. Calls of the engine's tools are calls that the
//   provider ran (`providerExecuted`), with their results. Tools that the caller passes to the AI SDK are manual tools of the turn: it ends with their calls, the AI SDK runs them, and
//   calls the model again with the results.
//
//   Each part has the number of its step in its metadata, and the last part of a reply has the whole reply. prompt.ts builds the thread from both when the AI SDK sends the parts
//   back, so signatures of the provider behind the engine are not lost. The end of a block or a call is held back until the next part, because the reply is complete only after it.
//
// Failure cases
//   a failed turn                          an `error` part, and the finish reason `error`; `doGenerate` rejects
//   a retry after content of the step      an `error` part, because the AI SDK cannot take back what it has shown; `doGenerate` drops the content. A retry before any content
//                                          is not visible
//   a call that waits for a person         an `error` part: approvals and questions of the engine's own tools need a session
//   the stream is cancelled                the turn is cancelled

import type { ChatOptions, Engine, Tool } from "../engine/internal.ts";
import type {
  AssistantMessage,
  CallerContext,
  ChatResult,
  Failure,
  Json,
  JsonObject,
  ToolChoice,
  ToolMessage,
  TurnEvent,
  Usage,
  Warning,
} from "../model/internal.ts";
import type { PlainJson } from "./prompt.ts";
import type { AiSdkCallOptions } from "./specification.ts";

import { tool } from "../engine/internal.ts";
import { errorFromFailure, MisuseError, uncachedInputTokens } from "../model/internal.ts";
import { stream } from "../run/internal.ts";
import { fieldOf, objectOf, textOf } from "./fields.ts";
import { metadataKey, plainJson, readPrompt } from "./prompt.ts";
import { providerToolOf } from "./tools.ts";

/** Options of {@link aiSdkModel}. */
export type AiSdkModelOptions<Context extends CallerContext = CallerContext> = {
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

type Metadata = { providerMetadata?: { [provider: string]: { [field: string]: string } } };
type CallContent = {
  type: "tool-call";
  toolCallId: string;
  toolName: string;
  input: string;
  providerExecuted?: boolean;
  dynamic?: boolean;
} & Metadata;
type ResultContent = {
  type: "tool-result";
  toolCallId: string;
  toolName: string;
  result: NonNullable<PlainJson>;
  isError?: boolean;
  dynamic?: boolean;
} & Metadata;
type FileContent = { type: "file"; mediaType: string; data: string };
type ModelWarning = { type: "unsupported"; feature: string; details?: string };
type Finish = {
  finishReason: {
    unified: "stop" | "length" | "content-filter" | "tool-calls" | "error" | "other";
    raw: string | undefined;
  };
  usage: {
    inputTokens: { total: Count; noCache: Count; cacheRead: Count; cacheWrite: Count };
    outputTokens: { total: Count; text: Count; reasoning: Count };
  };
};
type Count = number | undefined;

/** A part of the stream of an {@link AiSdkModel}. */
export type AiSdkModelPart =
  | { type: "stream-start"; warnings: ModelWarning[] }
  | ({ type: "response-metadata" } & ResponseMetadata)
  | ({ type: "text-start" | "reasoning-start"; id: string } & Metadata)
  | ({ type: "text-delta" | "reasoning-delta"; id: string; delta: string } & Metadata)
  | ({ type: "text-end" | "reasoning-end"; id: string } & Metadata)
  | { type: "tool-input-start"; id: string; toolName: string; providerExecuted?: boolean; dynamic?: boolean }
  | { type: "tool-input-delta"; id: string; delta: string }
  | { type: "tool-input-end"; id: string }
  | CallContent
  | ResultContent
  | FileContent
  | { type: "raw"; rawValue: unknown }
  | { type: "error"; error: unknown }
  | ({ type: "finish" } & Finish);
type ResponseMetadata = { id?: string; modelId?: string };

/** The result of `doGenerate` of an {@link AiSdkModel}. */
export type AiSdkModelReply = Finish & {
  content: (({ type: "text" | "reasoning"; text: string } & Metadata) | CallContent | ResultContent | FileContent)[];
  response: ResponseMetadata;
  warnings: ModelWarning[];
};

/**
 * Makes a language model for the AI SDK from an engine, for `generateText`, `streamText` and agents of AI SDK 6 and 7. The engine's tools run inside a call; tools that are passed to
 * the AI SDK run there. Settings of a call override those of the engine. Sessions, approvals and questions need the verbs of Everturn.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { aiSdkModel } from "everturn/ai-sdk";
 * import { generateText } from "ai";
 *
 * const assistant = engine({ adapter: fake({ script: [{ type: "text", text: "Hello." }] }), model: "fake:m" });
 * (await generateText({ model: aiSdkModel(assistant), prompt: "Hi!" })).text; // => "Hello."
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
    return new Reply(call, callerTools, (settings, signal) =>
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
    doStream: async (call) => ({ stream: streamOf(run(call)) }),
  };
}

/** The parts as a stream with backpressure: each `pull` reads one part. */
function streamOf(reply: Reply): ReadableStream<AiSdkModelPart> {
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

/** A block that is open in the stream. */
type OpenBlock = { readonly kind: "text" | "reasoning"; readonly key: string; readonly id: string };

/** Runs the turn of a call. */
type Run = (settings: ChatOptions, signal: AbortSignal) => AsyncIterable<TurnEvent>;

/** The tools that the AI SDK runs, as manual tools. Throws `MisuseError` for a name that a tool of the engine has. */
function callerToolsOf<Context extends CallerContext>(
  engine: Engine<Context>,
  call: AiSdkCallOptions,
): readonly Tool[] {
  const callerTools = (call.tools ?? []).flatMap((definition) => manualTool(definition) ?? []);
  const clash = callerTools.find(({ name }) => engine.tools.some((own) => own.name === name));
  if (clash === undefined) return callerTools;
  const message = `aiSdkModel: the engine has a tool "${clash.name}", and the call passes another; rename one of them`;
  throw new MisuseError("invalid_argument", message);
}

/** One call: runs the turn and translates its events. */
class Reply {
  readonly #call: AiSdkCallOptions;
  readonly #run: Run;
  readonly #stop = new AbortController();
  /** Names of the tools that the AI SDK runs. */
  readonly #callerTools: ReadonlySet<string>;
  readonly #warnings: ModelWarning[] = [];
  /** Parts that end a block or a call. The last one of a reply gets the whole reply as metadata. */
  #held: AiSdkModelPart[] = [];
  #open: OpenBlock | null = null;
  /** Blocks of the reply that have had a delta and no end, by kind and id of the event. */
  readonly #streamed = new Set<string>();
  #hasStarted = false;
  #hasContent = false;
  #step = 0;
  #blocks = 0;
  readonly #toolNames = new Map<string, string>();

  constructor(call: AiSdkCallOptions, callerTools: readonly Tool[], run: Run) {
    this.#call = call;
    this.#run = run;
    this.#callerTools = new Set(callerTools.map(({ name }) => name));
  }

  cancel(): void {
    this.#stop.abort();
  }

  /** The parts of the reply. `discard` drops the parts of a step whose model call is repeated; without it, such a step ends the stream with an error. */
  async *parts(discard: ((step: string) => void) | null = null): AsyncGenerator<AiSdkModelPart, undefined> {
    const { abortSignal } = this.#call;
    const cancelled = () => this.#stop.abort(abortSignal?.reason);
    abortSignal?.throwIfAborted();
    abortSignal?.addEventListener("abort", cancelled);
    try {
      for await (const event of this.#run(this.#settings(), this.#stop.signal)) {
        for (const part of this.#translate(event)) yield part;
        if (event.type === "step_reset" && this.#hasContent && discard !== null) {
          discard(`${this.#step}`);
          [this.#open, this.#held, this.#hasContent] = [null, [], false];
          this.#streamed.clear();
        } else if (event.type === "step_reset" && this.#hasContent) {
          const message =
            "the model call failed after a part of the reply was sent, and cannot be repeated in this stream";
          yield { type: "error", error: new Error(message) };
          yield { type: "finish", ...finishOf("error", "step_reset", null) };
          return;
        }
        if (event.type === "chat_completed") yield* this.#end(event.result);
      }
    } finally {
      abortSignal?.removeEventListener("abort", cancelled);
    }
    abortSignal?.throwIfAborted();
  }

  /** The options of the run, from those of the call. Lists what an engine has no option for. */
  #settings(): ChatOptions {
    const { maxOutputTokens, temperature, topP, seed, stopSequences, reasoning, includeRawChunks } = this.#call;
    for (const feature of ["topK", "presencePenalty", "frequencyPenalty"] as const)
      if (this.#call[feature] !== undefined)
        this.#warnings.push({ type: "unsupported", feature, details: "set it in the params of the engine" });
    const toolChoice = toolChoiceOf(this.#call.toolChoice);
    const responseFormat = responseFormatOf(this.#call.responseFormat);
    const headers = Object.entries(this.#call.headers ?? {}).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && entry[0].toLowerCase() !== "user-agent",
    );
    const providerOptions = objectOf(this.#call.providerOptions);
    const providerTools = (this.#call.tools ?? []).flatMap((definition) => providerToolOf(definition) ?? []);
    return {
      ...(maxOutputTokens === undefined ? {} : { maxTokens: maxOutputTokens }),
      ...(temperature === undefined ? {} : { temperature }),
      ...(topP === undefined ? {} : { topP }),
      ...(seed === undefined ? {} : { seed }),
      ...(stopSequences === undefined ? {} : { stopSequences: [...stopSequences] }),
      ...(toolChoice === null ? {} : { toolChoice }),
      ...(responseFormat === null ? {} : { responseFormat }),
      ...(reasoning === undefined || reasoning === "provider-default"
        ? {}
        : { reasoning: { effort: reasoning, budgetTokens: null, summary: null } }),
      ...(headers.length === 0 ? {} : { adapterOptions: { headers: Object.fromEntries(headers) } }),
      ...(providerOptions === null ? {} : { providerOptions: optionsOf(providerOptions) }),
      ...(providerTools.length === 0 ? {} : { providerTools }),
      ...(includeRawChunks === true ? { includeRawChunks } : {}),
    };
  }

  #translate(event: TurnEvent): readonly AiSdkModelPart[] {
    switch (event.type) {
      case "warning":
        this.#warnings.push(warningOf(event.warning));
        return [];
      case "text_delta":
        return this.#append("text", event.id, event.delta);
      case "reasoning_delta":
        return this.#append("reasoning", event.id, event.delta);
      case "text_completed":
        return this.#complete("text", event.id, event.text);
      case "reasoning_completed":
        return this.#complete("reasoning", event.id, event.text);
      case "tool_call_started":
        this.#toolNames.set(event.id, event.name);
        return this.#content([
          ...this.#closeBlock(),
          { type: "tool-input-start", id: event.id, toolName: event.name, ...this.#runner(event.name) },
        ]);
      case "tool_call_delta":
        return [{ type: "tool-input-delta", id: event.id, delta: event.argumentsDelta }];
      case "tool_call_completed": {
        const { id, name, arguments: args, rawArguments } = event;
        const input = rawArguments ?? JSON.stringify(args ?? {});
        const call: CallContent = { type: "tool-call", toolCallId: id, toolName: name, input, ...this.#runner(name) };
        return [...this.#release(), { type: "tool-input-end", id }, ...this.#hold([call])];
      }
      case "message_completed":
        return this.#completeReply(event.message, event.responseId, event.model);
      case "tool_result_encoded":
        return this.#content([this.#resultOf(event)]);
      case "step_completed":
        this.#step += 1;
        this.#hasContent = false;
        this.#streamed.clear();
        return [];
      case "raw_chunk":
        return [...this.#start(), { type: "raw", rawValue: event.chunk }];
      default:
        return [];
    }
  }

  /** Who runs a tool: the engine's calls are those of the provider for the AI SDK, and their names are not known there. */
  #runner(name: string): { providerExecuted?: boolean; dynamic?: boolean } {
    return this.#callerTools.has(name) ? {} : { providerExecuted: true, dynamic: true };
  }

  /** The metadata of a part: its step, and with the last part of a reply the reply. */
  #metadata(message: AssistantMessage | null = null): Required<Metadata> {
    const fields = { step: `${this.#step}`, ...(message === null ? {} : { message: JSON.stringify(message) }) };
    return { providerMetadata: { [metadataKey]: fields } };
  }

  /** The first part, with the warnings so far. */
  #start(): readonly AiSdkModelPart[] {
    if (this.#hasStarted) return [];
    this.#hasStarted = true;
    return [{ type: "stream-start", warnings: this.#warnings }];
  }

  #content(parts: readonly AiSdkModelPart[]): readonly AiSdkModelPart[] {
    this.#hasContent = true;
    return [...this.#start(), ...this.#release(), ...parts];
  }

  #hold(parts: readonly AiSdkModelPart[]): readonly AiSdkModelPart[] {
    this.#held.push(...parts);
    return [];
  }

  #release(): readonly AiSdkModelPart[] {
    const held = this.#held;
    this.#held = [];
    return held.map((part) => ("providerMetadata" in part ? part : withMetadata(part, this.#metadata())));
  }

  #append(kind: OpenBlock["kind"], blockId: string | null, delta: string): readonly AiSdkModelPart[] {
    if (delta === "") return [];
    const key = `${kind}:${blockId}`;
    this.#streamed.add(key);
    const opened = this.#open?.key === key ? [] : [...this.#closeBlock(), ...this.#openBlock(kind, key)];
    return this.#content([...opened, { type: `${kind}-delta`, id: this.#open?.id ?? "", delta }]);
  }

  #openBlock(kind: OpenBlock["kind"], key: string): readonly AiSdkModelPart[] {
    this.#blocks += 1;
    const id = `${this.#blocks}`;
    this.#open = { kind, key, id };
    return [{ type: `${kind}-start`, id }];
  }

  #closeBlock(): readonly AiSdkModelPart[] {
    const block = this.#open;
    this.#open = null;
    return block === null ? [] : [{ type: `${block.kind}-end`, id: block.id, ...this.#metadata() }];
  }

  /** Ends a block. Its end is held back, because it may be the last part of the reply. A block without deltas is sent whole; a call may have closed it before. */
  #complete(kind: OpenBlock["kind"], blockId: string | null, text: string): readonly AiSdkModelPart[] {
    const key = `${kind}:${blockId}`;
    const whole = this.#streamed.has(key) ? [] : this.#append(kind, blockId, text);
    this.#streamed.delete(key);
    const block = this.#open;
    if (block?.key !== key) return whole;
    this.#open = null;
    this.#hold([{ type: `${kind}-end`, id: block.id }]);
    return whole;
  }

  #completeReply(message: AssistantMessage, id: string | null, modelId: string | null): readonly AiSdkModelPart[] {
    const block = this.#open;
    this.#open = null;
    if (block !== null) this.#hold([{ type: `${block.kind}-end`, id: block.id }]);
    const last = this.#held.at(-1);
    const marked = last === undefined ? [] : [withMetadata(last, this.#metadata(message))];
    this.#held = [...this.#held.slice(0, -1), ...marked];
    return [
      ...this.#start(),
      { type: "response-metadata", ...(id === null ? {} : { id }), ...(modelId === null ? {} : { modelId }) },
      ...this.#release(),
      ...filesOf(message),
    ];
  }

  #resultOf({ id, content, status }: { readonly id: string } & Pick<ToolMessage, "content" | "status">): ResultContent {
    const isError = status === "failure" || status === "cancelled" || status === "not_run";
    return {
      type: "tool-result",
      toolCallId: id,
      toolName: this.#toolNames.get(id) ?? "",
      result: typeof content === "string" ? content : (plainJson(content) ?? ""),
      ...(isError ? { isError } : {}),
      dynamic: true,
      ...this.#metadata(),
    };
  }

  *#end(result: ChatResult): Generator<AiSdkModelPart> {
    if (result.haltedReason === "cancelled") return;
    yield* this.#start();
    yield* this.#closeBlock();
    yield* this.#release();
    const { haltedReason, finalResponse, usage, pendingToolCalls, metadata } = result;
    const waiting = pendingToolCalls.find(({ name }) => !this.#callerTools.has(name));
    const failure: Failure | null = metadata.error ?? finalResponse?.error ?? null;
    const error =
      waiting === undefined
        ? failure === null
          ? null
          : errorFromFailure(failure)
        : new Error(
            `the call of the tool "${waiting.name}" waits for a person (${waiting.reason}), which a language model of the AI SDK cannot do; use a session of Everturn`,
          );
    if (error !== null) yield { type: "error", error };
    const reason = finalResponse?.finishReason ?? null;
    const raw = haltedReason === "completed" ? (finalResponse?.rawFinishReason ?? reason) : haltedReason;
    const unified =
      error !== null
        ? "error"
        : pendingToolCalls.length > 0
          ? "tool-calls"
          : haltedReason === "completed"
            ? unifiedOf(reason)
            : "other";
    yield { type: "finish", ...finishOf(unified, raw, usage) };
  }
}

function withMetadata(part: AiSdkModelPart, metadata: Required<Metadata>): AiSdkModelPart {
  switch (part.type) {
    case "text-end":
    case "reasoning-end":
    case "tool-call":
      return { ...part, ...metadata };
    default:
      return part;
  }
}

function unifiedOf(reason: string | null): Finish["finishReason"]["unified"] {
  switch (reason) {
    case "stop":
    case "length":
    case "error":
      return reason;
    case "content_filter":
      return "content-filter";
    default:
      return "other";
  }
}

function count(value: number | null | undefined): Count {
  return value ?? undefined;
}

function finishOf(unified: Finish["finishReason"]["unified"], raw: string | null, usage: Usage | null): Finish {
  return {
    finishReason: { unified, raw: raw ?? undefined },
    usage: {
      inputTokens: {
        total: count(usage?.inputTokens),
        noCache: usage === null ? undefined : count(uncachedInputTokens(usage)),
        cacheRead: count(usage?.cachedInputTokens),
        cacheWrite: count(usage?.cacheWriteInputTokens),
      },
      outputTokens: { total: count(usage?.outputTokens), text: undefined, reasoning: count(usage?.reasoningTokens) },
    },
  };
}

function warningOf({ path, message }: Warning): ModelWarning {
  return { type: "unsupported", feature: path, details: message };
}

/** Images and files that the model generated, as far as their bytes are in the reply. */
function filesOf({ content }: AssistantMessage): readonly FileContent[] {
  if (typeof content === "string") return [];
  return content.flatMap((part): readonly FileContent[] => {
    if (part.type !== "image" && part.type !== "file") return [];
    const { source, mimeType } = part.type === "image" ? part.image : part;
    if (source.type !== "base64") return [];
    return [{ type: "file", mediaType: mimeType ?? "application/octet-stream", data: source.data }];
  });
}

/** A tool that the AI SDK runs: the turn ends with its calls. `null` for tools of a provider. */
function manualTool(definition: unknown): Tool | null {
  if (textOf(definition, "type") !== "function") return null;
  const name = textOf(definition, "name") ?? "";
  const schema = objectOf(fieldOf(definition, "inputSchema")) ?? { type: "object" };
  return tool({ name, description: textOf(definition, "description") ?? `The tool ${name}.`, schema, manual: true });
}

function toolChoiceOf(choice: unknown): ToolChoice | null {
  const type = textOf(choice, "type");
  if (type === "auto" || type === "none" || type === "required") return type;
  return type === "tool" ? { type, name: textOf(choice, "toolName") ?? "" } : null;
}

function responseFormatOf(format: unknown) {
  if (textOf(format, "type") !== "json") return null;
  const schema = objectOf(fieldOf(format, "schema"));
  if (schema === null) return { type: "json_object" } as const;
  return { type: "json_schema", name: textOf(format, "name") ?? "answer", schema, strict: true } as const;
}

/** The options by provider, without those of this library. */
function optionsOf(options: JsonObject): { [provider: string]: JsonObject } {
  const entries = Object.entries(options).flatMap(([provider, fields]: [string, Json]) => {
    const object = objectOf(fields);
    return object === null || provider === metadataKey ? [] : [[provider, object] as const];
  });
  return Object.fromEntries(entries);
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
