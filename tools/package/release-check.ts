// `npm run release:check`: everything that has to hold before a release, on the tarball that is published. It ends with
// the command that publishes it.
//
//   1. version, changelog, addresses of the project, licences
//   2. the package: publint, arethetypeswrong, budgets
//   3. an empty project with the installed tarball, under each runtime: `import` and `require()` of every entry point,
//      a turn that survives kill -9, the command, a configuration file
//   4. the types with every supported TypeScript (lib/test/packed-types)
//
// Runtimes and tools are installed from the registry on first use, in pinned versions, into node_modules/.cache. A
// version that the registry does not have for this platform is reported as skipped. Options: `--quick` leaves out the
// TypeScript versions.

import type { Tarball } from "./packed.ts";
import type { PackageFields, ReleaseFiles } from "./release-rules.ts";

import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { promisify } from "node:util";

import { publint } from "publint";
import { formatMessage } from "publint/utils";

import { describe, isWithin, measure } from "./budgets.ts";
import { writeCreatePackage } from "./create-package.ts";
import { entryPoints, readManifest, root } from "./entry-files.ts";
import { addFile, pack, unpack } from "./packed.ts";
import {
  bundledPackages,
  checkAddresses,
  checkContents,
  checkLicences,
  checkVersion,
  publishCommand,
} from "./release-rules.ts";

const execute = promisify(execFile);

/** Runs a program without standard input: the command would wait for its end. */
function run(
  file: string,
  parameters: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv; readonly timeout?: number } = {},
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const running = execute(file, parameters, { ...options, encoding: "utf8" });
  running.child.stdin?.end();
  return running;
}

const cache = join(root, "node_modules/.cache/everturn-release");
const libsql = "0.5.29";
/** The entry points `everturn/otel` and `everturn/react` do not load without their optional peers. */
const requiredPeers = ["@opentelemetry/api@1.9.1", "react@19.3.1"];

type Runtime = {
  readonly name: string;
  /** The package with the binary, and the path of the binary in it. */
  readonly package: string;
  readonly version: string;
  readonly binary: string;
  readonly arguments: readonly string[];
  /** Has the runtime a SQLite driver of its own that the library uses? */
  readonly hasSqlite: boolean;
  /** Does the runtime load TypeScript without a loader? */
  readonly loadsTypescript: boolean;
};

const platform = { linux: "linux", darwin: "darwin", win32: "win" }[process.platform.toString()] ?? process.platform;

/** The oldest supported Node, the newest release of each later line, and the other runtimes. */
const runtimes: readonly Runtime[] = [
  node("20.19.0", false),
  node("22.23.3", true),
  node("24.21.0", true),
  node("26.10.0", true),
  {
    name: "Bun 1.4.4",
    package: `@oven/bun-${process.platform}-${process.arch === "arm64" ? "aarch64" : process.arch}`,
    version: "1.4.4",
    binary: "bin/bun",
    arguments: [],
    hasSqlite: true,
    loadsTypescript: true,
  },
  {
    name: "Deno 2.9.6",
    package: `@deno/${process.platform}-${process.arch}${process.platform === "linux" ? "-glibc" : ""}`,
    version: "2.9.6",
    binary: "deno",
    arguments: ["run", "--allow-all", "--node-modules-dir=manual"],
    hasSqlite: true,
    loadsTypescript: true,
  },
];

/** `isModern`: Node 22.18 or later. */
function node(version: string, isModern: boolean): Runtime {
  const name = `node-${platform}-${process.arch}`;
  return {
    name: `Node ${version}`,
    package: name,
    version,
    binary: "bin/node",
    arguments: [],
    hasSqlite: isModern,
    loadsTypescript: isModern,
  };
}

let failures = 0;

/** Runs one check and prints its result. A check returns what it found, or throws. */
async function check(name: string, body: () => Promise<string> | string): Promise<void> {
  try {
    const found = await body();
    console.log(`${found.startsWith("skipped") ? "skip " : "ok   "} ${name}${found === "" ? "" : `: ${found}`}`);
  } catch (error) {
    failures += 1;
    const details = `${String(error).trimEnd()}\n${outputOf(error)}`
      .trimEnd()
      .split("\n")
      .slice(0, 40)
      .join("\n      ");
    console.log(`FAILS ${name}: ${details}`);
  }
}

/** What a program that failed has printed; its last lines say why. */
function outputOf(error: unknown): string {
  if (!(error instanceof Error) || !("stdout" in error)) return "";
  return String(error.stdout).trimEnd().split("\n").slice(-20).join("\n");
}

async function installed(name: string, version: string): Promise<string> {
  const prefix = join(cache, `${name}@${version}`.replaceAll("/", "+"));
  const target = join(prefix, "node_modules", name);
  if (!existsSync(join(target, "package.json"))) {
    mkdirSync(prefix, { recursive: true });
    writeFileSync(join(prefix, "package.json"), `{ "private": true }\n`);
    await run("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", `${name}@${version}`], { cwd: prefix });
  }
  return target;
}

function releaseFiles(): ReleaseFiles {
  const lock: { readonly packages: { readonly [folder: string]: PackageFields | undefined } } = JSON.parse(
    readFileSync(join(root, "package-lock.json"), "utf8"),
  );
  return {
    library: readManifest(),
    others: Object.fromEntries(
      ["apps/cli", "apps/server", "apps/studio", "apps/create-everturn"].map((folder) => [
        folder,
        readPackage(join(root, folder)),
      ]),
    ),
    lockedVersion: lock.packages["lib"]?.version,
    changelog: readFileSync(join(root, "CHANGELOG.md"), "utf8"),
  };
}

function readPackage(folder: string): PackageFields {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

function checkPackageLicences(folder: string): string {
  const bundled = ["dist/licenses.txt", "studio/THIRD-PARTY-LICENSES.txt"].flatMap((path) =>
    bundledPackages(readFileSync(join(folder, path), "utf8")),
  );
  const names = [...Object.keys(readManifest().dependencies ?? {}), ...bundled];
  if (readFileSync(join(folder, "LICENSE"), "utf8") !== readFileSync(join(root, "LICENSE"), "utf8")) {
    throw new Error("LICENSE of the package differs from that of the repository");
  }
  return checkLicences(names.map((name) => readPackage(join(root, "node_modules", name))));
}

async function checkPublint(folder: string): Promise<string> {
  const { messages, pkg } = await publint({ pkgDir: folder, pack: false, strict: true });
  if (messages.length > 0) throw new Error(messages.map((message) => formatMessage(message, pkg)).join("\n"));
  return "";
}

async function checkTypesResolve(tarball: Tarball): Promise<string> {
  const attw = join(await installed("@arethetypeswrong/cli", "0.18.5"), "dist/index.js");
  // The package is an ES module: `require()` of it needs Node 20.19, which the profile allows for.
  await run(process.execPath, [
    attw,
    tarball.path,
    "--profile",
    "esm-only",
    "--format",
    "ascii",
    "--no-emoji",
    "--exclude-entrypoints",
    "react.css",
  ]);
  return "";
}

/** An empty project with the tarball, installed by npm. */
async function emptyProject(folder: string, tarball: Tarball, packages: readonly string[] = []): Promise<string> {
  mkdirSync(folder, { recursive: true });
  // As `npm init` writes it.
  writeFileSync(join(folder, "package.json"), `{ "private": true, "type": "commonjs" }\n`);
  for (const name of ["import.mjs", "require.cjs", "durable.mjs"]) addFile(folder, `tools/package/smoke/${name}`, name);
  const flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"];
  await run("npm", ["install", ...flags, tarball.path, ...packages], { cwd: folder });
  return folder;
}

async function checkRuntime(runtime: Runtime, project: string): Promise<string> {
  const { binary, hasSqlite } = runtime;
  let folder = "";
  try {
    folder = await installed(runtime.package, runtime.version);
  } catch {
    return `skipped, the registry has no ${runtime.package} ${runtime.version}`;
  }
  const program = join(folder, binary);
  // Worker files throw outside of a worker.
  const specifiers = entryPoints()
    .filter(({ subpath }) => !subpath.endsWith("/worker"))
    .map(({ subpath }) => `everturn${subpath.slice(1)}`);
  // No settings and no database of the user, and not the npm version of this process.
  const env = { PATH: process.env["PATH"] ?? "", HOME: project, XDG_DATA_HOME: project, XDG_CONFIG_HOME: project };
  const options = { cwd: project, env, timeout: 120_000 };
  const execute = (...words: readonly string[]) => run(program, [...runtime.arguments, ...words], options);
  const command = (...args: readonly string[]) => execute("node_modules/everturn/bin/everturn.js", ...args);
  for (const name of readdirSync(project).filter((file) => /\.(?:db|log)/.test(file))) rmSync(join(project, name));
  await execute("import.mjs", specifiers.join(","), hasSqlite ? "sqlite" : "memory");
  await execute("require.cjs", specifiers.join(","));
  const imported = `import and require() of ${specifiers.length} entry points`;
  await command("--version");
  if (!hasSqlite) {
    await expectFailure(1, "npm install libsql", command("doctor"));
    await expectFailure(2, "npm install libsql", command("run", "--model", "offline:demo", "hello"));
    return `${imported}, a turn in memory; without a driver the command names libsql`;
  }
  await survivesKill(execute);
  await command("doctor");
  await command("run", "--model", "offline:demo", "hello");
  await command("demo");
  await usesConfiguration(command, project, runtime.loadsTypescript);
  return `${imported}, a turn over SQLite that survives kill -9, the command, its configuration file`;
}

type Execute = (...words: readonly string[]) => Promise<{ readonly stdout: string; readonly stderr: string }>;

/** Fails unless the program ends with this exit code and prints the text. */
async function expectFailure(code: number, text: string, running: ReturnType<Execute>): Promise<void> {
  type Ended = { readonly code?: unknown; readonly stdout: string; readonly stderr: string };
  const ended: Ended = await running.catch((error: Ended) => error);
  if (ended.code === code && (ended.stdout + ended.stderr).includes(text)) return;
  throw new Error(
    `expected exit code ${code} and "${text}", got ${String(ended.code ?? 0)}: ${ended.stdout}${ended.stderr}`,
  );
}

/** One process dies in a turn, another one completes it. */
async function survivesKill(execute: Execute): Promise<void> {
  const killed: { readonly signal?: unknown; readonly stderr: string } = await execute("durable.mjs", "start").catch(
    (error: { readonly signal?: unknown; readonly stderr: string }) => error,
  );
  if (killed.signal !== "SIGKILL") throw new Error(`the first process was not killed: ${killed.stderr}`);
  await execute("durable.mjs", "finish");
}

/**
 * A configuration file with an engine, in a project as `npm init` writes it: not used until it is trusted, and again
 * not after a change of a module that it imports. It is written in TypeScript if the runtime loads it.
 */
async function usesConfiguration(command: Execute, project: string, isTypescript: boolean): Promise<void> {
  const extension = isTypescript ? "ts" : "mjs";
  const config = join(project, `everturn.config.${extension}`);
  const writePort = (port: number) =>
    writeFileSync(
      join(project, `port.${extension}`),
      `export const port${isTypescript ? ": number" : ""} = ${port};\n`,
    );
  writePort(0);
  writeFileSync(
    config,
    `import { engine } from "everturn";\nimport { defineConfig } from "everturn/config";\nimport { port } from "./port.${extension}";\n` +
      `export default defineConfig({ engines: { default: engine({ instructions: "Be brief." }) }, database: "config.db", port });\n`,
  );
  try {
    await expectFailure(2, "everturn trust", command("run", "hello"));
    await command("trust");
    const { stdout } = await command("run", "--session", "configured", "hello");
    if (!stdout.includes("You said: hello")) throw new Error(`run printed ${stdout}`);
    await command("replay", "--open");
    writePort(1);
    await expectFailure(2, `has changed since it was trusted (port.${extension})`, command("sessions"));
  } finally {
    await command("trust", "--remove");
    rmSync(config);
  }
}

/** The command through npx, with the Node of this process and libsql. */
async function checkCommand(project: string): Promise<string> {
  const env = { ...process.env, HOME: project, XDG_DATA_HOME: project, XDG_CONFIG_HOME: project };
  const options = { cwd: project, env, timeout: 120_000 };
  const everturn: Execute = (...args) => run("npx", ["everturn", ...args], options);
  const { stdout } = await everturn("run", "--model", "offline:demo", "hello");
  if (!stdout.includes("hello")) throw new Error(`run printed ${stdout}`);
  await everturn("doctor");
  const { stdout: list } = await everturn("sessions");
  if (!list.includes("session-")) throw new Error(`sessions printed ${list}`);
  await everturn("demo");
  await survivesKill((...words) => run(process.execPath, words, options));
  await usesConfiguration(everturn, project, "typescript" in process.features && process.features.typescript !== false);
  return "run, doctor, sessions, demo, a turn over libsql that survives kill -9, a configuration file";
}

/** `npm create everturn`: the project is written, and names the version that is published. */
async function checkCreate(project: string): Promise<string> {
  await run(process.execPath, ["node_modules/create-everturn/bin/create-everturn.js", "my-app"], { cwd: project });
  const { dependencies } = readManifest(join(project, "my-app"));
  const { version } = readManifest();
  if (dependencies?.["everturn"]?.includes(version) !== true)
    throw new Error(`the project does not depend on everturn ${version}`);
  const creator = readManifest(join(project, "node_modules/create-everturn"));
  if (creator.version !== version || creator.dependencies?.["everturn"] !== version)
    throw new Error(`create-everturn does not have version ${version}, or depends on another version of everturn`);
  return `${version}, writes a project that depends on everturn ${dependencies["everturn"]}`;
}

async function checkTypeScript(): Promise<string> {
  const { stdout } = await run(
    process.execPath,
    [join(root, "node_modules/tsx/dist/cli.mjs"), "lib/test/packed-types/run.ts"],
    { cwd: root },
  );
  return [...stdout.matchAll(/^TypeScript (?<version>[\d.]+), nodenext compiles/gm)]
    .map((match) => match.groups?.["version"])
    .join(", ");
}

/** npm accepts the commands, and would publish what they name. */
async function dryRun(commands: readonly (readonly string[])[]): Promise<string> {
  const published: string[] = [];
  for (const words of commands) {
    const { stdout } = await run("npm", [...words, "--dry-run"], { cwd: root });
    published.push(/^\+ (?<name>\S+)$/m.exec(stdout)?.groups?.["name"] ?? "");
  }
  const expected = ["everturn", "create-everturn"].map((name) => `${name}@${readManifest().version}`);
  if (published.join() !== expected.join()) throw new Error(`npm would publish ${published.join(", ")}`);
  return `dry run of ${published.join(", ")}`;
}

const folder = mkdtempSync(join(tmpdir(), "everturn-release-"));
try {
  const tarball = await pack(join(root, "release"));
  const unpacked = await unpack(tarball, join(folder, "unpacked"));
  await check("version and changelog", () => checkVersion(releaseFiles()));
  await check("addresses", () => checkAddresses(readManifest()));
  await check("licences", () => checkPackageLicences(unpacked));
  await check("contents", () => checkContents(tarball.files));
  await check("publint", () => checkPublint(unpacked));
  await check("arethetypeswrong", () => checkTypesResolve(tarball));
  for (const measurement of await measure(tarball, join(folder, "unpacked"))) {
    await check("budget", () => {
      if (!isWithin(measurement)) throw new Error(describe(measurement));
      return describe(measurement);
    });
  }
  const project = await emptyProject(join(folder, "project"), tarball, requiredPeers);
  for (const runtime of runtimes) await check(runtime.name, () => checkRuntime(runtime, project));
  const withDriver = await emptyProject(join(folder, "driver"), tarball, [`libsql@${libsql}`]);
  await check(`npx everturn, Node ${process.versions.node}`, () => checkCommand(withDriver));
  const creator = await pack(join(root, "release"), writeCreatePackage(join(folder, "create-everturn")));
  const creating = await emptyProject(join(folder, "create"), tarball, [creator.path]);
  await check("create-everturn", () => checkCreate(creating));
  if (!process.argv.includes("--quick")) await check("TypeScript", checkTypeScript);
  const { version } = readManifest();
  const commands = [tarball, creator].map(({ path }) => publishCommand(relative(root, path), version));
  await check("publish commands", () => dryRun(commands));
  if (failures > 0) {
    console.log(`\n${failures} checks failed. Nothing may be published.`);
    process.exitCode = 1;
  } else {
    console.log(
      `\nAll checks passed. Publish with:\n\n${commands.map((words) => `  npm ${words.join(" ")}`).join("\n")}\n`,
    );
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
