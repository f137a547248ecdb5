// The text written to a pipe. Reads in a loop, because the number of bytes that one `read` returns differs between
// releases of Node.

import type { PassThrough } from "node:stream";

export function writtenTo(out: PassThrough): string {
  let text = "";
  for (let piece: unknown = out.read(); piece !== null; piece = out.read()) text += String(piece);
  return text;
}
