// What a turn works with, pinned when it starts: a deploy changes the next turn and never an open one. And what is left of a
// cell of code that has to wait: enough to run it again, elsewhere, in the surroundings it was written for.

import type { ModelName } from "../call/model-ref.ts";
import type { JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { ToolOutcome } from "../tool/tool-outcome.ts";
import type { ProviderTool, ToolCall, ToolSpec } from "../tool/tool.ts";

import { modelNameShape } from "../call/model-ref.ts";
import { emptyObject } from "../parse/json.ts";
import { array, fallback, nullable, object, required, settings, string } from "../parse/shape.ts";
import { toolOutcomeShape } from "../tool/tool-outcome.ts";
import { providerToolShape, toolCallShape, toolShape } from "../tool/tool.ts";

/**
 * What a turn works with: instructions, model, tools and settings. It is fixed when the turn starts and changes
 * only through a recorded response.
 */
export type Environment = {
  readonly instructions: string | null;
  readonly model: ModelName | null;
  readonly tools: readonly ToolSpec[];
  readonly providerTools: readonly ProviderTool[];
  /** Settings of model calls, by the names a request has for them. */
  readonly params: JsonObject;
};

/** A cell that waits for answers to calls it made. Running it again with the recorded answers brings it back to where it was. */
export type SuspendedCell = {
  readonly id: string;
  readonly language: string;
  readonly code: string;
  /** Which executor, in which version, the cell was begun with. */
  readonly executor: { readonly name: string; readonly version: string };
  readonly environment: Environment;
  /** The calls of the cell in the order it made them, with the answers there are. */
  readonly calls: readonly CellCall[];
};

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
});
