// Guardrails: functions of the program that check what goes to a model or a tool and what comes back, and block it.
//
// A blocked model call is a reply with the finish reason `content_filter`, so the turn ends as `filtered` and tools
// that the reply called do not run. A blocked tool call fails with the reason `denied`, which the model reads.
//
// A reply is held back until the guards behind it have passed it: nothing of a blocked reply reaches readers. With
// guards after the reply, a streamed reply therefore arrives at once, when it is complete. Its tokens are paid for,
// also if it is blocked.
//
// The verdict of guards before a call is recorded (`once`), so a process that takes over does not ask them again. The
// record is for one request: a middleware outside that calls `next` again with another request gets another verdict.
// Guards fail closed: one that throws fails the call.

import type { Middleware, ModelCall, ToolInvocation, Rules } from "../../core/engine/internal.ts";
import type { Json, ModelEvent, ModelReply, ModelRequest, ToolOutcome } from "../../core/model/internal.ts";

import { anything, checkOptions, finiteAmount, listOfFunctions, oneOf } from "../../core/engine/internal.ts";
import {
  AdapterError,
  assistant,
  canonicalJson,
  invalidArgument,
  messageText,
  modelReply,
  replyText,
  toolFailure,
  user,
} from "../../core/model/internal.ts";
import { sha256 } from "../../durable/rows/internal.ts";
import { plainJson } from "./call-model.ts";
import { readReply, replyEvents } from "./reply-events.ts";

/** The verdict of a guard: `null` or `undefined` passes, a text blocks and is the reason. */
export type GuardVerdict = string | null | undefined;

/** Checks a request before it is sent. `text` is the text of the newest user message; empty if there is none. */
type RequestGuard = (request: ModelRequest, text: string, call: ModelCall) => GuardVerdict | Promise<GuardVerdict>;

/** Checks a complete reply before the turn receives it. `text` is its text. */
type ReplyGuard = (reply: ModelReply, text: string, call: ModelCall) => GuardVerdict | Promise<GuardVerdict>;

/** Checks a tool call before its handler runs. */
type ToolCallGuard = (call: ToolInvocation) => GuardVerdict | Promise<GuardVerdict>;

/** Checks the outcome of a tool call before the model sees it. */
type ToolOutcomeGuard = (outcome: ToolOutcome, call: ToolInvocation) => GuardVerdict | Promise<GuardVerdict>;

/**
 * Options of {@link guardrails}. All guards of a list are asked at once; the first one in the list that blocks counts.
 */
type GuardrailOptions = {
  /** Asked before a model call. */
  readonly before?: readonly RequestGuard[];
  /** Asked after a model call. They hold back the stream of the reply. */
  readonly after?: readonly ReplyGuard[];
  /** Asked before a tool call. */
  readonly beforeTool?: readonly ToolCallGuard[];
  /** Asked after a tool call. The tool has run. */
  readonly afterTool?: readonly ToolOutcomeGuard[];
  /** The text of a blocked reply, which stays in the conversation. Default: `This request was blocked.` */
  readonly message?: string;
  /**
   * `reply`: a blocked model call is a reply with `message`. `error`: it fails with the reason `content_filter`.
   * Default: `reply`.
   */
  readonly onBlock?: "reply" | "error";
  /**
   * How many times the model is asked again, with the reason, after a guard in `after` has blocked its reply.
   * Default: 0.
   */
  readonly retries?: number;
  /** The name of the middleware. Default: `guardrails`. */
  readonly name?: string;
};

const optionRules: Rules<GuardrailOptions> = {
  before: listOfFunctions,
  after: listOfFunctions,
  beforeTool: listOfFunctions,
  afterTool: listOfFunctions,
  message: anything,
  onBlock: oneOf(["reply", "error"]),
  retries: finiteAmount,
  name: anything,
};

/**
 * Checks model calls and tool calls with functions of the program, before and after. Throws `MisuseError` for invalid
 * options.
 *
 * @example
 * ```ts
 * import { chat, engine, fake } from "everturn";
 * import { guardrails } from "everturn/middleware";
 *
 * const guards = guardrails({ before: [(_request, text) => (text.includes("password") ? "asks for a password" : null)] });
 * const result = await chat(engine({ adapter: fake(), model: "fake:m", middleware: [guards] }), "Tell me the password.");
 * result.outcome.type; // => "filtered"
 * result.finalResponse?.outputText; // => "This request was blocked."
 * ```
 */
export function guardrails(options: GuardrailOptions): Middleware {
  checkOptions("guardrails", options, optionRules);
  const { before = [], after = [], beforeTool = [], afterTool = [], name = "guardrails" } = options;
  const { message = "This request was blocked.", onBlock = "reply", retries = 0 } = options;
  function blocked(call: ModelCall, stage: "before" | "after", reason: string): readonly ModelEvent[] {
    call.note("blocked", { stage, reason });
    if (onBlock === "error") {
      const failure = {
        provider: call.provider,
        message: `${name}: ${reason}`,
        metadata: { guardrail: { stage, reason } },
      };
      throw new AdapterError("content_filter", failure);
    }
    return replyEvents(
      modelReply({
        message: assistant(message, { finishReason: "content_filter" }),
        outputText: message,
        finishReason: "content_filter",
        metadata: { guardrail: { stage, reason } },
      }),
    );
  }

  const model: Middleware["model"] = async function* (call, next) {
    if (before.length > 0) {
      const text = newestUserText(call.request);
      const reason = await call.once(await verdictKey("before", call.request), () =>
        firstBlock(before.map((guard) => guard(call.request, text, call))),
      );
      if (typeof reason === "string") return yield blocked(call, "before", reason);
    }
    if (after.length === 0) return yield* next(call.request);
    let request = call.request;
    for (let retry = 0; ; retry += 1) {
      const reply = await readReply(next(request));
      if (reply.error !== null) return yield replyEvents(reply);
      const text = replyText(reply) ?? "";
      const reason = await firstBlock(after.map((guard) => guard(reply, text, call)));
      if (typeof reason !== "string") return yield replyEvents(reply);
      if (retry >= retries) return yield blocked(call, "after", reason);
      call.note("asked_again", { reason });
      const answer = text === "" ? [] : [assistant(text)];
      const prompt = `The answer was not accepted: ${reason}. Answer again.`;
      request = { ...call.request, messages: [...call.request.messages, ...answer, user(prompt)] };
    }
  };

  const tool: Middleware["tool"] = async (call, next) => {
    const denied = (stage: "before" | "after", reason: string): ToolOutcome => {
      call.note("blocked", { stage, reason });
      return { type: "failure", failure: toolFailure("denied", { message: reason, source: "policy" }) };
    };
    if (beforeTool.length > 0) {
      const reason = await call.once(await verdictKey("before_tool", call.arguments), () =>
        firstBlock(beforeTool.map((guard) => guard(call))),
      );
      if (typeof reason === "string") return denied("before", reason);
    }
    const outcome = await next(call.arguments);
    const reason = await firstBlock(afterTool.map((guard) => guard(outcome, call)));
    return typeof reason === "string" ? denied("after", reason) : outcome;
  };
  return {
    name,
    ...(before.length + after.length === 0 ? {} : { model }),
    ...(beforeTool.length + afterTool.length === 0 ? {} : { tool }),
  };
}

/** The name of the record of a verdict about this value. */
async function verdictKey(stage: string, value: object): Promise<string> {
  return `${stage}/${await sha256(canonicalJson(plainJson(value)))}`;
}

/**
 * The reason of the first verdict that blocks; `null`: none does. Rejects if a guard throws, or returns anything but a
 * verdict.
 */
async function firstBlock(verdicts: readonly (GuardVerdict | Promise<GuardVerdict>)[]): Promise<Json> {
  const reasons: readonly unknown[] = await Promise.all(verdicts);
  const wrong = reasons.find((reason) => reason !== null && reason !== undefined && typeof reason !== "string");
  if (wrong !== undefined) {
    throw invalidArgument("guardrails: a guard has to return a text, null or undefined");
  }
  return reasons.find((reason) => typeof reason === "string") ?? null;
}

function newestUserText({ messages }: ModelRequest): string {
  const newest = messages.findLast(({ role }) => role === "user");
  return newest === undefined ? "" : (messageText(newest) ?? "");
}
