// Server-sent events: text in, frames out, however the text was cut. The framing is `eventsource-parser`'s (docs/decisions/0013); what is ours is
// a limit to what is kept, and that a stream whose last blank line was forgotten still gives its last event.

import type { Frame } from "./codec.ts";

import { createParser } from "eventsource-parser";

import { MisuseError } from "../model/internal.ts";

/** An incremental parser of server-sent events. */
export type FrameReader = {
  /** More of the text. Frames that are whole come back. */
  readonly push: (text: string) => readonly Frame[];
  /** The text is over. A frame that was begun and not ended is given too. */
  readonly end: () => readonly Frame[];
};

/** How much of one line, or one event, is kept before it counts as broken. */
const maxFrameLength: number = 16 * 1024 * 1024;

/** A line or an event that is longer than anybody should send. */
export class FrameTooLong extends Error {
  override readonly name = "FrameTooLong";
}

/**
 * An incremental parser of server-sent events: text in, complete frames out. `maxLength` limits one line or event
 * (default 16 Mi characters); a longer one throws `FrameTooLong`.
 */
export function frameReader(maxLength: number = maxFrameLength): FrameReader {
  if (maxLength < 1) throw new MisuseError("invalid_argument", "frameReader: the longest frame has to have a length");
  let completeFrames: Frame[] = [];
  /** How much has come since the last event. */
  let pendingLength = 0;
  const parser = createParser({
    onEvent: ({ event, data }) => {
      pendingLength = 0;
      completeFrames.push({ event: event ?? null, data });
    },
    onComment: () => {
      pendingLength = 0;
    },
  });
  const takeCompleteFrames = () => {
    const frames = completeFrames;
    completeFrames = [];
    return frames;
  };
  return {
    push: (text) => {
      pendingLength += text.length;
      parser.feed(text);
      if (pendingLength > maxLength) throw new FrameTooLong(`an event or a line of more than ${maxLength} characters`);
      return takeCompleteFrames();
    },
    end: () => {
      parser.feed("\n\n");
      return takeCompleteFrames();
    },
  };
}
