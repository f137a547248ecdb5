// What was written to a pipe, as text: piece by piece, since how much one `read` gives differs between releases of Node.

import type { PassThrough } from "node:stream";

export function writtenTo(out: PassThrough): string {
  let text = "";
  for (let piece: unknown = out.read(); piece !== null; piece = out.read()) text += String(piece);
  return text;
}
