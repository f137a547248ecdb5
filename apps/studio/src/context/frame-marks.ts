// Where summaries stand for messages in requests: marks between the messages of a conversation, from the frames of the
// session. Pure.

import type { HistoryFrame } from "everturn/advanced";

import { count } from "../parts/format.ts";

/** A frame, and what requests contain of it. */
export type FrameMark = {
  readonly frame: HistoryFrame;
  /**
   * `used`: requests have it in place of its messages. `replaced`: a later summary includes it. `undone`: a person has
   * taken it back, and no frame is newer.
   */
  readonly state: "used" | "replaced" | "undone";
};

/**
 * The marks by the index of the message that they precede.
 *
 * @param frames All frames of the session, oldest first.
 * @param length The number of messages of the session. A fork has the frames of its own messages only.
 */
export function frameMarks(frames: readonly HistoryFrame[], length: number): ReadonlyMap<number, readonly FrameMark[]> {
  const newest = frames.findLast(({ undoneAt }) => undoneAt === null) ?? null;
  const marks = new Map<number, readonly FrameMark[]>();
  for (const frame of frames) {
    if (frame.to > length) continue;
    const state = frame.undoneAt !== null ? "undone" : frame.id === newest?.id ? "used" : "replaced";
    marks.set(frame.to, [...(marks.get(frame.to) ?? []), { frame, state }]);
  }
  return marks;
}

/** The number of messages that a frame stands for: pinned messages are sent as they are. */
function messagesOf({ to, pinned }: HistoryFrame): number {
  return to - pinned.length;
}

/** What the model reads in place of the messages before a mark, in one line. */
export function markText({ frame, state }: FrameMark): string {
  const number = messagesOf(frame);
  const messages = `${count(number)} earlier ${number === 1 ? "message" : "messages"}`;
  const are = number === 1 ? "is" : "are";
  switch (state) {
    case "used":
      return frame.summary === null
        ? `${messages} ${are} left out for the model`
        : `${messages} ${are} summarized for the model`;
    case "replaced":
      return `${messages} were summarized for the model here, and again later`;
    case "undone":
      return `The summary of ${messages} was undone`;
  }
}

/** Positions of messages as people count them, in ranges: `1 to 3, 7`. */
export function messageNumbers(positions: readonly number[]): string {
  const ranges: { first: number; last: number }[] = [];
  for (const position of positions.toSorted((left, right) => left - right)) {
    const range = ranges.at(-1);
    if (range !== undefined && position === range.last + 1) range.last = position;
    else ranges.push({ first: position, last: position });
  }
  return ranges
    .map(({ first, last }) => (first === last ? count(first + 1) : `${count(first + 1)} to ${count(last + 1)}`))
    .join(", ");
}
