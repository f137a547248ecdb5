// What the model is told about cells of code.

import type { CellCall, SystemMessage, TextPart } from "../../model/internal.ts";
import type { Cell, Phase } from "../machine/turn.ts";

import { system, textPart, toolOutcomeStatus, truncateMiddle } from "../../model/internal.ts";

/** What came of a cell, as history keeps it. */
export function cellNote(parts: readonly TextPart[], id: string): SystemMessage {
  return system(parts, { id, origin: { type: "plugin", pluginId: "code", transient: false } });
}

/** A cell that was not run to its end: why, and which of its calls were made all the same. */
export function cellFailed(why: string, calls: readonly CellCall[]): TextPart {
  const ran = calls.flatMap(({ call, answer }) =>
    answer === null ? [] : [`${call.name}(${argumentsOf(call)}): ${toolOutcomeStatus(answer)}`],
  );
  const text = ran.length === 0 ? why : `${why}\nWhat it had called by then:\n${ran.join("\n")}`;
  return textPart(text, { kind: "error" });
}

/** The same for a cell whose turn was broken off, perhaps while some of its calls were running. */
export function cellBrokenOff(cell: Pick<Cell, "calls">, phase: Pick<Phase, "type">, why: string): readonly TextPart[] {
  const running = phase.type === "awaiting_tools" ? " while calls of it were running" : "";
  return [cellFailed(`The cell was cut short${running}: ${why}.`, cell.calls)];
}

function argumentsOf(call: CellCall["call"]): string {
  return truncateMiddle(JSON.stringify(call.arguments ?? {}), 200);
}
