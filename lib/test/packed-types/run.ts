// Compiles the published types as users compile them: `npm pack`, `npm install` of the tarball in a project outside the
// workspace, then plain `tsc --strict` without `skipLibCheck`, with every supported TypeScript and both module
// resolutions. The project imports every entry point, passes the handles of SQLite drivers to the storage, and contains
// all code examples of the documentation and the application in `support/`. The application is also run as each
// compiler emits it, and has to print `support/output.txt`.
//
//   npm run test:types              all compilers
//   npm run test:types -- 5.4 7.0   these compilers
//
// The compilers are installed as aliases (`typescript-5.4`) into the temporary project, so they are no dependencies of
// the workspace. It needs npm with a network or a filled cache. All files are removed at the end, also after a failure.

import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { readSnippets } from "../guides/snippets.ts";

const root = join(import.meta.dirname, "../../..");
const support = join(import.meta.dirname, "support");
const run = promisify(execFile);

/** The oldest supported TypeScript, the last release of each older major version, and the current one. */
const compilers = { "5.4": "5.4.5", "5.9": "5.9.3", "6.0": "6.0.3", "7.0": "7.0.2" };

/** A server without DOM types, and a program for a bundler with them. */
const projects = {
  nodenext: { module: "nodenext", moduleResolution: "nodenext", lib: ["es2022"] },
  bundler: { module: "esnext", moduleResolution: "bundler", lib: ["es2022", "dom", "dom.iterable"] },
};

/** Options that many users set besides `strict`, for the modules that show what these options can break. */
const strictest = {
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noPropertyAccessFromIndexSignature: true,
  noImplicitOverride: true,
  verbatimModuleSyntax: true,
  isolatedModules: true,
};
const strictestModules = [
  "entry-points.ts",
  "drivers.ts",
  "restate-handlers.ts",
  // A protocol with types of its own is assignable to the general type.
  "docs-guide-write-a-protocol-*.ts",
];

/** Handles that `sqliteStorage` accepts. */
const drivers = `import { sqliteStorage } from "everturn/sqlite";
import Database from "libsql";

export const storage = sqliteStorage(new Database(":memory:"));
`;

/**
 * Handlers of the user's own in Restate: sessions are called from every kind of context, and the services are passed to
 * every function that serves them.
 */
const handlers = `import * as restate from "@restatedev/restate-sdk";
import * as lambda from "@restatedev/restate-sdk/lambda";
import { runtime } from "everturn/runtime";
import { engine, fake } from "everturn";
import { memoryStorage } from "everturn/runtime";
import { restateRuntime, restateServices, restateSession, serveRestate } from "everturn/restate";
import type { RestateRuntime, RestateSession, RestateTurn } from "everturn/restate";

const support = restate.service({
  name: "support",
  handlers: {
    ask: async (context: restate.Context, question: { customer: string; text: string }): Promise<string> => {
      const session: RestateSession = restateSession(context, { id: question.customer, tenant: "t", prefix: "My" });
      const turn: RestateTurn = await session.start(question.text, { context: { customer: question.customer } });
      const end = await turn.result();
      const [call] = end.session.pendingToolCalls;
      if (call !== undefined) {
        await session.decide(call.id, { type: "approve" }, { continue: false });
        await session.submitToolResults([[call.id, { ok: true }]]);
      }
      await session.steer("also this", { turnContext: { by: "a" } });
      await session.continue();
      await session.step({ maxTurns: 1 });
      session.sendLater("is it solved?", { afterMs: 60_000, key: "reminder" });
      const cancelled: "cancelled" | "completion_won" | "stored" | "nothing_open" = await session.cancel();
      const again = await session.reply("more", { whenBusy: "queue", output: { type: "object" } });
      return (await session.result(again.turnId ?? "")).text + cancelled;
    },
  },
});
const counter = restate.object({
  name: "counter",
  handlers: {
    run: async (context: restate.ObjectContext) => (await restateSession(context, { id: context.key }).send("hi")).turnId,
    see: restate.handlers.object.shared(async (context: restate.ObjectSharedContext) =>
      restateSession(context, { id: context.key }).result("turn-1"),
    ),
  },
});
const flow = restate.workflow({
  name: "flow",
  handlers: {
    run: async (context: restate.WorkflowContext) => (await restateSession(context, { id: context.key }).reply("hi")).sessionId,
  },
});
const host = memoryStorage();
const engines = { default: engine({ adapter: fake({}), model: "fake:m" }) };
export const web: RestateRuntime = restateRuntime({ host, engines, restate: { ingress: "http://127.0.0.1:8080" } });
export const limited: RestateRuntime = web.tenant("t").limitedBy("user");
export async function main(): Promise<void> {
  const sessions = runtime({ host, engines, drive: false });
  const services = await restateServices({ sessions, deadlineMs: 60_000 });
  await serveRestate({ sessions: web, services: [support, counter, flow] });
  await restate.serve({ services: [...services, support, counter, flow], port: 9080 });
  restate.createEndpointHandler({ services: [...services, support] });
  lambda.createEndpointHandler({ services: [...services, support] });
}
`;

type Manifest = {
  readonly exports?: { readonly [subpath: string]: unknown };
  readonly dependencies?: { readonly [name: string]: string };
  readonly devDependencies?: { readonly [name: string]: string };
  readonly peerDependencies?: { readonly [name: string]: string };
};

async function readManifest(folder: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
}

/** A module that imports every entry point of the package. */
function importsOf({ exports = {} }: Manifest): string {
  // The others are files without names: package.json and a stylesheet.
  const subpaths = Object.entries(exports).flatMap(([subpath, target]) =>
    typeof target === "string" ? [] : [subpath],
  );
  if (subpaths.length === 0) throw new Error("the package has no entry points");
  const names = subpaths.map((_, index) => `entry${index}`);
  const imports = subpaths.map((subpath, index) => `import * as ${names[index]} from "everturn${subpath.slice(1)}";`);
  return `${imports.join("\n")}\n\nexport const all = [${names.join(", ")}];\n`;
}

/** The packages, other than ours and Node's, that modules import. */
function packagesOf(modules: readonly string[]): readonly string[] {
  const specifiers = modules.flatMap((code) =>
    [...code.matchAll(/\b(?:from|import\() ?"([^"]+)"/g)].map((match) => match[1] ?? ""),
  );
  const external = specifiers.filter((specifier) => !/^(?:everturn(?:\/|$)|node:|\.)/.test(specifier));
  return external.map((specifier) => /^(?:@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier);
}

/** The version that the workspace itself uses; `null`: no package.json of the workspace lists the package. */
function versionOf(name: string, manifests: readonly Manifest[]): string | null {
  for (const { dependencies, devDependencies } of manifests) {
    const version = devDependencies?.[name] ?? dependencies?.[name];
    if (version !== undefined) return version;
  }
  return null;
}

/** The packages with the versions of the workspace, and with the packages of their types that it uses. */
function versionsOf(names: readonly string[], manifests: readonly Manifest[]): { readonly [name: string]: string } {
  const versions: { [name: string]: string } = {};
  for (const name of names) {
    const version = versionOf(name, manifests);
    if (version === null) throw new Error(`an example imports ${name}, which no package.json of the workspace lists`);
    versions[name] = version;
    const types = `@types/${name}`;
    const typesVersion = versionOf(types, manifests);
    if (typesVersion !== null) versions[types] = typesVersion;
  }
  return versions;
}

async function createProject(folder: string): Promise<number> {
  const lib = await readManifest(join(root, "lib"));
  const others = ["apps/server", "apps/studio", "tools/test/clients"].map((path) => readManifest(join(root, path)));
  const manifests = [await readManifest(root), lib, ...(await Promise.all(others))];
  const snippets = (await readSnippets()).filter(({ module }) => module.endsWith(".ts"));
  const modules = new Map([
    ["entry-points.ts", importsOf(lib)],
    ["drivers.ts", drivers],
    ["restate-handlers.ts", handlers],
    ...snippets.map(({ module, code }) => [module, code] as const),
  ]);
  await Promise.all([...modules].map(([name, code]) => writeFile(join(folder, name), code)));
  await cp(support, join(folder, "support"), { recursive: true });
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], { cwd: join(root, "lib") });
  const [packed]: readonly { readonly filename: string }[] = JSON.parse(stdout);
  if (packed === undefined) throw new Error("npm pack wrote no tarball");
  const supportModules = await Promise.all(
    ["agent.ts", "main.ts"].map((name) => readFile(join(support, name), "utf8")),
  );
  const packages = [
    "@types/node",
    ...Object.keys(lib.peerDependencies ?? {}),
    ...packagesOf([...modules.values(), ...supportModules]),
  ];
  const dependencies = {
    everturn: `file:${packed.filename}`,
    ...Object.fromEntries(
      Object.entries(compilers).map(([name, version]) => [aliasOf(name), `npm:typescript@${version}`]),
    ),
    ...versionsOf(packages, manifests),
  };
  await writeFile(join(folder, "package.json"), JSON.stringify({ private: true, type: "module", dependencies }));
  for (const [name, options] of Object.entries(projects)) {
    const compilerOptions = { ...options, strict: true, noEmit: true, target: "es2022", types: ["node"] };
    const include = ["*.ts", "support/*.ts"];
    await writeFile(join(folder, `tsconfig.${name}.json`), JSON.stringify({ compilerOptions, include }));
    const emitOptions = { ...compilerOptions, noEmit: false, rootDir: "support" };
    await writeFile(
      join(folder, `tsconfig.${name}.strictest.json`),
      JSON.stringify({ compilerOptions: { ...compilerOptions, ...strictest }, include: strictestModules }),
    );
    const application = { compilerOptions: emitOptions, include: ["support/*.ts"] };
    await writeFile(join(folder, `tsconfig.${name}.support.json`), JSON.stringify(application));
  }
  const flags = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"];
  await run("npm", ["install", ...flags], { cwd: folder });
  return modules.size;
}

/** The compilers that the command line names; all of them if it names none. */
function selectedCompilers(): readonly string[] {
  const known = Object.keys(compilers);
  const named = process.argv.slice(2);
  const unknown = named.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`unknown compiler ${unknown.join(", ")}; known: ${known.join(", ")}`);
  return named.length === 0 ? known : named;
}

function aliasOf(compiler: string): string {
  return `typescript-${compiler}`;
}

/**
 * Returns the errors that the compiler reports, one string each. Errors inside the declaration files of other packages
 * are left out: `hono`, which an example imports, needs the types of the DOM and TypeScript 5.7.
 */
async function compile(
  folder: string,
  compiler: string,
  project: string,
  flags: readonly string[] = [],
): Promise<readonly string[]> {
  const tsc = join(folder, "node_modules", aliasOf(compiler), "bin/tsc");
  const args = [tsc, "-p", `tsconfig.${project}.json`, "--pretty", "false", ...flags];
  const output = await run(process.execPath, args, { cwd: folder, maxBuffer: 64 * 1024 * 1024 }).then(
    ({ stdout }) => stdout,
    (error: { readonly stdout?: string }) => {
      if (error.stdout === undefined || error.stdout === "") throw error;
      return error.stdout;
    },
  );
  // The lines that continue a message are indented.
  const messages = output.trimEnd().split(/\n(?! )/);
  return messages.filter((message) => message !== "" && !/^node_modules\/(?!everturn\/)/.test(message));
}

/**
 * Emits the application with the compiler and runs it. Returns how its output differs from the expected one; none if it
 * is equal.
 */
async function runSupport(folder: string, compiler: string, project: string): Promise<readonly string[]> {
  const out = join(folder, "out", `${compiler}-${project}`);
  const errors = await compile(folder, compiler, `${project}.support`, ["--outDir", out]);
  if (errors.length > 0) return errors;
  const { stdout } = await run(process.execPath, [join(out, "main.js")], { cwd: folder, timeout: 60_000 });
  const expected = await readFile(join(support, "output.txt"), "utf8");
  return stdout === expected ? [] : [`the application printed\n${stdout}\nexpected\n${expected}`];
}

const folder = await mkdtemp(join(tmpdir(), "everturn-types-"));
try {
  const count = await createProject(folder);
  console.log(`${count} modules against the packed types`);
  for (const compiler of selectedCompilers()) {
    for (const project of Object.keys(projects)) {
      const began = performance.now();
      const compileErrors = [
        ...(await compile(folder, compiler, project)),
        ...(await compile(folder, compiler, `${project}.strictest`)),
      ];
      const errors = compileErrors.length > 0 ? compileErrors : await runSupport(folder, compiler, project);
      const seconds = ((performance.now() - began) / 1000).toFixed(1);
      console.log(
        `TypeScript ${compiler}, ${project.padEnd(8)} ${errors.length === 0 ? "compiles, runs" : "FAILS"} ${seconds} s`,
      );
      if (errors.length === 0) continue;
      console.log(errors.join("\n"));
      process.exitCode = 1;
    }
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
