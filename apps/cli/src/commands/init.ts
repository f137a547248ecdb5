// `everturn init`: writes a small project: an agent with one tool, a test with a scripted model, a durable server and a
// page. `npm create everturn` runs it.
//
// A template consists of folders of the package (`lib/templates`); templates.ts says which. Files that are settings are
// built here: package.json names the version of this package, and npm leaves files named `.gitignore` out of packages.
// Files of the user are never overwritten: if one of the files exists, nothing is written.

import type { CommandContext } from "./context.ts";
import type { Template } from "./templates.ts";

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, relative, resolve } from "node:path";

import { configFilesIn, findConfig, systemOf, trustConfig } from "@everturn/server";

import { safeText } from "../terminal/safe-text.ts";
import { UsageError } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { contents } from "./templates.ts";
import { shellQuote } from "./text.ts";
import { packageVersion } from "./version.ts";

export type InitRequest = {
  readonly template: Template;
  /** The folder of the project; created if it does not exist. */
  readonly folder: string;
  /** What package.json names as the version of everturn; `null`: the version of this command. */
  readonly everturn: string | null;
};

export async function init({ io, say, out }: CommandContext, request: InitRequest): Promise<number> {
  const folder = resolve(io.folder, request.folder);
  const name = packageName(basename(folder));
  const files = new Map([
    ["package.json", json(manifest(name, request.everturn ?? `^${packageVersion()}`, request.template))],
    ["tsconfig.json", json(compilerSettings(request.template))],
    [".gitignore", ["node_modules/", "data/", ...contents[request.template].ignored, ""].join("\n")],
    ...templateFiles(name, request.template),
  ]);
  // A second configuration file would make every command ask which one is meant.
  const configFiles = configFilesIn(folder).map((path) => basename(path));
  const planned = [...new Set([...files.keys(), ...configFiles])];
  const existing = planned.filter((path) => existsSync(join(folder, path)));
  if (existing.length > 0) {
    throw new UsageError(
      `${folder} already has ${existing.join(", ")}; nothing was written. Choose another folder: everturn init NAME`,
    );
  }
  for (const [path, text] of files) write(join(folder, path), text);
  // The files are those of this command, so its user need not be asked about them.
  const config = findConfig(folder);
  if (config !== null) trustConfig(config, systemOf(io.environment));
  say(safeText(`created ${folder}`));
  for (const path of files.keys()) say(out.dim(`  ${path}`));
  say();
  say("Next:");
  const place = relative(io.folder, folder);
  if (place !== "") say(safeText(`  cd ${shellQuote(place)}`));
  say("  npm install");
  say("  npm start        # then open the link that it prints");
  say();
  say(
    "Without an API key a scripted model answers. For a real one, set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY first.",
  );
  return exitCodes.ok;
}

function write(path: string, text: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true });
    // `wx`: a file that appeared since the check is not overwritten.
    writeFileSync(path, text, { flag: "wx" });
  } catch (cause) {
    throw new UsageError(`cannot write ${path}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** The files of a template, by path. */
function templateFiles(name: string, template: Template): readonly (readonly [path: string, text: string])[] {
  const agent = template === "app" ? [] : filesOf(name, "app").filter(([path]) => /^(?:src|test)\//.test(path));
  const files = [...agent, ...contents[template].folders.flatMap((folder) => filesOf(name, folder))];
  return files.toSorted(([left], [right]) => (left < right ? -1 : 1));
}

function filesOf(name: string, folder: string): readonly (readonly [path: string, text: string])[] {
  const root = join(dirname(createRequire(import.meta.url).resolve("everturn/package.json")), "templates", folder);
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry): readonly [string, string] => {
      const file = join(entry.parentPath, entry.name);
      const path = relative(root, file).replaceAll("\\", "/");
      return [path, readFileSync(file, "utf8").replaceAll("{{name}}", name)];
    });
}

/** A name that npm accepts, from the name of a folder. */
function packageName(folder: string): string {
  const name = folder
    .toLowerCase()
    .replaceAll(/[^a-z\d._-]+/g, "-")
    .replaceAll(/^[._-]+|-+$/g, "");
  return name === "" ? "everturn-app" : name;
}

function json(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

const compilerSettings = (template: Template) => ({
  compilerOptions: {
    target: "ES2023",
    ...contents[template].compilerOptions,
    types: ["node"],
    strict: true,
    noEmit: true,
    allowImportingTsExtensions: true,
    erasableSyntaxOnly: true,
    verbatimModuleSyntax: true,
    skipLibCheck: true,
  },
  include: ["everturn.config.ts", "src", "test", ...contents[template].checked],
  exclude: ["node_modules"],
});

/**
 * libsql is the SQLite driver; Node 22.13 and later have one of their own. tsx is needed before Node 22.18; its
 * compiler works without its install script.
 */
function manifest(name: string, everturn: string, template: Template): object {
  const config = "--config everturn.config.ts";
  const { scripts, dependencies, devDependencies } = contents[template];
  return {
    name,
    private: true,
    type: "module",
    scripts: {
      ...scripts,
      chat: `everturn chat ${config}`,
      test: "node --import tsx --test test/agent.test.ts",
      check: "tsc",
      "check:deploy": `everturn replay --open ${config}`,
    },
    dependencies: { everturn, libsql: "^0.5.29", zod: "^4.6.7", ...dependencies },
    devDependencies: { "@types/node": "^20.19.43", tsx: "^4.23.15", typescript: "^7.0.2", ...devDependencies },
    allowScripts: { esbuild: false },
    engines: { node: ">=20.19" },
  };
}
