// What was paid for, as lines: each once, whatever is replayed.

import type { Usage } from "../../model/internal.ts";
import type { JournalItem } from "../../run/internal.ts";
import type { Key, Put } from "./storage.ts";
import type { JournalRow, LedgerLine } from "./values.ts";

import { addUsage, noUsage } from "../../model/internal.ts";
import { writeValue } from "./stored.ts";

/** What an item cost, as lines of the ledger: each once, whatever is replayed. */
export function ledgerPuts(at: Key, item: JournalItem, ordinal: number): readonly Put[] {
  return ledgerLines(item).map(([name, line]): Put => {
    return { table: "ledger", key: [...at, `${ordinal}/${name}`], tag: 0, value: writeValue("ledger", line) };
  });
}

/** What rows of a journal have cost, on top of that. */
export function usageOfRows(rows: readonly Pick<JournalRow, "item">[], before: Usage): Usage {
  const lines = rows.flatMap(({ item }) => (item.type === "step_restarted" ? [] : ledgerLines(item)));
  return lines.reduce((sum, [, { usage }]) => {
    const total = addUsage(sum, usage);
    return total.ok ? total.value : sum;
  }, before);
}

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

/** Is nothing known to have been spent? A provider may tell some numbers and not others. */
function isNothing({ toolUsage, extra, ...counts }: Usage): boolean {
  const known = [...Object.values(counts), ...Object.values(toolUsage), ...Object.values(extra)];
  return known.every((count) => count === null || count === 0);
}
