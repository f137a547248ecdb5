// Parses server-sent events (WHATWG HTML, section 9.2, "Server-sent events"): text in, frames out. The package
// `eventsource-parser` does the framing (docs/decisions/0013). This file adds
//   - a limit on one line or event, so that a server cannot make the process buffer without bound;
//   - the last event of a stream that ends without the blank line that the specification requires. Some servers omit
//     it.
//   - errors that are no events: a plain JSON body under the content type of a stream, which is one frame, and the
//     field `error` of llama.cpp until September 2025 (https://github.com/ggml-org/llama.cpp/pull/16109), which is an
//     `error` event;
//   - the rest of a line that lost characters before its colon, which is a frame whose data is no JSON
//     (`damaged-frame.ts`).
//
// Invariant (W2): the frames depend on the text and not on the chunks in which it arrives.

import type { Frame } from "./codec.ts";

import { createParser } from "eventsource-parser";

import { invalidArgument } from "../model/internal.ts";

/** An incremental parser of server-sent events. */
export type FrameReader = {
  /** Appends text and returns the frames that are complete. */
  readonly push: (text: string) => readonly Frame[];
  /** Ends the text and returns the last frame, also if its blank line is missing. */
  readonly end: () => readonly Frame[];
};

/**
 * The name of a field that is the rest of a line whose other characters were lost: a part of `data`, or a name with
 * punctuation of JSON (`daount":1}`). The specification ignores unknown fields, but such a line held a piece of the
 * reply.
 */
const damagedField = /["{}[\]\\]|^(?:d?a?t?a|da?t?|a|at|t)$/;

/** Default of `frameReader`: the longest line or event, in UTF-16 code units. */
const maxFrameLength: number = 16 * 1024 * 1024;

/** Thrown by `FrameReader.push` when a line or an event exceeds the limit. The stream cannot be read further. */
export class FrameTooLong extends Error {
  override readonly name = "FrameTooLong";
}

/**
 * An incremental parser of server-sent events: text in, complete frames out. `maxLength` limits one line or event
 * (default 16 Mi characters); a longer one throws `FrameTooLong`.
 */
export function frameReader(maxLength: number = maxFrameLength): FrameReader {
  if (maxLength < 1) throw invalidArgument("frameReader: maxLength must be at least 1");
  let completeFrames: Frame[] = [];
  /** Characters received since the last complete event or comment. */
  let pendingLength = 0;
  /** The text of a plain JSON body; `null`: the text has events, or has not begun. */
  let jsonBody: string[] | null = null;
  let hasBegun = false;
  const parser = createParser({
    onEvent: ({ event, data }) => {
      pendingLength = 0;
      completeFrames.push({ event: event ?? null, data });
    },
    onComment: () => {
      pendingLength = 0;
    },
    onError: ({ type, field = "", value = "", line = "" }) => {
      if (type !== "unknown-field") return;
      if (field === "error") completeFrames.push({ event: "error", data: value });
      else if (damagedField.test(field)) completeFrames.push({ event: null, data: line });
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
      if (!hasBegun && /\S/.test(text)) {
        hasBegun = true;
        if (/^\s*[{[]/.test(text)) jsonBody = [];
      }
      if (jsonBody === null) parser.feed(text);
      else jsonBody.push(text);
      if (pendingLength > maxLength)
        throw new FrameTooLong(`an event or a line is longer than ${maxLength} characters`);
      return takeCompleteFrames();
    },
    end: () => {
      if (jsonBody !== null) return [{ event: null, data: jsonBody.join("").trim() }];
      parser.feed("\n\n");
      return takeCompleteFrames();
    },
  };
}
