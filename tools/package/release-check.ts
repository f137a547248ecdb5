// `npm run release:check`: everything that has to hold before a release, on the tarball that is published. It ends with the command that publishes it.
//
//   1. version, changelog, licences
//   2. the package: publint, arethetypeswrong, budgets
//   3. an empty project with the installed tarball, under each runtime: `import` and `require()` of every entry point, a durable turn, the command
//   4. the types with every supported TypeScript (lib/test/packed-types)
//
// Runtimes and tools are installed from the registry on first use, in pinned versions, into node_modules/.cache. A version that the registry does not have for
// this platform is reported as skipped. Options: `--quick` leaves out the TypeScript versions.

import type { Tarball } from "./packed.ts";

import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { promisify } from "node:util";

import { publint } from "publint";
import { formatMessage } from "publint/utils";

import { describe, isWithin, measure } from "./budgets.ts";
import { entryPoints, readManifest, root } from "./entry-files.ts";
import { addFile, pack, unpack } from "./packed.ts";

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

type Runtime = {
  readonly name: string;
  /** The package with the binary, and the path of the binary in it. */
  readonly package: string;
  readonly version: string;
  readonly binary: string;
  readonly arguments: readonly string[];
  /** Has the runtime a SQLite driver of its own that the library uses? */
  readonly hasSqlite: boolean;
  readonly isNode: boolean;
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
    hasSqlite: false,
    isNode: false,
  },
  {
    name: "Deno 2.9.6",
    package: `@deno/${process.platform}-${process.arch}${process.platform === "linux" ? "-glibc" : ""}`,
    version: "2.9.6",
    binary: "deno",
    arguments: ["run", "--allow-all", "--node-modules-dir=manual"],
    hasSqlite: false,
    isNode: false,
  },
];

function node(version: string, hasSqlite: boolean): Runtime {
  const name = `node-${platform}-${process.arch}`;
  return {
    name: `Node ${version}`,
    package: name,
    version,
    binary: "bin/node",
    arguments: [],
    hasSqlite,
    isNode: true,
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
    const details = String(error).split("\n").slice(0, 30).join("\n      ");
    console.log(`FAILS ${name}: ${details}`);
  }
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

function checkVersion(): string {
  const { version } = readManifest();
  if (!/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version)) throw new Error(`${version} is not a semantic version`);
  for (const folder of ["apps/cli", "apps/server", "apps/create-everturn"]) {
    const { version: other, dependencies } = readManifest(join(root, folder));
    if (other !== version) throw new Error(`${folder} has version ${other}, lib has ${version}`);
    if (dependencies?.["everturn"] !== version) throw new Error(`${folder} does not depend on everturn ${version}`);
  }
  const changelog = readFileSync(join(root, "CHANGELOG.md"), "utf8");
  const section = (heading: string) => changelog.split(/^## /m).find((text) => text.startsWith(heading));
  const text = section(version) ?? section("Unreleased");
  if (text === undefined || !/^- /m.test(text)) throw new Error(`CHANGELOG.md lists no changes for ${version}`);
  const isNamed = section(version) !== undefined;
  return `${version}, ${text.match(/^- /gm)?.length ?? 0} changes${isNamed ? "" : ' under "Unreleased": rename the heading in the commit of the release'}`;
}

/** Licences that may be combined with ours, of the dependencies and of the code in the bundle. */
function checkLicences(folder: string): string {
  const allowed = new Set(["MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "0BSD"]);
  const bundled = readFileSync(join(folder, "dist/licenses.txt"), "utf8").matchAll(
    /^(?<name>(?:@[\w.-]+\/)?[\w.-]+) \d+\.\d+\.\d+$/gm,
  );
  const names = [
    ...Object.keys(readManifest().dependencies ?? {}),
    ...[...bundled].map((match) => match.groups?.["name"] ?? ""),
  ];
  for (const name of names) {
    const { license } = readManifest(join(root, "node_modules", name));
    if (typeof license !== "string" || !allowed.has(license))
      throw new Error(`${name} has the licence ${String(license)}`);
  }
  if (readFileSync(join(folder, "LICENSE"), "utf8") !== readFileSync(join(root, "LICENSE"), "utf8")) {
    throw new Error("LICENSE of the package differs from that of the repository");
  }
  return names.join(", ");
}

function checkContents({ files }: Tarball): string {
  const unexpected = files.filter(
    (path) =>
      !/^(?:package\.json|README\.md|LICENSE|bin\/everturn\.js|templates\/.+|dist\/(?:types\/)?[^/]+\.(?:js|d\.ts|txt))$/.test(
        path,
      ),
  );
  if (unexpected.length > 0) throw new Error(`unexpected files: ${unexpected.join(", ")}`);
  return `${files.length} files`;
}

async function checkPublint(folder: string): Promise<string> {
  const { messages, pkg } = await publint({ pkgDir: folder, pack: false, strict: true });
  if (messages.length > 0) throw new Error(messages.map((message) => formatMessage(message, pkg)).join("\n"));
  return "";
}

async function checkTypesResolve(tarball: Tarball): Promise<string> {
  const attw = join(await installed("@arethetypeswrong/cli", "0.18.5"), "dist/index.js");
  // The package is an ES module: `require()` of it needs Node 20.19, which the profile allows for.
  await run(process.execPath, [attw, tarball.path, "--profile", "esm-only", "--format", "ascii", "--no-emoji"]);
  return "";
}

/** An empty project with the tarball, installed by npm. */
async function emptyProject(folder: string, tarball: Tarball, packages: readonly string[] = []): Promise<string> {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), `{ "private": true }\n`);
  for (const name of ["import.mjs", "require.cjs"]) addFile(folder, `tools/package/smoke/${name}`, name);
  const flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"];
  await run("npm", ["install", ...flags, tarball.path, ...packages], { cwd: folder });
  return folder;
}

async function checkRuntime(runtime: Runtime, project: string): Promise<string> {
  const { binary, isNode, hasSqlite } = runtime;
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
  const env = { PATH: process.env["PATH"] ?? "", HOME: project, XDG_DATA_HOME: project };
  const options = { cwd: project, env, timeout: 120_000 };
  const smoke = [...runtime.arguments, "import.mjs", specifiers.join(","), hasSqlite ? "sqlite" : "memory"];
  rmSync(join(project, "smoke.db"), { force: true });
  await run(program, smoke, options);
  if (!isNode) return `import of ${specifiers.length} entry points, durable turn`;
  await run(program, ["require.cjs", specifiers.join(",")], options);
  const command = (...args: readonly string[]) =>
    run(program, ["node_modules/everturn/bin/everturn.js", ...args], options);
  await command("--version");
  await command("doctor").catch((error: { readonly code?: unknown }) => {
    // Without a driver the doctor reports a problem and exits with 1.
    if (hasSqlite || error.code !== 1) throw error;
  });
  if (hasSqlite) {
    await command("run", "--model", "offline:demo", "hello");
    await command("demo");
    return `import and require() of ${specifiers.length} entry points, durable turn, the command`;
  }
  const { stderr } = await command("run", "--model", "offline:demo", "hello").catch(
    (error: { readonly stderr: string }) => error,
  );
  if (!stderr.includes("npm install libsql"))
    throw new Error(`without a SQLite driver, the command does not name one: ${stderr}`);
  return `import and require() of ${specifiers.length} entry points, durable turn; without a driver the command names libsql`;
}

/** The command through npx, with the Node of this process and libsql. */
async function checkCommand(project: string): Promise<string> {
  const env = { ...process.env, HOME: project, XDG_DATA_HOME: project };
  const everturn = (...args: readonly string[]) =>
    run("npx", ["everturn", ...args], { cwd: project, env, timeout: 120_000 });
  const { stdout } = await everturn("run", "--model", "offline:demo", "hello");
  if (!stdout.includes("hello")) throw new Error(`run printed ${stdout}`);
  await everturn("doctor");
  const { stdout: list } = await everturn("sessions");
  if (!list.includes("session-")) throw new Error(`sessions printed ${list}`);
  await everturn("demo");
  return "run, doctor, sessions, demo";
}

/** `npm create everturn`: the project is written, and names the version that is published. */
async function checkCreate(project: string): Promise<string> {
  await run(process.execPath, ["node_modules/create-everturn/bin/create-everturn.js", "my-app"], { cwd: project });
  const { dependencies } = readManifest(join(project, "my-app"));
  const { version } = readManifest();
  if (dependencies?.["everturn"]?.includes(version) !== true)
    throw new Error(`the project does not depend on everturn ${version}`);
  return "writes a project";
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

const folder = mkdtempSync(join(tmpdir(), "everturn-release-"));
try {
  const tarball = await pack(join(root, "release"));
  const unpacked = await unpack(tarball, join(folder, "unpacked"));
  await check("version and changelog", checkVersion);
  await check("licences", () => checkLicences(unpacked));
  await check("contents", () => checkContents(tarball));
  await check("publint", () => checkPublint(unpacked));
  await check("arethetypeswrong", () => checkTypesResolve(tarball));
  for (const measurement of await measure(tarball, join(folder, "unpacked"))) {
    await check("budget", () => {
      if (!isWithin(measurement)) throw new Error(describe(measurement));
      return describe(measurement);
    });
  }
  const project = await emptyProject(join(folder, "project"), tarball);
  for (const runtime of runtimes) await check(runtime.name, () => checkRuntime(runtime, project));
  const withDriver = await emptyProject(join(folder, "driver"), tarball, [`libsql@${libsql}`]);
  await check(`npx everturn, Node ${process.versions.node}`, () => checkCommand(withDriver));
  const creator = await pack(join(root, "release"), join(root, "apps/create-everturn"));
  const creating = await emptyProject(join(folder, "create"), tarball, [creator.path]);
  await check("create-everturn", () => checkCreate(creating));
  if (!process.argv.includes("--quick")) await check("TypeScript", checkTypeScript);
  if (failures > 0) {
    console.log(`\n${failures} checks failed. Nothing may be published.`);
    process.exitCode = 1;
  } else {
    const commands = [tarball, creator].map(({ path }) => `  npm publish ${relative(root, path)} --access public`);
    console.log(`\nAll checks passed. Publish with:\n\n${commands.join("\n")}\n`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
