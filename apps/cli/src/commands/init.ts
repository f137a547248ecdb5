// `everturn init`: writes a small project: an agent with one tool, a test with a scripted model, a durable server and a
// page. `npm create everturn` runs it.
//
// A template is a folder of the package (`lib/templates`). `app` has a page without a bundler. The others have its agent and
// its test, and a page of their own. Files that are settings are built here: package.json
// names the version of this package, and npm leaves files named `.gitignore` out of packages. Files of the user are
// never overwritten: if one of the files exists, nothing is written.

import type { CommandContext } from "./context.ts";
import type { Template } from "./templates.ts";

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, relative, resolve } from "node:path";

import { configFilesIn, findConfig, systemOf, trustConfig } from "@everturn/server";

import { safeText } from "../terminal/safe-text.ts";
import { UsageError } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
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
    [".gitignore", request.template === "app" ? "node_modules/\ndata/\n" : "node_modules/\ndata/\ndist/\n"],
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
  const shared = filesOf(name, "app").filter(([path]) => template === "app" || /^(?:src|test)\//.test(path));
  return template === "app" ? shared : [...shared, ...filesOf(name, template)];
}

function filesOf(name: string, template: Template): readonly (readonly [path: string, text: string])[] {
  const root = join(dirname(createRequire(import.meta.url).resolve("everturn/package.json")), "templates", template);
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry): readonly [string, string] => {
      const file = join(entry.parentPath, entry.name);
      const path = relative(root, file).replaceAll("\\", "/");
      return [path, readFileSync(file, "utf8").replaceAll("{{name}}", name)];
    })
    .toSorted(([left], [right]) => (left < right ? -1 : 1));
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

/** Node removes types without looking at them, so only erasable syntax, and imports with the extension `.ts`. */
const compilerSettings = (template: Template) => ({
  compilerOptions: {
    target: "ES2023",
    module: "NodeNext",
    lib: ["ES2023", "DOM"],
    ...(template === "app" ? {} : { jsx: "react-jsx" }),
    types: ["node"],
    strict: true,
    noEmit: true,
    allowImportingTsExtensions: true,
    erasableSyntaxOnly: true,
    verbatimModuleSyntax: true,
    skipLibCheck: true,
  },
  include: ["everturn.config.ts", "src", "test", ...(template === "app" ? [] : ["page"])],
});

const pageDependencies = {
  "@ai-sdk/react": "^4.0.167",
  ai: "^7.0.163",
  react: "^19.2.0",
  "react-dom": "^19.2.0",
  "react-markdown": "^10.1.0",
} as const;

/**
 * libsql is the SQLite driver; Node 22.13 and later have one of their own. tsx is needed before Node 22.18; its
 * compiler works without its install script.
 */
function manifest(name: string, everturn: string, template: Template): object {
  const config = "--config everturn.config.ts";
  return {
    name,
    private: true,
    type: "module",
    scripts: {
      ...(template === "app" ? {} : { dev: "vite", build: "vite build" }),
      start: `${template === "app" ? "" : "vite build && "}everturn serve ${config}`,
      chat: `everturn chat ${config}`,
      test: "node --import tsx --test test/agent.test.ts",
      check: "tsc",
      "check:deploy": `everturn replay --open ${config}`,
    },
    dependencies: { everturn, libsql: "^0.5.29", zod: "^4.6.7", ...(template === "app" ? {} : pageDependencies) },
    devDependencies: {
      "@types/node": "^20.19.43",
      ...(template === "app" ? {} : { "@types/react": "^19.2.0", "@types/react-dom": "^19.2.0", vite: "^8.3.5" }),
      tsx: "^4.23.15",
      typescript: "^7.0.2",
    },
    allowScripts: { esbuild: false },
    engines: { node: ">=20.19" },
  };
}
