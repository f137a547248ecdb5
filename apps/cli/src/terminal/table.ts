// Renders Markdown tables row by row, as they stream. The headings and the first row decide the column widths; longer
// cells of later rows are wrapped inside their column. If the columns would be too narrow to read, each row becomes a
// list of `heading: cell`.

import type { FlowOptions, Run } from "./flow.ts";
import type { Style } from "./style.ts";

import { cellWidth, pad } from "./cells.ts";
import { wrapRuns } from "./flow.ts";
import { Inline } from "./inline.ts";
import { colours, plain } from "./style.ts";

export type Alignment = "left" | "right" | "centre";

/** The narrowest column, in cells. */
const leastColumn = 5;
const between = " │ ";

/** Splits a row into cells. An escaped pipe, or a pipe inside a code span, is part of its cell. */
export function cellsOf(row: string): readonly string[] {
  const cells: string[] = [];
  let cell = "";
  let inCode = false;
  const inside = row
    .trim()
    .replace(/^\|/, "")
    .replace(/(?<!\\)\|$/, "");
  for (let at = 0; at < inside.length; at += 1) {
    const char = inside.charAt(at);
    if (char === "`") inCode = !inCode;
    if (char === "\\" && inside.charAt(at + 1) === "|") {
      cell += "|";
      at += 1;
    } else if (char === "|" && !inCode) {
      cells.push(cell.trim());
      cell = "";
    } else cell += char;
  }
  return [...cells, cell.trim()];
}

/** The alignments of a delimiter row (`| --- | :---: |`); `null`: not a delimiter row. */
export function alignmentsOf(row: string): readonly Alignment[] | null {
  const cells = cellsOf(row);
  if (!cells.every((cell) => /^:?-+:?$/.test(cell))) return null;
  return cells.map((cell) => {
    if (!cell.endsWith(":")) return "left";
    return cell.startsWith(":") ? "centre" : "right";
  });
}

export class Table {
  readonly #heads: readonly string[];
  readonly #alignments: readonly Alignment[];
  readonly #options: FlowOptions;
  #widths: readonly number[] | null = null;
  #isBegun = false;

  constructor(heads: readonly string[], alignments: readonly Alignment[], options: FlowOptions) {
    this.#heads = heads;
    this.#alignments = alignments;
    this.#options = options;
  }

  /** The lines of a row; before the first row, also those of the headings. */
  row(line: string): readonly string[] {
    const rowCells = cellsOf(line);
    const last = this.#heads.length - 1;
    // Surplus cells are joined into the last column, so that no text is lost.
    const cells = this.#heads.map((_, index) =>
      index === last ? rowCells.slice(last).join(" | ") : (rowCells[index] ?? ""),
    );
    return [...this.#begin(cells), ...this.#lines(cells, plain)];
  }

  /** The headings of a table without rows. */
  end(): readonly string[] {
    return this.#isBegun ? [] : this.#begin([]);
  }

  #begin(cells: readonly string[]): readonly string[] {
    if (this.#isBegun) return this.#widths === null ? [this.#rule([3])] : [];
    this.#isBegun = true;
    const wanted = this.#heads.map((head, index) => Math.max(3, displayWidth(head), displayWidth(cells[index] ?? "")));
    this.#widths = columnWidths(wanted, this.#options.width - between.length * (wanted.length - 1));
    if (this.#widths === null) return cells.length === 0 ? this.#heads : [];
    return [...this.#lines(this.#heads, { bold: true }), this.#rule(this.#widths)];
  }

  #rule(widths: readonly number[]): string {
    return this.#dim(widths.map((width) => "─".repeat(width)).join("─┼─"));
  }

  #dim(text: string): string {
    return colours(this.#options.colours).dim(text);
  }

  #lines(cells: readonly string[], base: Style): readonly string[] {
    const widths = this.#widths;
    if (widths === null) return this.#stacked(cells);
    const columns = cells.map((cell, index) => this.#wrapped(cell, base, widths[index] ?? leastColumn));
    const height = Math.max(...columns.map((lines) => lines.length));
    return Array.from({ length: height }, (_, at) =>
      columns
        .map((lines, index) => aligned(lines[at] ?? "", widths[index] ?? 0, this.#alignments[index] ?? "left"))
        .join(this.#dim(between))
        .trimEnd(),
    );
  }

  #stacked(cells: readonly string[]): readonly string[] {
    return cells.flatMap((cell, index) => {
      const head: Run = { text: `${this.#heads[index] ?? ""}: `, style: { bold: true } };
      return wrapRuns([head, ...runsOf(cell, plain)], this.#options).split("\n");
    });
  }

  #wrapped(cell: string, base: Style, width: number): readonly string[] {
    return wrapRuns(runsOf(cell, base), { ...this.#options, width }).split("\n");
  }
}

/** Distributes the available width over the columns; `null`: too narrow to read. */
function columnWidths(wanted: readonly number[], room: number): readonly number[] | null {
  const total = wanted.reduce((sum, width) => sum + width, 0);
  // Later rows may have longer cells: each column gets a share of the remaining width.
  if (total <= room) return wanted.map((width) => width + Math.min(12, Math.floor((room - total) / wanted.length)));
  if (room < wanted.length * (leastColumn + 3)) return null;
  const widths = [...wanted];
  let excess = total - room;
  while (excess > 0) {
    const widest = widths.indexOf(Math.max(...widths));
    widths[widest] = (widths[widest] ?? 0) - 1;
    excess -= 1;
  }
  return widths;
}

function aligned(text: string, width: number, alignment: Alignment): string {
  const missing = Math.max(0, width - cellWidth(text));
  if (alignment === "left") return pad(text, width);
  const before = alignment === "right" ? missing : Math.floor(missing / 2);
  return pad(" ".repeat(before) + text, width);
}

function displayWidth(cell: string): number {
  return cellWidth(
    runsOf(cell, plain)
      .map(({ text }) => text)
      .join(""),
  );
}

function runsOf(cell: string, base: Style): readonly Run[] {
  const runs: Run[] = [];
  const inline = new Inline((text, style) => runs.push({ text, style }), base);
  for (const point of cell.replaceAll(/<br\s*\/?>/gi, " ")) inline.feed(point);
  inline.endLine();
  return runs;
}
