// Files that only the user may read: created with mode 0600 from the start, so that there is no moment at which others can open them. A symbolic link in place
// of the file is not followed (`O_NOFOLLOW`), so that another user cannot direct the text elsewhere; opening it fails with ELOOP.

import { closeSync, constants, fchmodSync, openSync, writeSync } from "node:fs";

const { O_APPEND, O_CREAT, O_TRUNC, O_WRONLY } = constants;
// Windows has no such flag.
const noFollow = constants.O_NOFOLLOW ?? 0;

/** Writes a file, and replaces one that exists. */
export function writePrivateFile(path: string, text: string): void {
  write(path, text, O_TRUNC);
}

/** Appends to a file. */
export function appendPrivateFile(path: string, text: string): void {
  write(path, text, O_APPEND);
}

function write(path: string, text: string, flag: number): void {
  const file = openSync(path, O_WRONLY | O_CREAT | flag | noFollow, 0o600);
  try {
    // A file that existed before may have another mode.
    fchmodSync(file, 0o600);
    writeSync(file, text);
  } finally {
    closeSync(file);
  }
}
