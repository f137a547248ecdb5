// Counts the effects in the journal of a turn.

import type { TurnRecord } from "everturn/runtime";

/** Numbers of effects by kind. */
export type Effects = {
  readonly replies: number;
  /** Failed model calls. */
  readonly failures: number;
  readonly tools: number;
  readonly code: number;
  readonly environments: number;
  readonly checkpoints: number;
};

type Row = TurnRecord["data"]["rows"][number];

export function effectsIn(rows: readonly Row[]): Effects {
  let [replies, failures, tools, code, environments, checkpoints] = [0, 0, 0, 0, 0, 0];
  for (const { item } of rows) {
    if (item.type !== "response") continue;
    switch (item.response.type) {
      case "model_replied":
        replies += 1;
        break;
      case "model_failed":
        failures += 1;
        break;
      case "tool_returned":
      case "tool_waits":
        tools += 1;
        break;
      case "environment_synced":
      case "environment_failed":
        environments += 1;
        break;
      case "checkpoint_delivered":
        checkpoints += 1;
        break;
      case "code_calls":
      case "code_finished":
      case "code_failed":
        code += 1;
        break;
    }
  }
  return { replies, failures, tools, code, environments, checkpoints };
}

/** The journal rows with a lower lease epoch than the last one: another process wrote them, and the last process replayed them. */
export function replayedRows({ data: { rows } }: TurnRecord): readonly Row[] {
  const lastEpoch = rows.at(-1)?.epoch ?? 0;
  return rows.filter(({ epoch }) => epoch < lastEpoch);
}

export function renderEffects(effects: Effects): string {
  const { replies, failures, tools, code, environments, checkpoints } = effects;
  const parts = [
    ...(replies === 0 ? [] : [counted(replies, "model reply", "model replies")]),
    ...(failures === 0 ? [] : [counted(failures, "failed model call", "failed model calls")]),
    ...(tools === 0 ? [] : [counted(tools, "tool result", "tool results")]),
    ...(code === 0 ? [] : [counted(code, "code cell", "code cells")]),
    ...(environments === 0 ? [] : [counted(environments, "environment", "environments")]),
    ...(checkpoints === 0 ? [] : [counted(checkpoints, "checkpoint", "checkpoints")]),
  ];
  return parts.length === 0 ? "nothing yet" : parts.join(", ");
}

export function counted(count: number, singular: string, plural: string): string {
  return `${count} ${count === 1 ? singular : plural}`;
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
