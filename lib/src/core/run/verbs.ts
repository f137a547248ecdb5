// The verbs `generate`, `step`, `chat` and their streaming variants.
//
// An awaited verb runs its streaming variant and collects the events (R2). The three verbs run the same turn machine
// and differ in where the turn stops: after one reply, after one step (a reply and its tools), or at the end of the
// turn.

import type {
  AnySchema,
  ChatOptions,
  ChatSettings,
  Engine,
  GenerateOptions,
  GenerateSettings,
  OpenSpan,
  OutputSchema,
  StepOptions,
  StepSettings,
} from "../engine/internal.ts";
import type {
  CallerContext,
  ChatResult,
  Json,
  ModelReply,
  ModelRequest,
  StepResult,
  WithText,
} from "../model/internal.ts";
import type { PlanChild } from "./perform/perform.ts";
import type { Plan, RunInput } from "./plan/plan.ts";
import type { Finished } from "./run.ts";

import { checkValue } from "../engine/internal.ts";
import { textOfReply, withText } from "../model/internal.ts";
import { collectChat, collectReply, collectStep } from "./folds.ts";
import { planRun } from "./plan/plan.ts";
import { memoryPorts } from "./ports/memory-ports.ts";
import { noOrigin } from "./run-spans.ts";
import { startRun } from "./run.ts";
import { TurnStream } from "./turn-stream.ts";

// Event filters of the caller do not apply to an awaited verb: its result is collected from all events (R3).
const allEvents = { emitTextDeltas: true, emitToolDeltas: true } as const;

/** A result with its text and the structured output, typed by its schema; `null`: there is none. */
export type WithOutput<Result, Output> = WithText<Result> & { readonly output: Output | null };

/** A complete request, or the input of a run. */
type GenerateInput = RunInput | ModelRequest;

/** Makes one model call and streams its events. */
export function streamGenerate<Context extends CallerContext>(
  engine: Engine<Context>,
  input: GenerateInput,
  options: GenerateOptions = {},
): TurnStream<WithText<ModelReply>> {
  const request = isRequest(input) ? input : undefined;
  const runInput = isRequest(input) ? input.messages : input;
  const plan = planRun(engine, runInput, options, { verb: "generate", ...(request === undefined ? {} : { request }) });
  return streamOf(plan, ({ reply }) => withText(reply, reply), textOf);
}

/**
 * Makes one model call. A failure during the call is in `error` of the reply; misuse and missing configuration are
 * thrown.
 */
export function generate<Context extends CallerContext, Output = Json>(
  engine: Engine<Context>,
  input: GenerateInput,
  options: GenerateSettings & { readonly output: OutputSchema<Output> },
): Promise<WithOutput<ModelReply, Output>>;
export function generate<Context extends CallerContext>(
  engine: Engine<Context>,
  input: GenerateInput,
  options?: GenerateOptions,
): Promise<WithText<ModelReply>>;
export async function generate<Context extends CallerContext>(
  engine: Engine<Context>,
  input: GenerateInput,
  options: GenerateOptions = {},
): Promise<WithText<ModelReply>> {
  const reply = await collectReply(streamGenerate(engine, input, { ...options, ...allEvents }));
  return withOutput(reply, reply, options.output ?? engine.options.output);
}

/** Runs one step, a model reply and its tool calls, and streams its events. */
export function streamStep<Context extends CallerContext>(
  engine: Engine<Context>,
  input: RunInput,
  options: StepOptions<Context> = {},
): TurnStream<WithText<StepResult>> {
  return streamStepPlan(planRun(engine, input, options, { verb: "step" })).map(({ step: result }) =>
    withText(result, result.response),
  );
}

/**
 * Runs one step: a model reply and its tool calls. Throws `UnknownToolError` for a call of a tool that does not
 * exist, unless `onUnknownTool` is `"answer"`.
 */
export function step<Context extends CallerContext, Output = Json>(
  engine: Engine<Context>,
  input: RunInput,
  options: StepSettings<Context> & { readonly output: OutputSchema<Output> },
): Promise<WithOutput<StepResult, Output>>;
export function step<Context extends CallerContext>(
  engine: Engine<Context>,
  input: RunInput,
  options?: StepOptions<Context>,
): Promise<WithText<StepResult>>;
export async function step<Context extends CallerContext>(
  engine: Engine<Context>,
  input: RunInput,
  options: StepOptions<Context> = {},
): Promise<WithText<StepResult>> {
  const result = await collectStep(streamStep(engine, input, options));
  return withOutput(result, result.response, options.output ?? engine.options.output);
}

/** Runs steps until the run ends and streams its events. */
export function stream<Context extends CallerContext>(
  engine: Engine<Context>,
  input: RunInput,
  options: ChatOptions<Context> = {},
): TurnStream<WithText<ChatResult>> {
  return streamPlan(planRun(engine, input, options, { verb: "chat" }));
}

/**
 * Runs steps until the run ends: with an answer, a question to the user, or a limit. Failures during the run are
 * in the result; misuse and missing configuration are thrown.
 *
 * @example
 * ```ts
 * import { chat, engine, fake, tool } from "everturn";
 *
 * const echo = tool({ name: "echo", description: "Says it back.", schema: { type: "object" }, handler: (said) => said });
 * const scripts = [
 *   [{ type: "tool_call", name: "echo", arguments: { x: 1 } } as const],
 *   [{ type: "text", text: "done" } as const],
 * ];
 * const result = await chat(engine({ adapter: fake({ scripts }), tools: [echo] }), "echo please");
 * result.haltedReason; // => "completed"
 * result.steps.length; // => 2
 * ```
 */
export function chat<Context extends CallerContext, Output = Json>(
  engine: Engine<Context>,
  input: RunInput,
  options: ChatSettings<Context> & { readonly output: OutputSchema<Output> },
): Promise<WithOutput<ChatResult, Output>>;
export function chat<Context extends CallerContext>(
  engine: Engine<Context>,
  input: RunInput,
  options?: ChatOptions<Context>,
): Promise<WithText<ChatResult>>;
export async function chat<Context extends CallerContext>(
  engine: Engine<Context>,
  input: RunInput,
  options: ChatOptions<Context> = {},
): Promise<WithText<ChatResult>> {
  const result = await collectChat(stream(engine, input, options));
  return withOutput(result, result.finalResponse, options.output ?? engine.options.output);
}

/** The stream of a planned run. `tenant`: that of the caller whose request the run answers. */
export function streamPlan<Context extends CallerContext>(
  plan: Plan<Context>,
  tenant: string | null = null,
): TurnStream<WithText<ChatResult>> {
  return streamOf(plan, chatOf, textOf, { parent: null, tenant });
}

/** The stream of a planned single step, with the results of its turn. */
export function streamStepPlan<Context extends CallerContext>(plan: Plan<Context>): TurnStream<Finished> {
  return streamOf(
    plan,
    (finished) => finished,
    ({ step: { response } }) => textOfReply(response),
  );
}

const noParent = { parent: null, tenant: null };

function streamOf<Context extends CallerContext, Result>(
  plan: Plan<Context>,
  take: (finished: Finished) => Result,
  textOf: (result: Result) => string,
  { parent, tenant }: { readonly parent: OpenSpan | null; readonly tenant: string | null } = noParent,
): TurnStream<Result> {
  return new TurnStream(
    (outlet) => {
      const ports = memoryPorts(plan, outlet, tenant);
      const { result, stop } = startRun(plan, ports, planChildren(plan, tenant), { ...noOrigin, parent });
      return { result: result.then(take), stop };
    },
    textOf,
    plan.wanted,
  );
}

/**
 * `context.runChild` in memory: an inner turn is an ordinary run with the signal of its call. It is not durable and
 * cannot wait.
 */
function planChildren<Context extends CallerContext>(plan: Plan<Context>, tenant: string | null): PlanChild {
  return (_, __, signal, addUsage, ___, span) =>
    async (engine, input, options = {}) => {
      const childOptions = {
        sessionId: plan.sessionId ?? plan.requestId,
        ...options,
        signal: options.signal === undefined ? signal : AbortSignal.any([signal, options.signal]),
      };
      const child = planRun(engine, input, childOptions, { verb: "chat" });
      const from = { parent: span(), tenant };
      const result = await collectChat(streamOf(child, chatOf, textOf, from));
      addUsage(result.usage);
      return childResult(result, options.output);
    };
}

function chatOf({ chat: result }: Finished): WithText<ChatResult> {
  return withText(result, result.finalResponse);
}

function textOf({ text }: { readonly text: string }): string {
  return text;
}

/**
 * The result of an inner turn with its structured output: converted by the schema of the call, otherwise as JSON;
 * `null`: it has none.
 */
export function childResult<Output>(
  result: ChatResult,
  schema: OutputSchema<Output> | undefined,
): Promise<WithOutput<ChatResult, Output>>;
export async function childResult(
  result: ChatResult,
  schema: AnySchema | undefined,
): Promise<WithOutput<ChatResult, unknown>> {
  const { finalResponse } = result;
  const output = finalResponse?.output?.value ?? null;
  return { output, ...(await withOutput(withText(result, finalResponse), finalResponse, schema)) };
}

/**
 * Adds `output`: the value parsed by the schema of the caller once more, because a schema may transform it into more
 * than JSON (dates, classes).
 */
export async function withOutput<Result extends object>(
  result: Result,
  reply: ModelReply | null,
  schema: AnySchema | undefined,
): Promise<Result> {
  if (schema === undefined) return result;
  const value = reply?.output ?? null;
  const checked = value === null ? null : await checkValue(schema, value.value);
  return { ...result, output: checked?.ok === true ? checked.value : null };
}

function isRequest(input: GenerateInput): input is ModelRequest {
  return typeof input === "object" && !Array.isArray(input) && "toolChoice" in input;
}
