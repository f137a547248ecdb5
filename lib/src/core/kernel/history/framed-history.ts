// The part of a request that comes from the history, under the context limits of a turn: a frame in place of the oldest
// messages, pinned messages, then the newest messages, with long tool results shortened.
//
// What is sent is a pure function of history, context window (the recorded decisions) and limits, so a replay builds
// the same bytes. Between two decisions it only grows at its end, so the provider's prompt cache keeps its prefix.
//
// Invariants
//   1. A cut never separates a call from its result: calls that are pending or unanswered at the cut are kept, with
//      everything after them (`validCut`).
//   2. Pinned messages are sent as they are, whatever a summary says.
//   3. A kept message is the same object, with its signatures and other data of its provider.

import type { ContextWindow, HistoryFrame, Message } from "../../model/internal.ts";
import type { ContextLimits } from "../machine/context-limits.ts";
import type { HistoryView } from "./prompt.ts";
import type { SharedList } from "./shared-list.ts";

import { user } from "../../model/internal.ts";
import { renderPrompt } from "./prompt.ts";
import { estimateMessage } from "./tokens.ts";
import { estimateRange } from "./view-tokens.ts";

/** The view of a context window. */
export function viewOf({ frame, prunedBefore }: ContextWindow, { longestResult, prune }: ContextLimits): HistoryView {
  const longest = longestResult;
  return { from: frame?.to ?? 0, prunedBefore, keep: prune === null ? longest : prune.keep, longest };
}

/** The length of a tool result in the request of a summary that would not fit otherwise, in characters. */
const summarizedResultLength = 400;

/** The messages from `from` to `to` in the request of a summary that would not fit otherwise. */
export function shortView(from: number, to: number): HistoryView {
  return { from, prunedBefore: to, keep: summarizedResultLength, longest: summarizedResultLength };
}

/** The frame and the pinned messages before its end. */
export function renderFrame({ entries }: SharedList<Message>, frame: HistoryFrame): readonly Message[] {
  const pinned = frame.pinned.flatMap((position) => entries[position] ?? []);
  return [frameMessage(frame), ...renderPrompt(pinned)];
}

const frameEstimates = new WeakMap<HistoryFrame, number>();

/** The estimated tokens of a frame and its pinned messages. Estimated once: a frame does not change. */
export function estimateFrame(history: SharedList<Message>, frame: HistoryFrame): number {
  const known = frameEstimates.get(frame);
  if (known !== undefined) return known;
  const estimate = renderFrame(history, frame).reduce((sum, message) => sum + estimateMessage(message), 0);
  frameEstimates.set(frame, estimate);
  return estimate;
}

// By the frame, so that codecs find what they have sent by the identity of messages.
const frameMessages = new WeakMap<HistoryFrame, Message>();

function frameMessage(frame: HistoryFrame): Message {
  const known = frameMessages.get(frame);
  if (known !== undefined) return known;
  const message = user(
    frame.summary === null
      ? `[${frame.to} earlier messages of this conversation are left out.]`
      : `[Summary of the earlier conversation, whose messages are left out:]\n\n${frame.summary}`,
  );
  frameMessages.set(frame, message);
  return message;
}

/**
 * The greatest position up to `target` at which every call before it is answered before it. `from`: such a position.
 * Linear in the distance.
 */
export function validCut(history: SharedList<Message>, from: number, target: number): number {
  let last = from;
  for (const cut of validCuts(history, from, target)) last = cut;
  return last;
}

/**
 * The position up to which the oldest messages of a view fit in `tokens` tokens, at most `end`. It is behind the first
 * exchange at least, even if that is longer. `end`: a valid cut. Linear in the distance.
 */
export function fittingCut(history: SharedList<Message>, view: HistoryView, end: number, tokens: number): number {
  let fitting = view.from;
  for (const cut of validCuts(history, view.from, end)) {
    if (fitting > view.from && estimateRange(history.entries, view.from, cut, view) > tokens) break;
    fitting = cut;
  }
  return fitting;
}

/** The positions after `from`, up to `target`, at which every call before them is answered before them. */
function* validCuts({ entries, length }: SharedList<Message>, from: number, target: number): Iterable<number> {
  const open = new Map<string, number>();
  let openCalls = 0;
  const last = Math.min(target, length);
  for (let index = from; index < last; index += 1) {
    const message = entries[index];
    if (message?.role === "assistant") {
      for (const { id } of message.toolCalls) open.set(id, (open.get(id) ?? 0) + 1);
      openCalls += message.toolCalls.length;
    } else if (message?.role === "tool" && (open.get(message.toolCallId) ?? 0) > 0) {
      open.set(message.toolCallId, (open.get(message.toolCallId) ?? 0) - 1);
      openCalls -= 1;
    }
    if (openCalls === 0) yield index + 1;
  }
}

/**
 * The positions before `to` whose messages requests contain as they are: messages with `pinned: true` in their
 * metadata, system messages of the caller, and the newest user message if none follows.
 */
export function pinnedPositions(
  { entries, length }: SharedList<Message>,
  frame: HistoryFrame | null,
  to: number,
): readonly number[] {
  const isAt = (position: number, fits: (message: Message) => boolean): boolean => {
    const message = entries[position];
    return message !== undefined && fits(message);
  };
  const earlier = (frame?.pinned ?? []).filter((position) => isAt(position, isPinned));
  const positions = [...earlier];
  for (let index = frame?.to ?? 0; index < to; index += 1) if (isAt(index, isPinned)) positions.push(index);
  const newest = newestInput(entries, length);
  if (newest !== null && newest < to && !positions.includes(newest)) positions.push(newest);
  return positions.toSorted((left, right) => left - right);
}

/** The newest user message, without answers to questions that a handler reads. */
function newestInput(entries: readonly Message[], length: number): number | null {
  for (let index = length - 1; index >= 0; index -= 1) {
    const message = entries[index];
    if (message?.role === "user" && message.metadata["askUserAnswer"] !== true) return index;
  }
  return null;
}

function isPinned(message: Message): boolean {
  if (message.role === "tool" || (message.role === "assistant" && message.toolCalls.length > 0)) return false;
  return message.metadata["pinned"] === true || (message.role === "system" && message.origin === null);
}
