// Folds from events to results. An awaited verb is its streaming verb through one of these functions (R2): `step` is
// `collectStep(streamStep(…))`.

import type {
  ChatResult,
  Failure,
  Json,
  ModelReply,
  StepResult,
  Thread,
  TurnEvent,
  WithText,
} from "../model/internal.ts";

import { PartialJson } from "../engine/internal.ts";
import { Collector } from "../kernel/internal.ts";
import {
  EngineError,
  errorFromFailure,
  fromMessages,
  invalidArgument,
  textOfReply,
  withText,
} from "../model/internal.ts";

/** Reads the events of one model call to the end and returns the reply. */
export async function collectReply(events: AsyncIterable<TurnEvent>): Promise<WithText<ModelReply>> {
  const collector = new Collector();
  for await (const event of events) collector.add(event);
  const reply = collector.reply();
  return withText(reply, reply);
}

/** A step in which the model called a tool that does not exist. `result` holds the step. */
export class UnknownToolError extends EngineError {
  override readonly name: string = "UnknownToolError";
  /** The step, with every call of its reply answered. */
  readonly result: StepResult;

  constructor(failure: Failure, result: StepResult) {
    super("unknown_tool", { message: failure.message, metadata: failure.metadata });
    this.result = result;
  }
}

/**
 * Reads the events of one step to the end and returns its result. Throws `UnknownToolError` for a call of a tool
 * that does not exist.
 */
export async function collectStep(
  events: AsyncIterable<TurnEvent>,
  thread: Thread = fromMessages([]),
): Promise<WithText<StepResult>> {
  const collector = new Collector(thread);
  for await (const event of events) collector.add(event);
  const result = collector.stepResult();
  const { error } = result.metadata;
  if (error?.type === "engine_error" && error.reason === "unknown_tool") throw new UnknownToolError(error, result);
  return withText(result, result.response);
}

/** Reads the events of a run to the end and returns its result. */
export async function collectChat(
  events: AsyncIterable<TurnEvent>,
  thread: Thread = fromMessages([]),
): Promise<WithText<ChatResult>> {
  const collector = new Collector(thread);
  for await (const event of events) collector.add(event);
  const result = collector.chatResult();
  return withText(result, result.finalResponse);
}

/**
 * Yields the structured answer while it is being received: after each delta, the value so far. The yielded value is
 * mutated by the next delta, and a new attempt starts over. An optional field that the provider has to write as `null`
 * is absent.
 *
 * @example
 * ```ts
 * import { engine, fake, partialOutput, stream } from "everturn";
 *
 * const script = ['{"sky": "cl', 'ear"}'].map((text) => ({ type: "text", text }) as const);
 * const events = stream(engine({ adapter: fake({ script }) }), "The sky?", { output: { type: "object" } });
 * const seen: unknown[] = [];
 * for await (const value of partialOutput(events)) seen.push(structuredClone(value));
 * seen; // => [{ sky: "cl" }, { sky: "clear" }]
 * ```
 */
export async function* partialOutput(events: AsyncIterable<TurnEvent>): AsyncGenerator<Json> {
  let json = new PartialJson();
  for await (const event of events) {
    if (event.type === "message_started") json = new PartialJson(event.addedNulls);
    if (event.type === "step_reset") json = new PartialJson();
    if (event.type !== "text_delta") continue;
    json.push(event.delta);
    if (json.value !== undefined) yield json.value;
  }
}

/**
 * Returns the text of a result. Throws the error of a failed run, and `MisuseError` for a run that halted without
 * an answer.
 *
 * @example
 * ```ts
 * import { chat, engine, fake, unwrap } from "everturn";
 *
 * const adapter = fake({ script: [{ type: "text", text: "Hello." }] });
 * unwrap(await chat(engine({ adapter }), "Hi!")); // => "Hello."
 * ```
 */
export function unwrap(result: ModelReply | StepResult | ChatResult): string {
  const reply = "finalResponse" in result ? result.finalResponse : "response" in result ? result.response : result;
  const failure =
    reply?.error ?? ("metadata" in result && "error" in result.metadata ? result.metadata["error"] : null);
  if (typeof failure === "object" && failure !== null && isFailure(failure)) throw errorFromFailure(failure);
  const text = textOfReply(reply);
  if (text === "" && "haltedReason" in result && result.haltedReason !== "completed") {
    throw invalidArgument(`unwrap: the run has no answer: it halted as ${result.haltedReason}`);
  }
  return text;
}

function isFailure(value: object): value is Failure {
  return "type" in value && "reason" in value && "message" in value;
}
