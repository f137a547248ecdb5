// Checks what ARCHITECTURE.md, CONTRIBUTING.md and the pages that they refer to claim about the code: the files they
// name exist, and the batches of the durable walk write the tables that ARCHITECTURE.md lists. Also that
// docs/glossary.md defines every stored table, and that documents which people read from the beginning to the end stay
// short.

import type { HostStorage } from "everturn/runtime";

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { engine, fake, tool } from "everturn";
import { storageTables } from "everturn/advanced";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const folders = ["lib/src", "lib/templates", "lib/test", "apps/server/src", "apps/cli", "bench", "tools"];
const sourceFiles = folders
  .flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((path) => `${folder}/${path}`),
  )
  .filter((path) => path.endsWith(".ts") && !path.includes("node_modules"));

test.each([
  ["ARCHITECTURE.md", 15_000],
  ["CONTRIBUTING.md", 8_000],
  ["AGENTS.md", 3_000],
  ["README.md", 10_000],
])("%s has at most %i bytes", (document, most) => {
  expect(Buffer.byteLength(readFileSync(join(root, document)))).toBeLessThanOrEqual(most);
});

describe.each(["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/recipes.md", "docs/maintaining.md", "docs/rules.md"])(
  "%s",
  (document) => {
    const text = readFileSync(join(root, document), "utf8");
    const named = [
      ...new Set([...text.matchAll(/`(?<path>[\w/.-]+\.ts)`/g)].map((match) => match.groups?.["path"] ?? "")),
    ];

    test("names source files", () => {
      expect(named.length).toBeGreaterThan(3);
    });

    test.each(named)("%s exists", (path) => {
      expect(sourceFiles.some((file) => `/${file}`.endsWith(`/${path}`))).toBe(true);
    });
  },
);

describe("the checklists of CONTRIBUTING.md", () => {
  const items = readFileSync(join(root, "CONTRIBUTING.md"), "utf8")
    .split("\n")
    .filter((line) => line.startsWith("- [ ] "));
  const quoted = items.flatMap((item) =>
    [...item.matchAll(/`(?<text>[^`]+)`/g)].map((match) => match.groups?.["text"] ?? ""),
  );
  const paths = quoted.filter((text) => text.includes("/"));
  const commands = quoted.filter((text) => text.startsWith("npm "));

  test("name paths and commands", () => {
    expect(items.length).toBeGreaterThan(15);
    expect(paths.length).toBeGreaterThan(15);
    expect(commands.length).toBeGreaterThan(2);
  });

  test.each(paths)("%s exists", (path) => {
    expect(["", "lib", "lib/src"].some((folder) => existsSync(join(root, folder, path)))).toBe(true);
  });

  test.each(commands)("%s is a script", (command) => {
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    expect(Object.keys(scripts)).toContain(/^npm run (?<name>\S+)$/.exec(command)?.groups?.["name"]);
  });
});

describe("docs/glossary.md", () => {
  const rows = readFileSync(join(root, "docs/glossary.md"), "utf8")
    .split("\n")
    .map((line) => /^\| `(?<table>\w+)` +\| (?<key>[\w, ]+?) +\|/.exec(line)?.groups)
    .filter((groups) => groups !== undefined);

  test("defines every stored table with the columns of its key", () => {
    const defined = rows.map(({ table, key }) => [table, key?.split(", ")]);
    const tables = Object.entries(storageTables).map(([name, columns]) => [name, columns.map((column) => column.name)]);
    expect(defined).toEqual(tables);
  });
});

describe("the durable walk of ARCHITECTURE.md", () => {
  /** The second sentences of its list of batches, which name the tables whose rows are put or removed. */
  const rows = readFileSync(join(root, "ARCHITECTURE.md"), "utf8")
    .split("\n")
    .map((line) => /^- \*\*[A-E]\*\* checks .*?\. Writes (?<written>.*)$/.exec(line)?.groups?.["written"])
    .filter((cell) => cell !== undefined);

  test("lists the tables that each batch writes", async () => {
    const memory: HostStorage = memoryStorage();
    type Batch = Parameters<HostStorage["write"]>[0];
    const batches: Batch[] = [];
    const host = {
      ...memory,
      write: (batch: Batch) => {
        batches.push(batch);
        return memory.write(batch);
      },
    };
    const pay = tool({ name: "pay", description: "Pays.", schema: { type: "object" }, handler: () => "paid" });
    const usage = { inputTokens: 10, outputTokens: 5 };
    const scripts = [
      [{ type: "text", text: "Hello." } as const],
      [{ type: "tool_call", name: "pay" } as const],
      [{ type: "text", text: "Paid." } as const],
    ];
    const agent = engine({ adapter: fake({ scripts, usage }), model: "fake:m", tools: [pay] });
    const sessions = runtime({ host, engines: { default: agent } });
    await (
      await sessions.start("Hello.", { id: "s1" })
    ).result;
    batches.length = 0;

    await (
      await sessions.reply("s1", "Pay the bill.", { key: "k1" })
    ).result;
    await sessions.close();
    const written = batches
      .filter(({ lasting }) => lasting !== false)
      .map(({ puts, removals }) => tableNames([...puts, ...removals]));
    expect(rows.map(namesIn)).toEqual(written);
  });

  function tableNames(changes: readonly { readonly table: string }[]): readonly string[] {
    return [...new Set(changes.map(({ table }) => table))].sort();
  }

  function namesIn(cell: string): readonly string[] {
    const quoted = [...cell.matchAll(/`(?<name>\w+)`/g)].map((match) => match.groups?.["name"] ?? "");
    return tableNames(quoted.filter((name) => Object.hasOwn(storageTables, name)).map((table) => ({ table })));
  }
});
