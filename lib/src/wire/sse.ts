// Server-sent events: text in, frames out, however the text was cut.

import type { Frame } from "./codec.ts";

import { MisuseError } from "../model/index.ts";

export type FrameReader = {
  /** More of the text. Frames that are whole come back. */
  readonly push: (text: string) => readonly Frame[];
  /** The text is over. A frame that was begun and not ended is given too: some servers forget the last blank line. */
  readonly end: () => readonly Frame[];
};

/** How much of one line, or one event, is kept before it counts as broken. */
export const maxFrameLength = 16 * 1024 * 1024;

/** A line or an event that is longer than anybody should send. */
export class FrameTooLong extends Error {
  override readonly name = "FrameTooLong";
}

export function frameReader(maxLength: number = maxFrameLength): FrameReader {
  if (maxLength < 1) throw new MisuseError("invalid_argument", "frameReader: the longest frame has to have a length");
  let rest = "";
  let data: string | null = null;
  let event: string | null = null;
  let size = 0;
  let skipsLineFeed = false;

  function line(text: string, out: Frame[]): void {
    if (text === "") {
      if (data !== null) out.push({ event, data });
      data = null;
      event = null;
      size = 0;
      return;
    }
    const colon = text.indexOf(":");
    if (colon === 0) return;
    const field = colon === -1 ? text : text.slice(0, colon);
    const from = text.charCodeAt(colon + 1) === space ? colon + 2 : colon + 1;
    const value = colon === -1 ? "" : text.slice(from);
    if (field === "data") {
      size += value.length + 1;
      if (size > maxLength) throw new FrameTooLong(`an event of more than ${maxLength} characters`);
      data = data === null ? value : `${data}\n${value}`;
    } else if (field === "event") {
      event = value;
    }
  }

  function push(text: string): readonly Frame[] {
    const out: Frame[] = [];
    // A line feed that belongs to a carriage return at the end of the text before.
    let start = skipsLineFeed && text.charCodeAt(0) === lineFeed ? 1 : 0;
    if (text !== "") skipsLineFeed = false;
    // Looked for once a read, not once a line: most servers never send one.
    const returns = text.includes("\r");
    for (;;) {
      const end = returns ? lineEnd(text, start) : text.indexOf("\n", start);
      if (end === -1) break;
      line(rest + text.slice(start, end), out);
      rest = "";
      start = end + 1;
      if (text.charCodeAt(end) === carriageReturn) {
        if (start === text.length) skipsLineFeed = true;
        else if (text.charCodeAt(start) === lineFeed) start += 1;
      }
    }
    rest += text.slice(start);
    if (rest.length > maxLength) throw new FrameTooLong(`a line of more than ${maxLength} characters`);
    return out;
  }

  return {
    push,
    end: () => {
      const out: Frame[] = [];
      if (rest !== "") line(rest, out);
      rest = "";
      line("", out);
      return out;
    },
  };
}

const lineFeed = "\n".charCodeAt(0);
const carriageReturn = "\r".charCodeAt(0);
const space = " ".charCodeAt(0);

function lineEnd(text: string, from: number): number {
  const feed = text.indexOf("\n", from);
  const back = text.indexOf("\r", from);
  if (feed === -1) return back;
  return back === -1 ? feed : Math.min(feed, back);
}
