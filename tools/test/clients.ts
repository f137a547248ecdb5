// Installs the client libraries in `clients/` and links them into node_modules, where tests, benchmarks and the
// compiler find them.
//
// These libraries declare Node 22 and run on Node 20. As dependencies of the workspace they make every `npm ci` on Node
// 20 print warnings, also for people who only want to run the demo. npm removes the links when it installs the
// workspace; the next run of the tests or of `npm run check:types` links again.

import { execFileSync } from "node:child_process";
import { existsSync, lstatSync, mkdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = join(import.meta.dirname, "clients");
const modules = join(import.meta.dirname, "../../node_modules");

type Manifest = { readonly version?: string; readonly dependencies?: { readonly [name: string]: string } };

export function installClients(): void {
  const { dependencies = {} } = manifestIn(folder);
  const missing = (base: string) =>
    Object.keys(dependencies).filter((name) => versionIn(base, name) !== exactVersion(dependencies[name]));
  if (missing(modules).length === 0) return;
  if (missing(join(folder, "node_modules")).length > 0) {
    const flags = ["--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts"];
    execFileSync("npm", ["ci", ...flags], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  }
  for (const name of missing(modules)) {
    const link = join(modules, name);
    if (lstatSync(link, { throwIfNoEntry: false }) !== undefined) rmSync(link, { recursive: true });
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(folder, "node_modules", name), link, "junction");
  }
}

/** The version of a dependency: the last part of an alias such as `npm:@ai-sdk/openai@3.0.0`. */
function exactVersion(specifier = ""): string {
  return specifier.replace(/^npm:.*@/, "");
}

function manifestIn(path: string): Manifest {
  return JSON.parse(readFileSync(join(path, "package.json"), "utf8"));
}

function versionIn(base: string, name: string): string | undefined {
  const path = join(base, name);
  return existsSync(join(path, "package.json")) ? manifestIn(path).version : undefined;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) installClients();
