// Cursors: the position of a reader in the events of a session. A cursor names the last stored event that was read and,
// if the reader has received part of a reply that is not settled yet, how much of each part of that attempt. A reader
// that reconnects with its cursor gets every stored event once and no character of live text twice.

import { MisuseError } from "../../core/model/internal.ts";

/** A position in the events of a session. */
export type Cursor = {
  /** The sequence number of the last stored event that was read; 0: none. */
  readonly sequence: number;
  /** The position in the open attempt; `null`: nothing of it was read. */
  readonly position: Position | null;
};

/** How much of an attempt has been read. */
export type Position = {
  readonly effectId: string;
  /** The lease epoch of the attempt. Attempts of an effect are ordered by epoch, then by `n` (Q7). */
  readonly epoch: number;
  /** The number of the attempt within the epoch. */
  readonly n: number;
  /** The number of characters read, by part (`text/0`, `reasoning/0`, `call/1`). */
  readonly offsets: ReadonlyMap<string, number>;
};

/**
 * Renders a cursor as one line of ASCII characters, which fits into an HTTP header (`Last-Event-ID`):
 * `7;2.1;text/0=12;t1/0/model` is sequence 7, then epoch and number of the attempt, the characters read of each part,
 * and the effect id.
 */
export function renderCursor({ sequence, position }: Cursor): string {
  if (position === null) return `${sequence}`;
  const { effectId, epoch, n, offsets } = position;
  const read = [...offsets].map(([part, offset]) => `${part}=${offset}`).join(",");
  return `${sequence};${epoch}.${n};${read};${encodeURI(effectId)}`;
}

/** Parses a cursor. Throws `MisuseError` for any other text: cursors come back from clients. */
export function parseCursor(text: string): Cursor {
  const [sequence = "", attempt, read = "", ...effect] = `${text}`.split(";");
  if (!/^\d{1,15}$/.test(sequence)) throw unreadable(text);
  if (attempt === undefined) return { sequence: Number(sequence), position: null };
  const numbers = /^(\d{1,15})\.(\d{1,15})$/.exec(attempt);
  if (numbers === null) throw unreadable(text);
  const offsets = read === "" ? [] : read.split(",").map((item) => /^([a-z]+\/\d{1,9})=(\d{1,15})$/.exec(item));
  const parsedOffsets = offsets.map((match) => {
    if (match === null) throw unreadable(text);
    return [match[1] ?? "", Number(match[2])] as const;
  });
  const position = {
    effectId: decoded(effect.join(";")),
    epoch: Number(numbers[1]),
    n: Number(numbers[2]),
    offsets: new Map(parsedOffsets),
  };
  return { sequence: Number(sequence), position };

  function decoded(uri: string): string {
    try {
      return decodeURI(uri);
    } catch {
      throw unreadable(text);
    }
  }
}

function unreadable(text: string): MisuseError {
  return new MisuseError(
    "invalid_argument",
    `${JSON.stringify(`${text}`.slice(0, 80))} is not a cursor of this library`,
    {
      path: ["after"],
    },
  );
}
