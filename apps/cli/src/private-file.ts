// Files that only the user may read: created with mode 0600 from the start, so that there is no moment at which others
// can open them. A symbolic link in place of the file is not followed (`O_NOFOLLOW`), so that another user cannot
// direct the text elsewhere; opening it fails with ELOOP.

import { randomUUID } from "node:crypto";
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";

const { O_APPEND, O_CREAT, O_EXCL, O_RDONLY, O_TRUNC, O_WRONLY } = constants;
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

/**
 * Creates a file; does nothing if it exists. It is linked to its name when it is complete, so that a reader never sees
 * a part of it.
 */
export function createPrivateFile(path: string, text: string): void {
  const unfinished = `${path}.${randomUUID()}.tmp`;
  write(unfinished, text, O_EXCL);
  try {
    linkSync(unfinished, path);
  } catch (error) {
    if (errorCode(error) !== "EEXIST") throw error;
  } finally {
    rmSync(unfinished, { force: true });
  }
}

/**
 * Reads a file that only the user can read; `null`: there is none. Throws if it is a symbolic link, belongs to another
 * user, or can be read by others: its content is then no secret, or was written by another user.
 */
export function readPrivateFile(path: string): string | null {
  let file: number;
  try {
    file = openSync(path, O_RDONLY | noFollow);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return null;
    if (errorCode(error) !== "ELOOP") throw error;
    throw new Error(`${path} is a symbolic link, which is not followed: delete it`, { cause: error });
  }
  try {
    const { mode, uid } = fstatSync(file);
    if (isOfAnotherUser(uid)) throw new Error(`${path} belongs to another user: delete it`);
    if (hasModes && (mode & 0o077) !== 0) {
      const octal = (mode & 0o777).toString(8);
      throw new Error(`other users can read ${path} (mode ${octal}): delete it, because they may have read it`);
    }
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

/**
 * Creates a folder that only the user can open (mode 0700) if it does not exist. Throws for a folder, or a symbolic
 * link to one, that belongs to another user, and for a folder that others can write: they could replace the files in
 * it.
 */
export function ensurePrivateFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const { mode, uid } = statSync(path);
  if (isOfAnotherUser(uid) || isOfAnotherUser(lstatSync(path).uid)) {
    throw new Error(`the folder ${path} belongs to another user: name another one (XDG_CONFIG_HOME)`);
  }
  if (hasModes && (mode & 0o022) !== 0) {
    throw new Error(`other users can write the folder ${path}: run \`chmod 700 ${path}\``);
  }
}

/** Windows has no modes; the profile folder of the user is private there. */
const hasModes = process.platform !== "win32";

function isOfAnotherUser(uid: number): boolean {
  const own = process.getuid?.();
  return own !== undefined && uid !== own;
}

function errorCode(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : null;
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
