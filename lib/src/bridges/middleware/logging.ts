// Writes a log line for every model call and tool call, to a logger with the interface of pino. Contents of messages
// are not logged unless `content` is set.

import type { Middleware, ModelCall, ToolInvocation, Rules } from "../../core/engine/internal.ts";
import type { Failure, JsonObject, ModelReply } from "../../core/model/internal.ts";

import { redacted, anything, checkOptions } from "../../core/engine/internal.ts";
import { Collector } from "../../core/kernel/internal.ts";
import { toCause } from "../../core/model/internal.ts";
import { modelOf } from "./call-model.ts";

/** What {@link logging} writes to: a pino logger, or any object with these methods, such as `console`. */
export type Logger = {
  readonly [Level in "debug" | "info" | "warn"]: (fields: object, message: string) => void;
};

/** Options of {@link logging}. */
type LoggingOptions = {
  /** Receives the lines. What it throws is ignored. */
  readonly logger: Logger;
  /**
   * `true` adds messages, replies, arguments and results to the lines. They may contain personal data. Default: false.
   */
  readonly content?: boolean;
  /** The name of the middleware. Default: `logging`. */
  readonly name?: string;
};

const levels = ["debug", "info", "warn"] as const;

const optionRules: Rules<LoggingOptions> = {
  logger: {
    must: "a logger with the methods debug, info and warn",
    fits: (value) => levels.every((level) => typeof Object(value)[level] === "function"),
    required: true,
  },
  content: anything,
  name: anything,
};

type Level = keyof Logger;

/**
 * Logs the start (`debug`) and the end (`info`, or `warn` after a failure) of every attempt at a model call and at a
 * tool, with duration, usage and finish reason. A replay does not log again. Place it first to log what the turn
 * receives, or last to log what the provider receives. Throws `MisuseError` for invalid options.
 *
 * @example
 * ```ts
 * import { chat, engine, fake } from "everturn";
 * import { logging } from "everturn/middleware";
 *
 * const lines: string[] = [];
 * const write = (_fields: object, message: string) => lines.push(message);
 * const logger = { debug: () => {}, info: write, warn: write };
 * const adapter = fake({ script: [{ type: "text", text: "Hello." }] });
 * await chat(engine({ adapter, model: "fake:m", middleware: [logging({ logger })] }), "Hi!");
 * lines; // => ["model call completed"]
 * ```
 */
export function logging(options: LoggingOptions): Middleware {
  checkOptions("logging", options, optionRules);
  const { logger, content = false, name = "logging" } = options;
  const write = (level: Level, fields: object, message: string): void => {
    try {
      logger[level](fields, message);
    } catch {
      // A logger must not fail a turn.
    }
  };
  return {
    name,
    async *model(call, next) {
      const { clock } = call;
      const fields = { ...common(call), provider: call.provider, model: modelOf(call) };
      const sent = content ? { messages: call.request.messages } : {};
      write("debug", { ...fields, messageCount: call.request.messages.length, ...sent }, "model call started");
      const startedAt = clock.now();
      const collector = new Collector();
      let end: "completed" | "failed" | "aborted" = "aborted";
      let thrown: unknown = null;
      try {
        for await (const batch of next(call.request)) {
          for (const event of batch) collector.add(event);
          yield batch;
        }
        end = collector.reply().error === null ? "completed" : "failed";
      } catch (error) {
        end = call.signal.aborted ? "aborted" : "failed";
        thrown = error;
        throw error;
      } finally {
        const reply = collector.reply();
        const failure = thrown === null ? reply.error : thrown;
        const line = {
          ...fields,
          durationMs: clock.now() - startedAt,
          ...replyFields(reply),
          ...(end === "failed" ? { err: errorFields(failure) } : {}),
          ...(content ? { text: reply.outputText, toolCalls: reply.toolCalls } : {}),
        };
        write(end === "failed" ? "warn" : "info", line, `model call ${end}`);
      }
    },
    tool: async (call, next) => {
      const { clock, tool, toolCall } = call;
      const fields = { ...common(call), tool: tool.name, toolCallId: toolCall.id };
      write("debug", { ...fields, ...(content ? { arguments: call.arguments } : {}) }, "tool call started");
      const startedAt = clock.now();
      const duration = () => ({ durationMs: clock.now() - startedAt });
      try {
        const outcome = await next(call.arguments);
        const isFailure = outcome.type === "failure";
        const line = {
          ...fields,
          ...duration(),
          outcome: outcome.type,
          ...(isFailure ? { err: errorFields(outcome.failure) } : {}),
          ...(content && outcome.type === "success" ? { value: outcome.value } : {}),
        };
        write(isFailure ? "warn" : "info", line, `tool call ${isFailure ? "failed" : "completed"}`);
        return outcome;
      } catch (error) {
        write("info", { ...fields, ...duration(), err: errorFields(error) }, "tool call aborted");
        throw error;
      }
    },
  };
}

function common({ requestId, sessionId, effectId, attempt }: ModelCall | ToolInvocation): JsonObject {
  return { requestId, sessionId, effectId, attempt };
}

function replyFields({ finishReason, usage, toolCalls, metadata }: ModelReply): JsonObject {
  const { inputTokens, cachedInputTokens, outputTokens, totalCost } = usage;
  const cached = metadata["responseCache"] === undefined ? {} : { responseCache: metadata["responseCache"] };
  return {
    finishReason,
    toolCallCount: toolCalls.length,
    usage: { inputTokens, cachedInputTokens, outputTokens, totalCost },
    ...cached,
  };
}

/** The fields of a failure or of an exception, without the response body of the provider and without a stack. */
function errorFields(error: unknown): JsonObject {
  const failure = thrownFailure(error);
  if (failure === null) {
    const cause = toCause(error);
    return { type: cause?.name ?? "Error", message: redacted(cause?.message ?? "an error was thrown", "log") };
  }
  const status = "status" in failure ? { status: failure.status, retryable: failure.retryable } : {};
  return { type: failure.type, reason: failure.reason, message: redacted(failure.message, "log"), ...status };
}

/** A failure, or the failure of an Everturn error. */
function thrownFailure(error: unknown): Failure | null {
  if (typeof error !== "object" || error === null) return null;
  if (isFailure(error)) return error;
  const inner: unknown = Reflect.get(error, "failure");
  return typeof inner === "object" && inner !== null && isFailure(inner) ? inner : null;
}

function isFailure(value: object): value is Failure {
  return "type" in value && "reason" in value && "message" in value && !(value instanceof Error);
}
