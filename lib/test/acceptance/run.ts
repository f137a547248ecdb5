// `npm run test:mutations -- [--jobs N] [allm] [lash:12] [allm:1-40] …`: breaks the behaviour of every row of
// docs/acceptance.md that names a test, once for each mutation of the tables in this folder, and runs the tests that
// cite the row. At least one of them must fail, and all of them must pass without the mutation. Exits with 1 if a
// mutation was not found. It works in copies of the repository in the temporary folder of the system.

import type { Mutation } from "./mutation.ts";
import type { RowId } from "./rows.ts";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { mutations, rowsWithoutMutation } from "./mutations.ts";
import { proofsOf, readAcceptance } from "./rows.ts";
import { Workspace } from "./workspace.ts";

type Verdict = { readonly mutation: Mutation; readonly row: RowId; readonly problem: string | null };

const root = join(import.meta.dirname, "../../..");
const { jobs, isSelected } = readArguments(process.argv.slice(2));
const page = readAcceptance(root);
const rows = [...page.allm, ...page.lash].filter(({ id }) => isSelected(id));
const proving = new Map(
  rows.flatMap(({ id, status }) => (proofsOf(status).length > 0 ? [[id, proofsOf(status)]] : [])),
);
const selected = mutations.filter((mutation) => mutation.rows.some((row) => proving.has(row)));
const folder = mkdtempSync(join(tmpdir(), "everturn-mutations-"));
const workspaces: Workspace[] = [];
const problems: string[] = [];
const stopping = new AbortController();

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    stopping.abort();
    for (const workspace of workspaces) workspace.stop();
  });
}

try {
  const first = Workspace.copy(root, join(folder, "1"));
  workspaces.push(first);
  await first.build();
  problems.push(...(await checkWithoutMutation(first)));
  for (let job = 2; job <= Math.min(jobs, selected.length); job += 1) {
    const next = Workspace.copy(root, join(folder, String(job)));
    next.takeBuild(first);
    workspaces.push(next);
  }
  const queue = [...selected];
  await Promise.all(
    workspaces.map(async (workspace) => {
      for (let next = queue.shift(); next !== undefined && !stopping.signal.aborted; next = queue.shift()) {
        for (const { row, problem, mutation } of await check(workspace, next)) {
          console.log(`${problem === null ? "found   " : "SURVIVED"} [${row}] ${mutation.defect}`);
          if (problem !== null) problems.push(`[${row}] ${mutation.defect} (${mutation.file}): ${problem}`);
        }
      }
    }),
  );
} finally {
  for (const workspace of workspaces) workspace.stop();
  rmSync(folder, { recursive: true, force: true });
}

const broken = new Set(selected.flatMap((mutation) => mutation.rows).filter((row) => proving.has(row)));
const without = rowsWithoutMutation.filter((row) => proving.has(row));
if (problems.length > 0) console.log(`\nnot found:\n${problems.map((line) => `  ${line}`).join("\n")}`);
console.log(
  [
    "",
    `${rows.length} rows: ${proving.size} name tests, ${rows.length - proving.size} name none (dropped, or adapted without a test)`,
    `${broken.size} rows broken by ${selected.length} mutations, ${without.length} rows not yet broken`,
    `${problems.length} problems`,
  ].join("\n"),
);
process.exit(problems.length === 0 && !stopping.signal.aborted ? 0 : 1);

/** Runs the cited tests of all selected rows on the unchanged code. */
async function checkWithoutMutation(workspace: Workspace): Promise<readonly string[]> {
  const files = [...new Set([...proving.values()].flat())];
  const { passed, failed, broken } = await workspace.test(files, [...proving.keys()]);
  const uncited = [...proving.keys()].filter((row) => !passed.some((title) => title.includes(`[${row}]`)));
  return [
    ...failed.map((title) => `fails without a mutation: ${title}`),
    ...broken.map((file) => `cannot be loaded: ${file}`),
    ...uncited.map((row) => `[${row}]: no test that cites it passes without a mutation`),
  ];
}

/** Applies a mutation and runs the cited tests of each of its rows. */
function check(workspace: Workspace, mutation: Mutation): Promise<readonly Verdict[]> {
  return workspace.with(mutation, async () => {
    const verdicts: Verdict[] = [];
    for (const row of mutation.rows) {
      const files = proving.get(row);
      if (files === undefined || stopping.signal.aborted) continue;
      const { failed, broken, passed } = await workspace.test(files, [row]);
      const problem =
        failed.length > 0
          ? null
          : broken.length > 0
            ? `a file cannot be loaded: ${broken.join("; ")}`
            : `the ${passed.length} tests that cite the row pass`;
      verdicts.push({ mutation, row, problem });
    }
    return verdicts;
  });
}

function readArguments(args: readonly string[]) {
  const at = args.indexOf("--jobs");
  const jobs = at === -1 ? 2 : Number(args[at + 1]);
  if (!Number.isSafeInteger(jobs) || jobs < 1) throw new Error(`--jobs takes a positive integer, not ${args[at + 1]}`);
  const filters = args
    .filter((_, index) => at === -1 || (index !== at && index !== at + 1))
    .map((text) => {
      const [, list, from, to] = /^(allm|lash)(?::(\d+)(?:-(\d+))?)?$/.exec(text) ?? [];
      if (list === undefined) throw new Error(`"${text}" is no row: give allm, lash, allm:12 or lash:1-40`);
      return { list, from: Number(from ?? 1), to: Number(to ?? from ?? Infinity) };
    });
  const isSelected = (id: RowId): boolean => {
    const [list, number] = id.split(" ");
    return (
      filters.length === 0 ||
      filters.some((each) => each.list === list && each.from <= Number(number) && Number(number) <= each.to)
    );
  };
  return { jobs, isSelected };
}
