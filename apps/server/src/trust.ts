// The trust store: which configuration files that were found in a folder may be used. A configuration file runs code,
// chooses where API keys are sent, and names tools. A file that is merely present in the working directory, such as a
// cloned repository, must not do so before its user has agreed.
//
// Theory of operation
//   - A file named by `--config` or `EVERTURN_CONFIG` is trusted: the user named it. A discovered file needs an entry
//     in the store.
//   - An entry is the path of the folder (without symbolic links), the name of the file, and the SHA-256 of every
//     covered file. The entry holds as long as all of these are equal; `everturn trust` writes it.
//   - Until then the file is read for its digest only: nothing in it is parsed, imported or run.
//
// covered-files.ts finds the covered files.
//
// Invariants
//   1. The store is written with mode 0600, by a rename, so a reader never sees half of it.
//   2. A store that other users can write is not used (POSIX systems).

import type { CoveredFiles } from "./covered-files.ts";
import type { System } from "./user-folders.ts";

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, realpathSync, renameSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import { coveredFiles } from "./covered-files.ts";
import { isMap, SettingsError, thrownText } from "./setting-readers.ts";
import { configurationFolder } from "./user-folders.ts";

/**
 * A discovered configuration file that the user has not trusted, or that has changed since. Nothing in it was read or
 * run.
 */
export class UntrustedConfigError extends SettingsError {
  /** The path of the configuration file. */
  readonly path: string;
  /**
   * The covered files that have changed since they were trusted, by relative path. Empty: the file was never trusted.
   */
  readonly changed: readonly string[];
  /** The covered files as they were checked. */
  readonly files: CoveredFiles;

  constructor(path: string, changed: readonly string[], files: CoveredFiles) {
    const why =
      changed.length === 0
        ? "is not trusted, and it can run code and choose where API keys are sent"
        : `has changed since it was trusted (${changed.join(", ")})`;
    super(
      `the configuration file ${path} ${why}: read it, then run \`everturn trust\` in its folder, or name it with --config; --no-config ignores it`,
    );
    this.path = path;
    this.changed = changed;
    this.files = files;
  }
}

type Store = { readonly [folder: string]: { readonly [file: string]: CoveredFiles } };

/** The path of the trust store. Throws `SettingsError` if the user has no home folder. */
export function trustStorePath(system: System): string {
  const folder = configurationFolder(system);
  if (folder === null) throw new SettingsError("no home folder for the trust store: set HOME, or use --config FILE");
  return join(folder, "trusted.json");
}

/** Throws `UntrustedConfigError` unless the user trusts the file as it is now. */
export function checkTrusted(path: string, system: System): void {
  const { folder, name } = trustedPlace(path);
  const trusted = readStore(trustStorePath(system), system)[folder]?.[name];
  const files = coveredFiles(path);
  if (trusted === undefined) throw new UntrustedConfigError(path, [], files);
  const changed = changedFiles(trusted, files);
  if (changed.length > 0) throw new UntrustedConfigError(path, changed, files);
}

/**
 * Trusts a configuration file. `files`: its covered files as the user was asked about them; a change since then is not
 * trusted. Default: as they are now. Returns the covered files.
 */
export function trustConfig(path: string, system: System, files = coveredFiles(path)): CoveredFiles {
  const { folder, name } = trustedPlace(path);
  const at = trustStorePath(system);
  const store = readStore(at, system);
  writeStore(at, { ...store, [folder]: { ...store[folder], [name]: files } });
  return files;
}

/** Removes all entries of a folder. Returns whether there was one. */
export function distrustFolder(folder: string, system: System): boolean {
  const at = trustStorePath(system);
  const { [realpathSync(folder)]: entry, ...others } = readStore(at, system);
  if (entry === undefined) return false;
  writeStore(at, others);
  return true;
}

/** The digest of a set of covered files, for people to compare. */
export function digestOf(files: CoveredFiles): string {
  const lines = Object.keys(files)
    .toSorted()
    .map((path) => `${path}\0${files[path] ?? ""}\n`);
  return createHash("sha256").update(lines.join("")).digest("hex");
}

function trustedPlace(path: string): { readonly folder: string; readonly name: string } {
  return { folder: realpathSync(dirname(path)), name: basename(path) };
}

function changedFiles(trusted: CoveredFiles, current: CoveredFiles): readonly string[] {
  const paths = new Set([...Object.keys(trusted), ...Object.keys(current)]);
  return [...paths].filter((path) => trusted[path] !== current[path]).toSorted();
}

function readStore(path: string, { platform }: System): Store {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return {};
  const isWritableByOthers = platform !== "win32" && (stats.mode & 0o022) !== 0;
  if (isWritableByOthers) {
    throw new SettingsError(`other users can write the trust store ${path}: run \`chmod 600 ${path}\`, or delete it`);
  }
  try {
    const store: unknown = JSON.parse(readFileSync(path, "utf8"));
    if (isMap(store) && isMap(store["folders"])) return readFolders(store["folders"]);
  } catch (cause) {
    throw new SettingsError(`the trust store ${path} cannot be read: ${thrownText(cause)}; delete it`, { cause });
  }
  throw new SettingsError(`the trust store ${path} has another format; delete it`);
}

function readFolders(folders: { readonly [name: string]: unknown }): Store {
  return mapValues(folders, (files) =>
    mapValues(isMap(files) ? files : {}, (covered) => mapValues(isMap(covered) ? covered : {}, String)),
  );
}

function mapValues<T>(
  map: { readonly [name: string]: unknown },
  change: (value: unknown) => T,
): { readonly [name: string]: T } {
  return Object.fromEntries(Object.entries(map).map(([name, value]): [string, T] => [name, change(value)]));
}

function writeStore(path: string, folders: Store): void {
  const unfinished = `${path}.${process.pid}.tmp`;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(unfinished, `${JSON.stringify({ version: 1, folders }, null, 2)}\n`, { mode: 0o600 });
    renameSync(unfinished, path);
  } catch (cause) {
    throw new SettingsError(`cannot write the trust store ${path}: ${thrownText(cause)}`, { cause });
  }
}
