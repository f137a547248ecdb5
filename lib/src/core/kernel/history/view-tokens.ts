// The estimated tokens of ranges of a history, as a view shows them.
//
// Every model reply asks how many tokens the next request has. Adding up the messages of the window each time would
// cost the length of the window at every step, so each message is estimated once and added to a running sum (H5). A
// range is the difference of two sums. A view has two lengths of tool results, `keep` before `prunedBefore` and
// `longest` after it, so a history has a running sum for each of these lengths.
//
// The sums belong to the array that all versions of a list share (shared-list.ts): its items never change.

import type { Message } from "../../model/internal.ts";
import type { HistoryView } from "./prompt.ts";
import type { SharedList } from "./shared-list.ts";

import { viewed } from "./prompt.ts";
import { estimateMessage } from "./tokens.ts";

/** `sums[n]`: the tokens of the `n` messages from position `base` on. */
type RunningSum = { readonly base: number; readonly sums: number[] };

/** By the array of messages, then by the greatest length of a tool result. */
const runningSums = new WeakMap<readonly Message[], Map<number, RunningSum>>();

/** The estimated tokens of the messages of a view from position `from` to `to`. Each message is estimated once. */
export function estimateRange(entries: readonly Message[], from: number, to: number, view: HistoryView): number {
  const border = Math.min(to, Math.max(from, view.prunedBefore));
  return (
    sumBetween(entries, from, border, Math.min(view.keep, view.longest)) + sumBetween(entries, border, to, view.longest)
  );
}

/**
 * The position from which the newest messages of a view have at least `tokens` tokens; at least `view.from`. A binary
 * search.
 */
export function positionBefore({ entries, length }: SharedList<Message>, view: HistoryView, tokens: number): number {
  if (tokens <= 0) return length;
  let fits = view.from;
  let isTooShort = length;
  while (isTooShort - fits > 1) {
    const middle = Math.floor((fits + isTooShort) / 2);
    if (estimateRange(entries, middle, length, view) >= tokens) fits = middle;
    else isTooShort = middle;
  }
  return Math.min(fits, length);
}

function sumBetween(entries: readonly Message[], from: number, to: number, longest: number): number {
  if (to <= from) return 0;
  const { base, sums } = sumUpTo(entries, from, to, longest);
  return (sums[to - base] ?? 0) - (sums[from - base] ?? 0);
}

/** The running sum that has the positions `from` and `to`, extended by the messages that it does not have yet. */
function sumUpTo(entries: readonly Message[], from: number, to: number, longest: number): RunningSum {
  const byLength = runningSums.get(entries) ?? new Map<number, RunningSum>();
  runningSums.set(entries, byLength);
  const known = byLength.get(longest);
  // Begins anew only if a frame was withdrawn, so that earlier messages are sent again.
  const running = known === undefined || known.base > from ? { base: from, sums: [0] } : known;
  byLength.set(longest, running);
  const { base, sums } = running;
  const view: HistoryView = { from: base, prunedBefore: 0, keep: longest, longest };
  for (let index = base + sums.length - 1; index < to; index += 1) {
    const message = entries[index];
    sums.push((sums.at(-1) ?? 0) + (message === undefined ? 0 : estimateMessage(viewed(message, index, view))));
  }
  return running;
}
