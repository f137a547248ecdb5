// "What happens if it crashes here?": one sentence about a row of the journal, or about an effect that is being
// performed, derived from the rules of recovery:
//
//   recorded effects are never performed again (H1); nothing is announced before it is committed (H2)
//   a tool without a start mark has not started, and runs (Q3)
//   a tool with a start mark and without a result is answered by its replay policy (H4):
//     safe   runs again with the same idempotency key
//     never  does not run again: the model reads that the outcome is unknown
//     ask    does not run again: a person decides
//   attempts of a model call are recorded, so what was billed is counted (Q2)

import type { TimelineEffect } from "everturn/advanced";

/** What the sentence depends on. */
export type CrashCase = {
  readonly kind: TimelineEffect["kind"];
  /** `open`: the effect is being performed, and has no row yet. */
  readonly state: TimelineEffect["state"] | "open";
  /** The row of the journal; `null` while the effect is open. */
  readonly ordinal: number | null;
  /** The name of the tool. */
  readonly name: string | null;
  /** What recovery does with a call of the tool that has started: `safe`, `never` or `ask`; `null`: not known. */
  readonly rerun: string | null;
  /** Whether the storage survives the process. */
  readonly durability: "durable" | "volatile";
  /** Whether the turn has ended. */
  readonly hasEnded: boolean;
};

/** What happens to the turn if the process dies now, with this effect as its newest. */
export function crashSentence(crash: CrashCase): string {
  if (crash.durability === "volatile") {
    return "The storage is in memory: if the process dies, the turn and its journal are lost.";
  }
  if (crash.state === "open" || crash.ordinal === null) return openSentence(crash);
  const row = `row ${crash.ordinal}`;
  if (crash.state === "superseded") {
    return `The step was restarted after ${row}, so recovery skips this row and replays the rows of the restarted step.`;
  }
  if (crash.state === "waits") {
    return `The wait is recorded in ${row} and needs no process: any process continues when ${waitsFor(crash)}, and nothing before it runs again.`;
  }
  const again = crash.hasEnded ? "The turn has ended, so no process has to continue it." : "";
  return [recordedSentence(crash, row), again].filter((text) => text !== "").join(" ");
}

function waitsFor({ name }: CrashCase): string {
  return name === null ? "the answer arrives" : `the answer for ${name} arrives`;
}

function recordedSentence({ kind, state, name, hasEnded }: CrashCase, row: string): string {
  const tool = name ?? "the tool";
  const goesOn = hasEnded ? "" : " and goes on after it";
  switch (kind) {
    case "model":
      return state === "failed"
        ? `The failed call is recorded in ${row}: another process reads the failure from there and does not send the request again.`
        : `The reply is recorded: another process replays ${row}${goesOn}, and nothing is sent to the model twice.`;
    case "count":
      return `The count is recorded: another process replays ${row}${goesOn}, and the tokens are not counted twice.`;
    case "compaction":
      return `The summary of old messages is recorded: another process replays ${row}${goesOn}, and no second one is requested.`;
    case "tool":
      if (state === "denied") {
        return `The denial of ${tool} is recorded: another process replays ${row}${goesOn}, and ${tool} does not run.`;
      }
      return state === "failed"
        ? `The failure of ${tool} is recorded: another process replays ${row}${goesOn}, and ${tool} does not run again.`
        : `The result of ${tool} is recorded: another process replays ${row}${goesOn}, and ${tool} does not run again.`;
    case "code":
      return `The run of the code is recorded: another process replays ${row}${goesOn}, and the tools that it called do not run again.`;
    case "checkpoint":
      return `The input that was added here is recorded with ${row}: it is neither lost nor added twice.`;
    case "environment":
      return `Model, instructions and tools of the step are recorded in ${row}: another process continues with the same ones.`;
    case "cancel":
      return `The cancel is recorded in ${row}: another process ends the turn and performs nothing more.`;
    case "failure":
      return `The failure is recorded in ${row}: another process ends the turn with it.`;
    case "restart":
      return `The restart is recorded in ${row}: another process continues with the restarted step.`;
  }
}

function openSentence({ kind, name, rerun }: CrashCase): string {
  if (kind === "model") {
    return "The reply is not recorded yet: another process discards the text so far and calls the model again; recorded rows are not repeated.";
  }
  if (kind === "code") {
    return "The run of the code is not recorded yet: another process runs it again with the recorded answers of its calls.";
  }
  if (kind !== "tool") return "Nothing is recorded yet: another process performs it.";
  const tool = name ?? "The tool";
  switch (rerun) {
    case "safe":
      return `${tool} is safe to run twice: another process runs it again with the same idempotency key.`;
    case "never":
      return `The start of ${tool} is recorded, so it is not run again: the model reads that the outcome is unknown.`;
    case "ask":
      return `The start of ${tool} is recorded, so it is not run again by itself: the call waits until a person decides.`;
    default:
      return `The result of ${tool} is not recorded yet: the replay policy of the tool decides whether another process runs it again.`;
  }
}

/**
 * What a crash in the middle of a recorded effect would have done: the other side of the sentence, for effects that are
 * performed. `null`: nothing to say.
 */
export function crashDuring(crash: CrashCase): string | null {
  const isPerformed = crash.kind === "model" || crash.kind === "tool" || crash.kind === "code";
  if (!isPerformed || crash.durability === "volatile" || crash.state === "open" || crash.state === "waits") return null;
  return openSentence({ ...crash, state: "open", ordinal: null });
}
