// The environment of a turn, and suspended code cells.
//
// An environment is pinned when a turn starts: a deploy changes the next turn, never an open one. A suspended cell
// holds the code, the answers to its calls and its environment, so that any process can resume the cell by running it
// again with the recorded answers (Q5).

import type { Infer, Shape } from "../parse/shape.ts";

import { modelNameShape } from "../call/model-ref.ts";
import { emptyObject } from "../parse/json.ts";
import { array, fallback, nullable, number, object, required, settings, string } from "../parse/shape.ts";
import { toolOutcomeShape } from "../tool/tool-outcome.ts";
import { providerToolShape, toolCallShape, toolShape } from "../tool/tool.ts";

const environmentFields = {
  /** The system prompt. */
  instructions: fallback(nullable(string), null),
  /** The model of the next call. */
  model: fallback(nullable(modelNameShape), null),
  /** The tools that the model may call. */
  tools: fallback(array(toolShape), []),
  /** Tools that the provider runs itself. */
  providerTools: fallback(array(providerToolShape), []),
  /** Settings of model calls, under the names of the fields of a request, for example `temperature`. */
  params: fallback(settings, emptyObject),
};

/**
 * The configuration of a turn: instructions, model, tools and settings. It is fixed when the turn starts and changes
 * only through a recorded response.
 */
export type Environment = Infer<typeof environmentFields>;

export const environmentShape: Shape<Environment> = object(environmentFields);

const cellCallFields = { call: required(toolCallShape), answer: fallback(nullable(toolOutcomeShape), null) };

/** One call of a suspended cell and its answer. */
export type CellCall = Infer<typeof cellCallFields>;

const cellCallShape: Shape<CellCall> = object(cellCallFields);

/** The name and the version of the executor of a cell. */
export const executorShape: Shape<{ readonly name: string; readonly version: string }> = object({
  name: required(string),
  version: required(string),
});

const suspendedCellFields = {
  id: required(string),
  language: required(string),
  code: required(string),
  /** The executor that began the cell. Another name or version cannot resume it. */
  executor: required(executorShape),
  environment: required(environmentShape),
  /** The calls of the cell in call order. `answer` is `null` while a call waits. */
  calls: fallback(array(cellCallShape), []),
  /** How long the runs of the cell have taken, in milliseconds. */
  ranMs: fallback(number, 0),
};

/**
 * A code cell that waits for answers to tool calls it made. Running the code again with the recorded answers restores
 * its state (deterministic replay).
 */
export type SuspendedCell = Infer<typeof suspendedCellFields>;

export const suspendedCellShape: Shape<SuspendedCell> = object(suspendedCellFields);
