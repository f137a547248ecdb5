// The environment of a turn, and suspended code cells.
//
// An environment is pinned when a turn starts: a deploy changes the next turn, never an open one. A suspended cell holds the code, the
// answers to its calls and its environment, so that any process can resume the cell by running it again with the recorded answers (Q5).

import type { ModelName } from "../call/model-ref.ts";
import type { JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { ToolOutcome } from "../tool/tool-outcome.ts";
import type { ProviderTool, ToolCall, ToolSpec } from "../tool/tool.ts";

import { modelNameShape } from "../call/model-ref.ts";
import { emptyObject } from "../parse/json.ts";
import { array, fallback, nullable, number, object, required, settings, string } from "../parse/shape.ts";
import { toolOutcomeShape } from "../tool/tool-outcome.ts";
import { providerToolShape, toolCallShape, toolShape } from "../tool/tool.ts";

/**
 * The configuration of a turn: instructions, model, tools and settings. It is fixed when the turn starts and changes
 * only through a recorded response.
 */
export type Environment = {
  /** The system prompt. */
  readonly instructions: string | null;
  /** The model of the next call. */
  readonly model: ModelName | null;
  /** The tools that the model may call. */
  readonly tools: readonly ToolSpec[];
  /** Tools that the provider runs itself. */
  readonly providerTools: readonly ProviderTool[];
  /** Settings of model calls, under the names of the fields of a request, for example `temperature`. */
  readonly params: JsonObject;
};

/**
 * A code cell that waits for answers to tool calls it made. Running the code again with the recorded answers restores its state
 * (deterministic replay).
 */
export type SuspendedCell = {
  readonly id: string;
  readonly language: string;
  readonly code: string;
  /** The executor that began the cell. Another name or version cannot resume it. */
  readonly executor: { readonly name: string; readonly version: string };
  readonly environment: Environment;
  /** The calls of the cell in call order. `answer` is `null` while a call waits. */
  readonly calls: readonly CellCall[];
  /** How long the runs of the cell have taken, in milliseconds. */
  readonly ranMs: number;
};

/** One call of a suspended cell and its answer. */
export type CellCall = { readonly call: ToolCall; readonly answer: ToolOutcome | null };

export const environmentShape: Shape<Environment> = object<Environment>({
  instructions: fallback(nullable(string), null),
  model: fallback(nullable(modelNameShape), null),
  tools: fallback(array(toolShape), []),
  providerTools: fallback(array(providerToolShape), []),
  params: fallback(settings, emptyObject),
});

export const suspendedCellShape: Shape<SuspendedCell> = object<SuspendedCell>({
  id: required(string),
  language: required(string),
  code: required(string),
  executor: required(object<SuspendedCell["executor"]>({ name: required(string), version: required(string) })),
  environment: required(environmentShape),
  calls: fallback(
    array(object<CellCall>({ call: required(toolCallShape), answer: fallback(nullable(toolOutcomeShape), null) })),
    [],
  ),
  ranMs: fallback(number, 0),
});
