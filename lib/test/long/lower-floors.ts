// The two lower floors without the upper ones: copies the workspace without `serve/`, `bridges/`, the configuration of
// the command and the apps, compiles what is left, and runs the laws and the crash matrix there. Code cells run in a
// scripted executor, because the sandbox is a bridge.

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";

const root = join(import.meta.dirname, "../../..");
const removed = ["lib/src/serve", "lib/src/bridges", "lib/src/config", "lib/dist", "lib/build", "lib/studio"];
const tests = ["lib/test/laws", "lib/src/durable/crash-matrix.test.ts"];

const copy = mkdtempSync(join(tmpdir(), "everturn-lower-floors-"));
try {
  const isKept = (path: string) => !removed.includes(relative(root, path)) && !path.endsWith(".tsbuildinfo");
  for (const name of ["lib", "package.json", "tsconfig.base.json", ".gitignore"]) {
    cpSync(join(root, name), join(copy, name), { recursive: true, filter: isKept });
  }
  const projects = readFileSync(join(root, "tsconfig.json"), "utf8");
  const upper = /^.*"\.\/(?:apps|lib\/src\/(?:serve|bridges|config))\b.*\n/gm;
  writeFileSync(join(copy, "tsconfig.json"), projects.replaceAll(upper, "").replace(/,(\s*\])/, "$1"));
  // The copy has no bundle, so worker threads load the sources.
  const settings = readFileSync(join(root, "vitest.config.ts"), "utf8");
  writeFileSync(
    join(copy, "vitest.config.ts"),
    settings.replaceAll('EVERTURN_BUILT_WORKER: "1"', 'EVERTURN_BUILT_WORKER: "0"'),
  );
  // The packages of the workspace. `everturn` is the library of the copy.
  mkdirSync(join(copy, "node_modules"));
  for (const name of readdirSync(join(root, "node_modules"))) {
    const target = name === "everturn" ? join(copy, "lib") : join(root, "node_modules", name);
    symlinkSync(target, join(copy, "node_modules", name));
  }
  const passed = succeeds("typescript/bin/tsc", ["-b"]) && succeeds("vitest/vitest.mjs", ["run", ...tests]);
  console.log(
    passed ? "The lower floors compile and pass without the upper ones." : "WRONG: the lower floors need an upper one",
  );
  process.exitCode = passed ? 0 : 1;
} finally {
  rmSync(copy, { recursive: true, force: true });
}

function succeeds(script: string, args: readonly string[]): boolean {
  const program = join(root, "node_modules", script);
  const { status } = spawnSync(process.execPath, [program, ...args], {
    cwd: copy,
    stdio: "inherit",
    env: { ...process.env, EVERTURN_CRASH_POINTS: "", EVERTURN_TEST_SETUP: "none" },
  });
  return status === 0;
}
