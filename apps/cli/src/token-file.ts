// The token file: the bearer token of servers that the user starts without configuring one. `serve` creates it;
// commands that address such a server read it. One token for all servers of a user: whoever can read the file can also
// read the databases of the user.

import type { Environment } from "@everturn/server";

import { randomBytes } from "node:crypto";
import { dirname, join } from "node:path";

import { configurationFolder, SettingsError, systemOf } from "@everturn/server";

import { createPrivateFile, ensurePrivateFolder, readPrivateFile } from "./private-file.ts";

/** 256 bits, as text 43 characters of base64url. */
const tokenBytes = 32;

/** The path of the token file. Throws `SettingsError` if the user has no home folder. */
export function tokenFilePath(environment: Environment): string {
  const folder = configurationFolder(systemOf(environment));
  if (folder !== null) return join(folder, "token");
  throw new SettingsError("no home folder for the token file: set HOME, or EVERTURN_TOKEN, or use --no-token");
}

/** Reads the token; `null`: there is no file yet. Throws `SettingsError` for a file that is no secret of the user. */
export function readTokenFile(environment: Environment): string | null {
  return read(tokenFilePath(environment));
}

/**
 * Reads the token, and creates it if there is none. Two processes that start at once use the same token. Throws
 * `SettingsError`.
 */
export function ensureTokenFile(environment: Environment): string {
  const path = tokenFilePath(environment);
  attempt(path, () => ensurePrivateFolder(dirname(path)));
  const existing = read(path);
  if (existing !== null) return existing;
  attempt(path, () => createPrivateFile(path, `${randomBytes(tokenBytes).toString("base64url")}\n`));
  const created = read(path);
  if (created !== null) return created;
  throw new SettingsError(`the token file ${path} was deleted while it was created: start again`);
}

function read(path: string): string | null {
  const text = attempt(path, () => readPrivateFile(path))?.trim();
  if (text === undefined) return null;
  if (/^[\w-]{43,512}$/.test(text)) return text;
  throw new SettingsError(`the token file ${path} holds no token: delete it, and \`everturn serve\` creates another`);
}

function attempt<T>(path: string, use: () => T): T {
  try {
    return use();
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SettingsError(
      `cannot use the token file ${path}: ${why}. \`everturn serve\` creates a new token; EVERTURN_TOKEN sets another one, and --no-token uses none`,
      { cause },
    );
  }
}
