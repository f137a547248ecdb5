// Reads the behaviour tables of docs/acceptance.md.

import { readFileSync } from "node:fs";
import { join } from "node:path";

/** A row of a behaviour table. `id` is what test titles cite in brackets: `allm 12`, `lash 24`. */
type Row = {
  readonly id: RowId;
  readonly list: RowList;
  readonly number: number;
  readonly status: string;
};

type RowList = "allm" | "lash";
export type RowId = `${RowList} ${number}`;

/** The page and its three tables. */
export type AcceptancePage = {
  readonly text: string;
  readonly allm: readonly Row[];
  readonly lash: readonly Row[];
  /** The section of the names. */
  readonly names: string;
};

export function readAcceptance(root: string): AcceptancePage {
  const text = readFileSync(join(root, "docs/acceptance.md"), "utf8");
  const [, allm = "", lash = "", names = ""] = text.split(/^## .*$/m);
  return { text, allm: behaviourRows("allm", allm), lash: behaviourRows("lash", lash), names };
}

/** The cells of a line of a table. */
export function cells(line: string): readonly string[] {
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim());
}

/** The test files that a status names. */
export function proofsOf(status: string): readonly string[] {
  return [...status.matchAll(/`([^`]+\.test\.ts)`/g)].flatMap(([, file]) => file ?? []);
}

function behaviourRows(list: RowList, part: string): readonly Row[] {
  return part.split("\n").flatMap((line) => {
    const [first, , status] = cells(line);
    const number = Number(first);
    return /^\| \d+ \|/.test(line) && status !== undefined ? [{ id: `${list} ${number}`, list, number, status }] : [];
  });
}
