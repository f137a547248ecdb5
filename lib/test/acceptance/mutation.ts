// A mutation breaks the behaviour of one or more rows of docs/acceptance.md. `npm run test:mutations` applies each of
// them and requires that a test that cites the row fails (run.ts).

import type { RowId } from "./rows.ts";

import { readFileSync } from "node:fs";
import { join } from "node:path";

export type Mutation = {
  /** The rows whose cited tests must find the mutation. Several rows that state one behaviour share a mutation. */
  readonly rows: readonly RowId[];
  /** The defect that the mutation causes. */
  readonly defect: string;
  /** The path from the root of the repository. */
  readonly file: string;
  /** The text that is replaced. It occurs exactly once in the file. */
  readonly from: string;
  readonly to: string;
  /** Bundles the package again, for tests that start it as a process. */
  readonly rebuild?: boolean;
};

/** The mutations of one file. */
export function inFile(file: string, list: readonly Omit<Mutation, "file">[]): readonly Mutation[] {
  return list.map((mutation) => ({ ...mutation, file }));
}

/** The file with the mutation. Throws if the text to replace does not occur exactly once. */
export function mutated(root: string, { file, from, to }: Mutation): string {
  const [before, after, ...more] = readFileSync(join(root, file), "utf8").split(from);
  if (before === undefined || after === undefined || more.length > 0) {
    const times = after === undefined ? "is not found" : `occurs ${more.length + 1} times`;
    throw new Error(
      `${file}: the text to replace ${times}: ${JSON.stringify(from)}. Correct the mutation in lib/test/acceptance.`,
    );
  }
  if (from === to) throw new Error(`${file}: the mutation changes nothing: ${JSON.stringify(from)}.`);
  return `${before}${to}${after}`;
}
