// `everturn init`: the project of the template is type-checked, tested, served, and used, as its README describes. The
// page runs in a browser in test/long/template.ts.

import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { createClient } from "everturn/client";
import { afterAll, describe, expect, it } from "vitest";

import { templates } from "../src/commands/templates.ts";
import { packageVersion } from "../src/commands/version.ts";
import { createPlace, ended, says } from "./harness.ts";

const place = createPlace();
afterAll(place.remove);
const packages = fileURLToPath(new URL("../../../node_modules", import.meta.url));
const project = join(place.folder, "My App");
const node = (...argv: readonly string[]) => promisify(execFile)(process.execPath, argv, { cwd: project });

/**
 * The paths of modules and of all that they import, fetched as a browser does. Imports of packages are those of the
 * import map.
 */
async function modulesOf(url: string, paths: readonly string[]): Promise<readonly string[]> {
  const found = new Set(paths);
  for (const path of found) {
    const response = await fetch(`${url}${path}`);
    expect([path, response.headers.get("content-type")]).toEqual([path, "text/javascript; charset=utf-8"]);
    const imported = [...(await response.text()).matchAll(/^(?:import|export)\b[^"]*\bfrom "([^"]+)"/gm)];
    for (const [, name = ""] of imported) {
      if (name.startsWith(".")) found.add(new URL(name, `${url}${path}`).pathname);
      else expect(name).toBe("everturn/client");
    }
  }
  return [...found];
}

describe("the project of everturn init", () => {
  it("is created, trusted, and never overwrites a file", async () => {
    const { code, stdout } = await place.run(["init", "My App"]);
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/created \S+My App\n {2}package\.json\n[\s\S]*cd 'My App'\n {2}npm install\n {2}npm start/),
    ]);
    const { name, scripts, dependencies } = JSON.parse(readFileSync(join(project, "package.json"), "utf8"));
    expect([name, scripts.start, dependencies.everturn]).toEqual([
      "my-app",
      "everturn serve --config everturn.config.ts",
      `^${packageVersion()}`,
    ]);
    expect(readFileSync(join(project, "README.md"), "utf8")).toMatch(/^# my-app\n/);
    expect(readdirSync(project)).toContain(".gitignore");
    symlinkSync(packages, join(project, "node_modules"));

    const trusted = JSON.parse(readFileSync(join(place.folder, "everturn", "trusted.json"), "utf8"));
    expect(Object.keys(trusted.folders[project]["everturn.config.ts"])).toEqual([
      "everturn.config.ts",
      "src/agent.ts",
      "src/tools.ts",
    ]);

    const again = await place.run(["init", "My App"]);
    expect([again.code, again.stderr]).toEqual([
      2,
      expect.stringMatching(/already has package\.json, .*; nothing was written/),
    ]);
    mkdirSync(join(place.folder, "other"));
    writeFileSync(join(place.folder, "other", "tsconfig.json"), "mine");
    expect((await place.run(["init", "other"])).code).toBe(2);
    expect(readdirSync(join(place.folder, "other"))).toEqual(["tsconfig.json"]);
    // A second configuration file would make every command fail.
    mkdirSync(join(place.folder, "configured"));
    writeFileSync(join(place.folder, "configured", "everturn.config.json"), "{}");
    const configured = await place.run(["init", "configured"]);
    expect([configured.code, configured.stderr]).toEqual([
      2,
      expect.stringMatching(/already has everturn\.config\.json; nothing was written/),
    ]);
    expect(readdirSync(join(place.folder, "configured"))).toEqual(["everturn.config.json"]);
  });

  it.each(templates)("(%s) has the files that its scripts and settings name", async (template) => {
    const folder = join(place.folder, `of ${template}`);
    const { code } = await place.run(["init", folder, "--template", template]);
    expect(code).toBe(0);
    const files = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
    expect(files).toEqual(
      expect.arrayContaining(["README.md", "everturn.config.ts", "src/agent.ts", "test/agent.test.ts"]),
    );
    const read = (file: string) => readFileSync(join(folder, file), "utf8");
    const { scripts, dependencies, devDependencies } = JSON.parse(read("package.json"));
    expect(scripts).toMatchObject({ start: expect.any(String), test: expect.any(String), check: "tsc" });
    // Every package that a file imports is a dependency, and every file that it imports exists.
    const installed = [...Object.keys(dependencies), ...Object.keys(devDependencies)];
    for (const file of files.filter((name) => /\.tsx?$/.test(name))) {
      const imports = [...read(file).matchAll(/(?:\bfrom |\bimport\(|^import )"([^"]+)"/gm)].map(
        ([, name = ""]) => name,
      );
      for (const name of imports.filter((item) => !item.startsWith("node:"))) {
        if (name.startsWith(".")) expect(files).toContain(join(dirname(file), name));
        else expect(installed).toContain(/^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0]);
      }
    }
    expect(files.filter((file) => read(file).includes("{{"))).toEqual([]);
  });

  it("type-checks, and its test passes", async () => {
    // The compiler and a test process take seconds on an idle machine, and more than the default limit on a busy one.
    // The condition "source" makes the compiler read the sources of the library, with one of their settings, in place
    // of its built declarations. A package of the MCP SDK has that condition too, and its sources need other settings.
    const compiled = node(
      join(packages, "typescript/bin/tsc"),
      "--customConditions",
      "source",
      "--exactOptionalPropertyTypes",
    );
    const [errors, tests] = await Promise.all([
      compiled.then(
        ({ stdout }) => stdout,
        (error: { readonly stdout: string }) => error.stdout,
      ),
      node("--import", "tsx", "--test", "test/agent.test.ts"),
    ]);
    expect(errors.split("\n").filter((line) => line !== "" && !line.includes("/node_modules/eventsource/"))).toEqual(
      [],
    );
    expect(tests.stdout).toMatch(/[#ℹ] pass 1\n[#ℹ] fail 0\n/);
  }, 120_000);

  it("serves the page and the sessions, and runs the tool after its approval", async () => {
    const child = place.start(["serve", "--config", join(project, "everturn.config.ts"), "--port", "0"]);
    const output = await says(child.stdout, /The page is at http:\S+\n/);
    const url = /http:\S+/.exec(output)?.[0] ?? "";
    expect(output).toMatch(new RegExp(`The page is at ${url}/#code=\\S+\\n`));
    const token = readFileSync(join(place.folder, "everturn", "token"), "utf8").trim();
    const page = await (await fetch(url)).text();
    expect(page).toContain(`<script type="module" src="chat.js"></script>`);
    const imports = await modulesOf(
      url,
      [...page.matchAll(/": "(\S+\.js)"/g)].map(([, path = ""]) => path),
    );
    expect(imports).toEqual(expect.arrayContaining(["/everturn/client.js"]));
    expect((await modulesOf(url, ["/chat.js"])).toSorted()).toEqual(["/chat.js", "/server.js", "/view.js"]);
    const client = createClient({ url, token });
    await (
      await client.start("book_table", { id: "s1" })
    ).result;
    const [pending] = (await client.get("s1"))?.session.pendingToolCalls ?? [];
    expect(pending).toMatchObject({ name: "book_table", arguments: { name: "Ada", guests: 2 } });
    const approved = await client.decide("s1", pending?.id ?? "", { type: "approve", digest: pending?.digest ?? "" });
    expect((await approved.result).text).toBe(
      "The tool returned:\n\n- `book_table`: booked a table for 2 at 20:00, for Ada",
    );
    const over = ended(child);
    child.kill("SIGTERM");
    expect((await over).code).toBe(0);
  });
});
