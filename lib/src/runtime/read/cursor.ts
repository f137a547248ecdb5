// Where a reader is: behind an entry of the log, and perhaps in the middle of a reply that is not settled yet.

import { MisuseError } from "../../model/internal.ts";

export type Cursor = {
  /** The entry it has read last. */
  readonly sequence: number;
  /** What it has read of the try that is open; `null`: nothing. */
  readonly position: Position | null;
};

/** How much of each part of one try has been read. */
export type Position = {
  readonly effectId: string;
  readonly epoch: number;
  readonly n: number;
  readonly offsets: ReadonlyMap<string, number>;
};

/**
 * Renders a cursor as one line of ASCII characters that fits into an HTTP header: `7;2.1;text/0=12;t1/0/model` is sequence 7, then epoch and number of the
 * attempt, the characters read of each part, and the effect id.
 */
export function renderCursor({ sequence, position }: Cursor): string {
  if (position === null) return `${sequence}`;
  const { effectId, epoch, n, offsets } = position;
  const read = [...offsets].map(([part, offset]) => `${part}=${offset}`).join(",");
  return `${sequence};${epoch}.${n};${read};${encodeURI(effectId)}`;
}

export function parseCursor(text: string): Cursor {
  const [sequence = "", attempt, read = "", ...effect] = `${text}`.split(";");
  if (!/^\d{1,15}$/.test(sequence)) throw unreadable(text);
  if (attempt === undefined) return { sequence: Number(sequence), position: null };
  const numbers = /^(\d{1,15})\.(\d{1,15})$/.exec(attempt);
  if (numbers === null) throw unreadable(text);
  const offsets = read === "" ? [] : read.split(",").map((one) => /^([a-z]+\/\d{1,9})=(\d{1,15})$/.exec(one));
  const known = offsets.map((found) => {
    if (found === null) throw unreadable(text);
    return [found[1] ?? "", Number(found[2])] as const;
  });
  const position = {
    effectId: decoded(effect.join(";")),
    epoch: Number(numbers[1]),
    n: Number(numbers[2]),
    offsets: new Map(known),
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
  return new MisuseError("invalid_argument", `${JSON.stringify(`${text}`.slice(0, 80))} is no cursor of this library`, {
    path: ["after"],
  });
}
