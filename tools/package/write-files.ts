// Writes the files of a build. Files whose content does not change are not written, and others are removed only after
// all new ones are there: a command or a test that runs meanwhile keeps working if the sources are the same.

import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Makes these the files of a folder, in this order. `isKept`: other files that stay, by path relative to the folder.
 */
export function writeFiles(
  folder: string,
  files: ReadonlyMap<string, string | Uint8Array>,
  isKept: (path: string) => boolean = () => false,
): void {
  for (const [path, content] of files) writeFile(join(folder, path), content);
  for (const path of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const target = join(folder, path);
    // Files of a build that runs at the same time end with `.tmp`.
    if (path.endsWith(".tmp") || isKept(path) || files.has(path.replaceAll("\\", "/"))) continue;
    if (statSync(target, { throwIfNoEntry: false })?.isFile() === true) rmSync(target, { force: true });
  }
}

function writeFile(target: string, content: string | Uint8Array): void {
  if (fileContent(target)?.equals(Buffer.from(content)) === true) return;
  mkdirSync(dirname(target), { recursive: true });
  const temporary = `${target}.${process.pid}.tmp`;
  writeFileSync(temporary, content);
  renameSync(temporary, target);
}

function fileContent(path: string): Buffer | null {
  try {
    return readFileSync(path);
  } catch {
    return null;
  }
}
