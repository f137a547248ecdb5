// What the runner needs and a user of the workspace does not: installed when it is first asked for, in exactly one version, into a cache that git
// does not see. A browser is not installed: a machine has one, or its owner gets one.

import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

const cache = join(import.meta.dirname, "../../../node_modules/.cache/everturn-edge");

/** The part of miniflare that is used here. */
type MiniflareModule = {
  readonly Miniflare: new (options: object) => {
    readonly ready: Promise<URL>;
    readonly dispose: () => Promise<void>;
  };
};

/** miniflare, which brings workerd. It says that it wants Node 22; what is used of it here runs on 20. */
export async function miniflare(): Promise<MiniflareModule> {
  await installed("miniflare", "4.20260730.0");
  return import(pathToFileURL(join(cache, "node_modules/miniflare/dist/src/index.js")).href);
}

async function installed(name: string, version: string): Promise<void> {
  if (versionOf(name) === version) return;
  console.log(`installing ${name} ${version} into node_modules/.cache, once`);
  await mkdir(cache, { recursive: true });
  // No scripts: the binary comes as a package of its own.
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

/** Where Chromium is. */
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
