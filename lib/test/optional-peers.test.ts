// Optional peer dependencies that are not installed: the error names the package to install. Each program runs in a
// folder that has the built library and its dependencies, and none of the optional packages.

import { execFile } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { afterAll, beforeAll, expect, test } from "vitest";

const run = promisify(execFile);
const library = fileURLToPath(new URL("..", import.meta.url));
let folder = "";

type Manifest = {
  readonly dependencies: { readonly [name: string]: string };
  readonly exports: { readonly [subpath: string]: unknown };
  readonly peerDependenciesMeta: { readonly [name: string]: { readonly optional?: boolean } };
};
const manifest: Manifest = JSON.parse(readFileSync(join(library, "package.json"), "utf8"));

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "peers-"));
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, "everturn"), { recursive: true });
  cpSync(join(library, "dist"), join(modules, "everturn", "dist"), { recursive: true });
  cpSync(join(library, "package.json"), join(modules, "everturn", "package.json"));
  for (const name of Object.keys(manifest.dependencies)) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(realpathSync(join(library, "..", "node_modules", name)), join(modules, name), "dir");
  }
}, 60_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a program and returns what it writes to standard error, which has the message of an uncaught error. */
async function errorOf(program: string): Promise<string> {
  const path = join(folder, "program.mjs");
  writeFileSync(path, program);
  const failed = await run(process.execPath, [path], { cwd: folder }).then(
    ({ stdout }) => `no error: ${stdout}`,
    (error: unknown) => (typeof error === "object" && error !== null && "stderr" in error ? String(error.stderr) : ""),
  );
  return failed;
}

const cell = "```javascript\\nfinish(1)\\n```";

const programs: { readonly [name: string]: { readonly program: string; readonly expected: RegExp } } = {
  libsql: {
    program: `import { sqliteStorage } from "everturn/sqlite";
      await sqliteStorage({ path: "x.db", driver: "libsql" }).read([{ table: "sessions", prefix: [] }]);`,
    expected: /no SQLite driver could be loaded .*npm install libsql/,
  },
  pg: {
    program: `import { postgresStorage } from "everturn/postgres";
      await postgresStorage({ url: "postgres://localhost/app" }).open();`,
    expected: /the package "pg" could not be loaded. Run "npm install pg"/,
  },
  "@restatedev/restate-sdk": {
    // On Node 20 the error about the platform would come first.
    program: `Promise.withResolvers ??= () => ({});
      import { engine, fake } from "everturn";
      import { memoryStorage } from "everturn/runtime";
      import { restateServices } from "everturn/restate";
      import { runtime } from "everturn/runtime";
      const sessions = runtime({ host: memoryStorage(), engines: { default: engine({ adapter: fake({ scripts: [] }) }) } });
      await restateServices({ sessions });`,
    expected:
      /EngineError: the package @restatedev\/restate-sdk cannot be loaded; run: npm install @restatedev\/restate-sdk/,
  },
  "@modelcontextprotocol/client": {
    program: `import { connectMcp } from "everturn/mcp";
      await connectMcp({ server: { url: "http://127.0.0.1:1/mcp" } });`,
    expected:
      /the package @modelcontextprotocol\/client cannot be loaded; run: npm install @modelcontextprotocol\/client/,
  },
  "@modelcontextprotocol/server": {
    program: `import { engine } from "everturn";
      import { serveMcpStdio } from "everturn/mcp";
      await serveMcpStdio({ agents: { ask: { engine: engine(), description: "Answers." } } });`,
    expected:
      /the package @modelcontextprotocol\/server cannot be loaded; run: npm install @modelcontextprotocol\/server/,
  },
  "@opentelemetry/api": {
    program: `import { instrument } from "everturn/otel"; instrument();`,
    expected: /Cannot find package '@opentelemetry\/api'/,
  },
  react: {
    program: `import { useConversation } from "everturn/react"; void useConversation;`,
    expected: /Cannot find package 'react'/,
  },
  "gpt-tokenizer": {
    program: `import { gptTokenizer } from "everturn/gpt-tokenizer"; await gptTokenizer()("hi");`,
    expected: /EngineError: the package gpt-tokenizer cannot be loaded; run: npm install gpt-tokenizer/,
  },
  "quickjs-emscripten-core": {
    program: `import { chat, engine, fake } from "everturn";
      import { quickjs } from "everturn/quickjs";
      const adapter = fake({ script: [{ type: "text", text: "${cell}" }] });
      await chat(engine({ adapter, model: "fake:m", protocol: { type: "code", executor: quickjs() } }), "hi");`,
    expected: /npm install quickjs-emscripten-core @jitl\/quickjs-singlefile-mjs-release-sync/,
  },
};

test.each(Object.entries(programs))(
  "without %s, the first use fails with an error that names the package",
  async (_, { program, expected }) => {
    expect(await errorOf(program)).toMatch(expected);
  },
  60_000,
);

test("the types of an entry point name an optional package only if the entry point cannot be used without it", () => {
  const named = Object.keys(manifest.exports).flatMap((subpath) => {
    const name = subpath === "." ? "index" : subpath.slice(2);
    if (!existsSync(join(library, "dist", `${name}.d.ts`))) return [];
    const files = new Set([join(library, "dist", `${name}.d.ts`)]);
    const packages = new Set<string>();
    for (const file of files) {
      const imports = readFileSync(file, "utf8").matchAll(/^(?:import|export) .* from "([^"]+)";$/gm);
      for (const [, target = ""] of imports) {
        if (target.startsWith(".")) files.add(join(dirname(file), target.replace(/\.js$/, ".d.ts")));
        else packages.add(target);
      }
    }
    return packages.size === 0 ? [] : [[subpath, ...packages]];
  });
  expect(named).toEqual([
    ["./react", "react"],
    ["./otel", "@opentelemetry/api"],
  ]);
});

test("every optional peer dependency has such an error", () => {
  const named = Object.values(programs)
    .map(({ expected }) => expected.source.replaceAll("\\", ""))
    .join(" ");
  const optional = Object.entries(manifest.peerDependenciesMeta).filter(([, { optional: isOptional }]) => isOptional);
  expect(optional.map(([name]) => name).filter((name) => !named.includes(name))).toEqual([]);
});
