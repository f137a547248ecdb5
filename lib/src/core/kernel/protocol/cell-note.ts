// The messages and texts about code cells that the model reads.

import type { CellCall, SystemMessage, TextPart } from "../../model/internal.ts";
import type { Cell, Phase } from "../machine/turn.ts";

import { system, textPart, toolOutcomeStatus, truncateMiddle } from "../../model/internal.ts";

/** The result of a cell as a system message of the history. The origin marks it as written by the runtime. */
export function cellNote(parts: readonly TextPart[], id: string): SystemMessage {
  return system(parts, { id, origin: { type: "plugin", pluginId: "code", transient: false } });
}

/**
 * The text for a cell that did not run to its end: why, and the calls that it had completed. The calls are listed
 * because their side effects happened, so a model that writes the cell again must not repeat them blindly (Q5).
 */
export function cellFailed(why: string, calls: readonly CellCall[]): TextPart {
  const completedCalls = calls.flatMap(({ call, answer }) =>
    answer === null ? [] : [`${call.name}(${argumentsOf(call)}): ${toolOutcomeStatus(answer)}`],
  );
  const text = completedCalls.length === 0 ? why : `${why}\nCalls it had completed:\n${completedCalls.join("\n")}`;
  return textPart(text, { kind: "error" });
}

/** The text for a cell whose turn was cancelled or failed, possibly while calls of the cell were running. */
export function cellBrokenOff(cell: Pick<Cell, "calls">, phase: Pick<Phase, "type">, why: string): readonly TextPart[] {
  const running = phase.type === "awaiting_tools" ? " while calls of it were running" : "";
  return [cellFailed(`The cell was stopped${running}: ${why}.`, cell.calls)];
}

/** The arguments of a call as JSON, cut in the middle to 200 characters. */
function argumentsOf(call: CellCall["call"]): string {
  return truncateMiddle(JSON.stringify(call.arguments ?? {}), 200);
}
