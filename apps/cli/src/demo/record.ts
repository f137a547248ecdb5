// Counts the effects in the journal of a turn.

import type { TurnRecord } from "everturn/runtime";

type Row = TurnRecord["data"]["rows"][number];
type ResponseType = Extract<Row["item"], { readonly type: "response" }>["response"]["type"];

/** What a response is counted as, in the singular and the plural. */
const effectNames: { readonly [Type in ResponseType]: readonly [string, string] } = {
  model_replied: ["model reply", "model replies"],
  model_failed: ["failed model call", "failed model calls"],
  tokens_counted: ["token count", "token counts"],
  count_failed: ["token count", "token counts"],
  compacted: ["summary", "summaries"],
  compaction_failed: ["failed summary", "failed summaries"],
  tool_returned: ["tool result", "tool results"],
  tool_waits: ["tool result", "tool results"],
  code_calls: ["code cell", "code cells"],
  code_finished: ["code cell", "code cells"],
  code_failed: ["code cell", "code cells"],
  environment_synced: ["environment", "environments"],
  environment_failed: ["environment", "environments"],
  checkpoint_delivered: ["checkpoint", "checkpoints"],
};

/** The number of model replies in a journal. */
export function repliesIn(rows: readonly Row[]): number {
  return rows.filter(({ item }) => item.type === "response" && item.response.type === "model_replied").length;
}

/**
 * The journal rows with a lower lease epoch than the last one: another process wrote them, and the last process
 * replayed them.
 */
export function replayedRows({ data: { rows } }: TurnRecord): readonly Row[] {
  const lastEpoch = rows.at(-1)?.epoch ?? 0;
  return rows.filter(({ epoch }) => epoch < lastEpoch);
}

/** The numbers of effects in a journal, as text. */
export function effectsText(rows: readonly Row[]): string {
  const types = rows.flatMap(({ item }) => (item.type === "response" ? [item.response.type] : []));
  const parts = Object.values(effectNames).flatMap(([singular, plural], index, all) => {
    if (all.findIndex(([name]) => name === singular) !== index) return [];
    const count = types.filter((type) => effectNames[type][0] === singular).length;
    return count === 0 ? [] : [counted(count, singular, plural)];
  });
  return parts.length === 0 ? "nothing yet" : parts.join(", ");
}

export function counted(count: number, singular: string, plural: string): string {
  return `${count} ${count === 1 ? singular : plural}`;
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
