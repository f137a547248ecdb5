import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { coveredFiles } from "./covered-files.ts";
import { SettingsError } from "./setting-readers.ts";

let folder = "";
beforeEach(() => void (folder = realpathSync(mkdtempSync(join(tmpdir(), "covered-")))));
afterEach(() => rmSync(folder, { recursive: true }));

const write = (name: string, text: string): string => {
  const path = join(folder, name);
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, text);
  return path;
};
const names = (path: string) => Object.keys(coveredFiles(path)).toSorted();

describe("the digest covers", () => {
  it("files that the configuration names, and what these import, but not packages, databases and missing files", () => {
    write("tools/index.ts", `export * from "./pay.js"; import "zod"; import("./missing.ts");`);
    write("tools/pay.ts", `const url = new URL('../prompt.md', import.meta.url); /* it's */ require("./old.cjs")`);
    write("tools/old.cjs", "");
    write("prompt.md", "Be kind.");
    write("node_modules/zod/index.js", "");
    write("node_modules/near/index.js", "");
    write("sessions.db", "");
    write("voice", "Speak softly.");
    const path = write(
      "everturn.config.ts",
      `// don't trip over this apostrophe\nimport * as tools from "./tools";\nimport "./node_modules/near/index.js";
       export default { tools: ["more.mjs"], database: "sessions.db", instructions: "@voice", model: "openai:m" };`,
    );
    write("more.mjs", `export { a } from "./deep.mjs"; const notes = "notes.txt";`);
    write("deep.mjs", `import "./more.mjs"`);
    write("notes.txt", "A bare name in a module is a package, not a file.");
    expect(names(path)).toEqual([
      "deep.mjs",
      "everturn.config.ts",
      "more.mjs",
      "prompt.md",
      "tools/index.ts",
      "tools/old.cjs",
      "tools/pay.ts",
      "voice",
    ]);
  });

  it("files that a JSON configuration names", () => {
    write("tools.mjs", "");
    expect(names(write("everturn.config.json", `{ "tools": "./tools.mjs" }`))).toEqual([
      "everturn.config.json",
      "tools.mjs",
    ]);
  });

  it.each([
    ["an escape sequence", String.raw`import "./\x74ools.mjs";`],
    ["an escape sequence of a code point", String.raw`import "./\u{74}ools.mj\u0073";`],
    ["a continued line", 'import "./to\\\nols.mjs";'],
    ["percent-encoding", `import "./%74ools.mjs?version=2#part";`],
    ["the name of an entry of imports", `import "#tools";`],
    ["a pattern of imports", `import "#lib/tools";`],
    ["the name of the package", `import "my-app/tools";`],
  ])("a module that is named by %s", (_, text) => {
    write("tools.mjs", "");
    const imports = { "#tools": { node: ["./tools.mjs"], default: "zod" }, "#lib/*": "./*.mjs" };
    write("package.json", JSON.stringify({ name: "my-app", imports, exports: { "./tools": "./tools.mjs" } }));
    expect(names(write("everturn.config.mjs", text))).toContain("tools.mjs");
  });

  it("package.json if a name is resolved by it, and not otherwise", () => {
    write("package.json", JSON.stringify({ name: "my-app", imports: { "#tools": "./tools.mjs" } }));
    expect(names(write("everturn.config.mjs", `import "#tools"; import "zod";`))).toContain("package.json");
    expect(names(write("everturn.config.mjs", `import "zod"; const colour = "#fff";`))).not.toContain("package.json");
  });

  it("a module that is named by a file: URL, also outside of the folder", () => {
    const path = write("shared/tools.mjs", "");
    const config = write("project/everturn.config.mjs", `import "${pathToFileURL(path).href}"; import "file:";`);
    expect(names(config)).toEqual(["../shared/tools.mjs", "everturn.config.mjs"]);
  });

  it("every file that a name may resolve to", () => {
    write("tools.js", "");
    write("tools.ts", "");
    expect(names(write("everturn.config.ts", `import "./tools.js";`))).toEqual([
      "everturn.config.ts",
      "tools.js",
      "tools.ts",
    ]);
  });

  it.each([
    ["a Python program", { command: "python3", args: ["server.py"] }, "server.py"],
    ["a path to a script", { command: "./run.sh" }, "run.sh"],
    ["a program without an extension", { command: "bin/server" }, "bin/server"],
    [
      "a part of a shell command",
      { command: "sh", args: ["-c", "cd . && ruby tools/mail.rb --quiet"] },
      "tools/mail.rb",
    ],
    ["the value of an option", { command: "python3", args: ["--script=server.py"] }, "server.py"],
    [
      "a file in the working directory of the program",
      { command: "python3", args: ["mail.py"], cwd: "tools" },
      "tools/mail.py",
    ],
    ["a module in the working directory", { command: "node", args: ["mail.mjs"], cwd: "./tools" }, "tools/mail.mjs"],
    ["a Python module", { command: "python3", args: ["-m", "package.server"] }, "package/server.py"],
    ["the main module of a Python package", { command: "python3", args: ["-m", "package"] }, "package/__main__.py"],
  ])("a program that the configuration starts: %s", (_, server, covered) => {
    write(covered, "");
    expect(names(write("everturn.config.json", JSON.stringify({ mcpServers: { a: server } }, null, 2)))).toEqual(
      ["everturn.config.json", covered].toSorted(),
    );
  });

  it("what such a program names: scripts, and the Python modules that it imports", () => {
    write("run.sh", "#!/bin/sh\n. lib/common.sh\nexec python3 server.py");
    write("lib/common.sh", "./lib/extra.sh");
    write("lib/extra.sh", "");
    write("server.py", "import os, helper\nfrom package.deep import run\nfrom . import sibling\n  import late as l");
    for (const name of ["helper.py", "package/__init__.py", "package/deep.py", "sibling.py", "late.py", "unused.py"])
      write(name, "");
    const config = write("everturn.config.json", `{ "mcpServers": { "a": { "command": "./run.sh" } } }`);
    expect(names(config)).toEqual([
      "everturn.config.json",
      "helper.py",
      "late.py",
      "lib/common.sh",
      "lib/extra.sh",
      "package/__init__.py",
      "package/deep.py",
      "run.sh",
      "server.py",
      "sibling.py",
    ]);
  });

  it("a program that a module of the configuration starts, in the folder of the configuration", () => {
    write("server.py", "");
    write("tools/start.mjs", `connectMcp({ server: { command: "python3", args: ["server.py"] } });`);
    expect(names(write("everturn.config.mjs", `import "./tools/start.mjs";`))).toContain("server.py");
  });

  it("no database without an extension, no data, and no program of the system", () => {
    write("sessions", "SQLite format 3\0…");
    write("orders.csv", "");
    const config = write(
      "everturn.config.json",
      `{ "database": "sessions", "mcpServers": { "a": { "command": "${process.execPath}", "args": ["orders.csv"] } } }`,
    );
    expect(names(config)).toEqual(["everturn.config.json"]);
  });

  it("what a linked module imports beside its own file", () => {
    write("real/config.mjs", `import "./sibling.mjs";`);
    write("real/sibling.mjs", "");
    mkdirSync(join(folder, "project"));
    symlinkSync(join(folder, "real/config.mjs"), join(folder, "project/everturn.config.mjs"));
    expect(names(join(folder, "project/everturn.config.mjs"))).toContain("../real/sibling.mjs");
  });
});

it("a configuration file that cannot be read is an error that names it", () => {
  expect(() => coveredFiles(join(folder, "missing.mjs"))).toThrow(SettingsError);
  expect(() => coveredFiles(join(folder, "missing.mjs"))).toThrow(/cannot read .*missing\.mjs/);
});
