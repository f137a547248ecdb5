// The tools that only this test needs: installed on first use, in a pinned version, into a cache that git ignores. A
// browser is not installed; the machine has to have one.

import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

const cache = join(import.meta.dirname, "../../../node_modules/.cache/everturn-edge");

/** The part of miniflare's interface that is used here. */
type MiniflareModule = {
  readonly Miniflare: new (options: object) => {
    readonly ready: Promise<URL>;
    readonly dispose: () => Promise<void>;
  };
};

/** Loads miniflare, which contains workerd. It declares Node 22, but the part that is used here runs on Node 20. */
export async function miniflare(): Promise<MiniflareModule> {
  await installed("miniflare", "4.20260730.0");
  return import(pathToFileURL(join(cache, "node_modules/miniflare/dist/src/index.js")).href);
}

async function installed(name: string, version: string): Promise<void> {
  if (versionOf(name) === version) return;
  console.log(`installing ${name} ${version} into node_modules/.cache, once`);
  await mkdir(cache, { recursive: true });
  // Without install scripts: the binary is a separate package.
  const args = ["install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"];
  try {
    await promisify(execFile)("npm", [...args, "--prefix", cache, `${name}@${version}`], { cwd: cache });
  } catch (error) {
    throw new Error(
      `${name} ${version} could not be installed, which takes npm and a network; EVERTURN_SKIP_WORKERD=1 goes on without it`,
      { cause: error },
    );
  }
  if (versionOf(name) !== version) throw new Error(`npm installed ${name} ${versionOf(name)} instead of ${version}`);
}

function versionOf(name: string): string {
  const path = join(cache, "node_modules", name, "package.json");
  if (!existsSync(path)) return "nowhere";
  const { version }: { readonly version: string } = JSON.parse(readFileSync(path, "utf8"));
  return version;
}

/** The path of Chromium. */
export function chromium(): string {
  const named = process.env["EVERTURN_CHROMIUM"];
  if (named !== undefined && named !== "") {
    if (existsSync(named)) return named;
    throw new Error(`EVERTURN_CHROMIUM: there is no ${named}`);
  }
  const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
  const folders = (process.env["PATH"] ?? "").split(":");
  const found = names.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new Error(
    `no Chromium was found (looked for ${names.join(", ")} in PATH). Install one, on Debian and Ubuntu with "apt-get install chromium"; or name it with EVERTURN_CHROMIUM=/path/to/it; or go on without it, with EVERTURN_SKIP_BROWSER=1`,
  );
}
