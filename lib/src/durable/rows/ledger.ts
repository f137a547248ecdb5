// The ledger: one line for each cost of a turn. Lines are keyed by turn, journal ordinal and kind and are written with
// their journal row, so a replay writes no line and a repeated write writes the same one. `usage` sums them.

import type { Usage } from "../../core/model/internal.ts";
import type { JournalItem } from "../../core/run/internal.ts";
import type { Key, Put } from "./storage.ts";
import type { JournalRow, LedgerLine } from "./values.ts";

import { exactSum, noUsage } from "../../core/model/internal.ts";
import { writeValue } from "./stored.ts";

/** The ledger rows of a journal item. `turn` is the key of the turn. */
export function ledgerPuts(turn: Key, item: JournalItem, ordinal: number): readonly Put[] {
  return ledgerLines(item).map(([name, line]): Put => {
    return { table: "ledger", key: [...turn, `${ordinal}/${name}`], tag: 0, value: writeValue("ledger", line) };
  });
}

/** Adds the costs of all given journal rows to `before`. */
export function usageOfRows(rows: readonly Pick<JournalRow, "item">[], before: Usage): Usage {
  const lines = rows.flatMap(({ item }) => (item.type === "step_restarted" ? [] : ledgerLines(item)));
  return lines.reduce((sum, [, { usage }]) => exactSum(sum, usage) ?? sum, before);
}

/**
 * The costs of an item: the reply that settled a model call, its earlier attempts, a tool's own spending, or what a
 * cancel interrupted.
 */
function ledgerLines(item: JournalItem): readonly (readonly [string, LedgerLine])[] {
  if (item.type === "failure") return [];
  if (item.type === "cancel") return line("cancelled", "cancelled", null, item.cancellation.usage);
  const { response } = item;
  if (response.type === "model_replied") {
    const { model, usage } = response.reply;
    return [...line("reply", "model", model, usage), ...line("attempts", "model", null, response.spent)];
  }
  if (response.type === "model_failed") {
    const { partial } = response.error;
    return [
      ...line("reply", "model", partial?.model ?? null, partial?.usage ?? noUsage),
      ...line("attempts", "model", null, response.spent),
    ];
  }
  if (response.type === "compacted" || response.type === "compaction_failed") {
    const model = response.type === "compacted" ? response.model : null;
    return [...line("reply", "summary", model, response.usage), ...line("attempts", "summary", null, response.spent)];
  }
  return "spent" in response ? line("tool", "tool", null, response.spent) : [];
}

function line(
  name: string,
  source: LedgerLine["source"],
  model: string | null,
  usage: Usage,
): readonly (readonly [string, LedgerLine])[] {
  return isNothing(usage) ? [] : [[name, { source, model, usage }]];
}

/** Returns whether all counts are zero or unknown. Providers report some counts and omit others. */
function isNothing({ toolUsage, extra, ...counts }: Usage): boolean {
  const values = [...Object.values(counts), ...Object.values(toolUsage), ...Object.values(extra)];
  return values.every((count) => count === null || count === 0);
}
