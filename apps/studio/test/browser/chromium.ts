// Finds a Chromium on this machine and starts it. The tests download no browser: they use Debian's package, or the one
// that EVERTURN_CHROMIUM names.

import type { Browser } from "playwright-core";

import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

import { chromium } from "playwright-core";

const names = ["chromium", "chromium-browser", "google-chrome"];

/** The path of the browser: EVERTURN_CHROMIUM, or a program in a folder of PATH; `null`: there is none. */
export function findChromium(): string | null {
  const named = process.env["EVERTURN_CHROMIUM"];
  if (named !== undefined && named !== "") return isProgram(named) ? named : null;
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter(Boolean);
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isProgram) ?? null;
}

/**
 * Starts the browser. Its sandbox needs privileges that containers do not have, and it only opens the server of the
 * test.
 */
export async function startChromium(executablePath: string): Promise<Browser> {
  return chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--font-render-hinting=none"],
  });
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
