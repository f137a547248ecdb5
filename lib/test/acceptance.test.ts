// Checks docs/acceptance.md: the lists are complete, every status is one of four, the named tests exist and cite the
// row, every row that names a test has a mutation that breaks it (acceptance/run.ts applies them), and every name
// marked `exported` is exported.

import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import { beforeAll, describe, expect, test } from "vitest";

import { eventTypes } from "../src/core/model/internal.ts";
import { mutated } from "./acceptance/mutation.ts";
import { mutations, rowsWithoutMutation } from "./acceptance/mutations.ts";
import { cells, proofsOf, readAcceptance } from "./acceptance/rows.ts";

const root = join(import.meta.dirname, "../..");
const { text: page, allm, lash, names: namePart } = readAcceptance(root);
const behaviour = [...allm, ...lash];
const names = nameRows(namePart);
const titlesByFile = await readTitles();

describe("the lists are complete", () => {
  test("ALLM has 124 rows, lash 100, each once and in order", () => {
    expect(allm.map((row) => row.number)).toEqual(Array.from({ length: 124 }, (_, index) => index + 1));
    expect(lash.map((row) => row.number)).toEqual(Array.from({ length: 100 }, (_, index) => index + 1));
  });

  test("every line of every table is parsed", () => {
    const lines = page.split("\n").filter((line) => line.startsWith("| ") && !/^\| (?:---|#|source) /.test(line));
    expect(behaviour.length + names.length).toBe(lines.length);
    expect(names.length).toBeGreaterThan(600);
  });

  test("no name is listed twice", () => {
    const keys = names.map(({ kind, name }) => `${kind} ${name}`);
    expect(keys.filter((key, index) => keys.indexOf(key) < index)).toEqual([]);
  });
});

describe("totals", () => {
  const statuses = ["proved", "adapted", "dropped", "not yet", "exported"] as const;
  const totals = (rows: readonly { readonly status: string }[], things: string) => {
    const counts = statuses.map((word) => [word, rows.filter(({ status }) => status.startsWith(word)).length] as const);
    const parts = counts.filter(([, count]) => count > 0).map(([word, count]) => `${count} ${word}`);
    return `${rows.length} ${things}: ${parts.join(", ")}`;
  };

  test.each([
    ["ALLM", totals(allm, "behaviours")],
    ["lash", totals(lash, "behaviours")],
    ["Names", totals(names, "names")],
  ])("the page states the totals of its rows: %s", (list, line) => {
    expect(page.split("\n").filter((text) => text.startsWith(`- ${list}: `))).toEqual([`- ${list}: ${line}`]);
  });
});

describe("mutations", () => {
  const proving = behaviour.filter(({ status }) => proofsOf(status).length > 0);
  const broken = new Set(mutations.flatMap(({ rows }) => rows));

  test("every row that names a test is broken by a mutation, or listed as not yet broken", () => {
    const listed = new Set(rowsWithoutMutation);
    expect(proving.map(({ id }) => id).filter((id) => !broken.has(id) && !listed.has(id))).toEqual([]);
    expect(rowsWithoutMutation.filter((id) => broken.has(id))).toEqual([]);
  });

  test("every mutation breaks rows that name a test", () => {
    const ids = new Set(proving.map(({ id }) => id));
    expect([...broken, ...rowsWithoutMutation].filter((id) => !ids.has(id))).toEqual([]);
  });

  test.each(mutations)("$rows: the text that is replaced is in $file once: $defect", (mutation) => {
    expect(mutated(root, mutation)).toContain(mutation.to);
  });

  test("the page states the totals of the mutations", () => {
    const without = behaviour.length - proving.length;
    const open = rowsWithoutMutation.length;
    const line = `- Mutations: ${mutations.length} mutations break ${broken.size} of ${proving.length} rows that name a test; ${open} rows are not yet broken, ${without} rows name no test`;
    expect(page.split("\n").filter((text) => text.startsWith("- Mutations: "))).toEqual([line]);
  });
});

test("[allm 18] the page states the number of event types", () => {
  expect(allm[17]?.status).toContain(`one union of ${eventTypes.length};`);
});

test("[lash 59] the sixteen session events of lash are mapped to events that exist", async () => {
  const guide = await readFile(join(root, "docs/coming-from-allm-and-lash.md"), "utf8");
  const [, section = ""] = guide.split("### Session events");
  const mapped = section.split("\n").flatMap((row) => {
    const [source, target] = cells(row);
    return target !== undefined && source?.startsWith("`") === true ? [{ source, target }] : [];
  });
  expect(mapped.map(({ source }) => source.replaceAll("`", ""))).toEqual([
    "text_delta",
    "reasoning_delta",
    "tool_call_start",
    "tool_call",
    "message",
    "llm_request",
    "llm_response",
    "token_usage",
    "child_token_usage",
    "retry_status",
    "injected_turn_input_accepted",
    "injected_messages_committed",
    "plugin_event",
    "turn_outcome",
    "done",
    "error",
  ]);
  // `log` is a notice of the turn machine and `outcome` a field of the result.
  const words = mapped.flatMap(({ target }) => [...target.matchAll(/`(\w+)`/g)].map(([, word = ""]) => word));
  expect(words.filter((word) => !eventTypes.some((type) => type === word))).toEqual(["log", "outcome"]);
});

describe("statuses", () => {
  test.each(behaviour)("$list $number: $status", ({ list, number, status }) => {
    const files = "`[^`]+`(?:, `[^`]+`)*";
    expect(status).toMatch(
      new RegExp(`^(?:proved by ${files}|adapted \\(.{10,}\\)(?: ${files})?|dropped \\(.{10,}\\)|not yet)$`),
    );
    for (const file of proofsOf(status)) {
      expect(citations(file), `${file} cites it in a title`).toContain(`[${list} ${number}]`);
    }
  });

  test("every row names the test that cites it", () => {
    const named = new Set(
      behaviour.flatMap(({ list, number, status }) => proofsOf(status).map((file) => `[${list} ${number}] ${file}`)),
    );
    const files = new Set(behaviour.flatMap(({ status }) => proofsOf(status)));
    const unnamed = [...titlesByFile.keys()]
      .filter((file) => files.has(file))
      .flatMap((file) => citations(file).map((citation) => `${citation} ${file}`))
      .filter((citation) => !named.has(citation));
    expect(unnamed).toEqual([]);
  });

  test('no test cites a row with the status "not yet"', () => {
    const open = new Set(
      behaviour.filter((row) => row.status === "not yet").map((row) => `[${row.list} ${row.number}]`),
    );
    const cited = [...titlesByFile.keys()].flatMap((file) => citations(file));
    expect(cited.filter((citation) => open.has(citation))).toEqual([]);
  });

  test.each(names.filter(({ status }) => status !== "exported"))("name $name: $status", ({ status }) => {
    expect(status).toMatch(/^(?:adapted \(.{10,}\)|dropped \(.{10,}\)|not yet)$/);
  });
});

describe("every exported name", () => {
  const present = names.filter(({ status, target }) => status !== "not yet" && target !== null);
  const workplace = join(root, "lib/.snippets/names");
  let broken: ReadonlySet<number> = new Set();

  beforeAll(async () => {
    await rm(workplace, { recursive: true, force: true });
    await mkdir(workplace, { recursive: true });
    const lines = present.map(({ target }, index) => checkOf(target ?? "", index));
    await writeFile(join(workplace, "all.ts"), 'export * from "everturn";\nexport * from "everturn/advanced";\n');
    await writeFile(join(workplace, "names.ts"), `${preamble}${lines.join("\n")}\n`);
    const config = { extends: "../../../tsconfig.test.json", include: ["*.ts"] };
    await writeFile(join(workplace, "tsconfig.json"), JSON.stringify(config));
    broken = await brokenLines(workplace);
  });

  test.each(present.map((row, index) => ({ ...row, index })))("[source $name] is $target", ({ index }) => {
    expect(broken.has(index + preambleLength)).toBe(false);
  });

  test("every name is missed if the package does not have it", async () => {
    // The name of each row with one more letter, which no export, field or word has.
    const missing = present.map(({ target }, index) => checkOf((target ?? "").replace(/"?$/, "Z$&"), index));
    await writeFile(join(workplace, "names.ts"), `${preamble}${missing.join("\n")}\n`);
    const missed = await brokenLines(workplace);
    expect(present.filter((_, index) => !missed.has(index + preambleLength))).toEqual([]);
    expect(missed.size).toBe(present.length);
  });
});

const preamble = [
  'import type * as names from "./all.ts";',
  "export type All = typeof names;",
  "export type Words<T> = T extends string ? T : T extends { type: infer W } ? W : T extends { role: infer W } ? W : never;",
  "",
].join("\n");
const preambleLength = preamble.split("\n").length;

/**
 * Builds a line that compiles exactly when the name exists. A name is `Type.field`, `Type "word"`, `Type.field "word"`,
 * `Type` or `value`. A verb of a session has the prefix `session:`.
 */
function checkOf(named: string, index: number): string {
  const isOfSession = /^session:[a-z]/.test(named);
  const target = named.replace(/^session:/, "");
  const word = /^(\w+) "(\w+)"$/.exec(target);
  if (word !== null) return `export const n${index}: Words<names.${word[1]}> = "${word[2]}";`;
  const fieldWord = /^(\w+)\.(\w+) "(\w+)"$/.exec(target);
  if (fieldWord !== null) {
    return `export const n${index}: Words<names.${fieldWord[1]}["${fieldWord[2]}"]> = "${fieldWord[3]}";`;
  }
  const field = /^(\w+)\.(\w+)$/.exec(target);
  if (field !== null) return `export type n${index} = names.${field[1]}["${field[2]}"];`;
  return /^[a-z]/.test(target)
    ? `export type n${index} = typeof names.${isOfSession ? "session." : ""}${target};`
    : `export type n${index} = names.${target};`;
}

async function brokenLines(project: string): Promise<ReadonlySet<number>> {
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const checked = promisify(execFile)(process.execPath, [tsc, "-p", project], { cwd: project });
  const output = await checked.then(
    () => "",
    (error: { readonly stdout: string }) => error.stdout,
  );
  return new Set([...output.matchAll(/names\.ts\((\d+),/g)].map((match) => Number(match[1])));
}

function nameRows(part: string) {
  return part.split("\n").flatMap((line) => {
    const [, kind, name, everturn, status] = cells(line);
    if (!/^\| 00\d \|/.test(line) || name === undefined || status === undefined) return [];
    const target = /^`([^`]+)`$/.exec(everturn ?? "")?.[1] ?? null;
    return [{ kind, name: name.replaceAll("`", ""), target, status }];
  });
}

function citations(file: string): readonly string[] {
  return [...(titlesByFile.get(file) ?? "").matchAll(/\[(?:allm|lash) \d+\]/g)].map(([citation]) => citation);
}

/** The test titles of each file. */
async function readTitles(): Promise<ReadonlyMap<string, string>> {
  const below = await readdir(join(root, "lib"), { recursive: true });
  const files = below.filter((name) => name.endsWith(".test.ts") && !name.includes("node_modules"));
  const read = files.map(async (name): Promise<[string, string]> => {
    const source = await readFile(join(root, "lib", name), "utf8");
    const titles = source.matchAll(/\b(?:test|describe)(?:\.each\([^]*?\))?\(\s*(["'`])(.*?)\1/g);
    return [`lib/${name}`, [...titles].map((match) => match[2]).join("\n")];
  });
  return new Map(await Promise.all(read));
}
