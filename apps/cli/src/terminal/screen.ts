// What is on the screen: text that stays, and below it a few rows that change: a prompt, a spinner. Text is printed above the rows, and never touched
// again; the rows are drawn anew when they are others.

import type { Terminal } from "./terminal.ts";

import { cellWidth } from "./cells.ts";

/** Rows that change, and where the cursor is in them; `null`: nowhere to be seen. */
export type Live = {
  readonly rows: readonly string[];
  readonly cursor: { readonly row: number; readonly column: number } | null;
};

export const noLive: Live = { rows: [], cursor: null };

const hideCursor = "\u001B[?25l";
const showCursor = "\u001B[?25h";

export class Screen {
  readonly terminal: Terminal;
  #wanted: Live = noLive;
  #shown: Live = noLive;
  #shownColumns = 0;
  /** Text was printed that did not end its line: nothing can be drawn below it. */
  #isMidLine = false;

  constructor(terminal: Terminal) {
    this.terminal = terminal;
    terminal.onResize(() => this.#draw(this.#wanted));
  }

  get width(): number {
    return this.terminal.columns();
  }

  /** Prints text that stays, and what is to be seen below it from now on. */
  print(text: string, live: Live = this.#wanted): void {
    if (text === "") return this.live(live);
    this.terminal.write(this.#erasing() + text);
    this.#isMidLine = !text.endsWith("\n");
    this.#wanted = live;
    this.#draw(live);
  }

  /** What is to be seen below the text from now on. */
  live(live: Live): void {
    this.#wanted = live;
    if (!isSame(live, this.#shown) || this.#shownColumns !== this.width) this.#draw(live);
  }

  /** Clears everything but the rows. */
  clear(): void {
    this.terminal.write(`${this.#erasing()}\u001B[2J\u001B[H`);
    this.#draw(this.#wanted);
  }

  #draw(live: Live): void {
    const erasing = this.#erasing();
    if (this.#isMidLine || live.rows.length === 0) {
      if (erasing !== "") this.terminal.write(erasing + showCursor);
      return;
    }
    const shown = cutToHeight(live, this.terminal.rows() - 1);
    const columns = Math.max(1, this.width);
    const { rowsAbove, column } = cursorPlace(shown, columns);
    const up = heightOf(shown.rows, columns) - 1 - rowsAbove;
    const place =
      shown.cursor === null
        ? hideCursor
        : `${up > 0 ? `\u001B[${up}A` : ""}\r${column > 0 ? `\u001B[${column}C` : ""}${showCursor}`;
    this.terminal.write(`${erasing}${shown.rows.join("\n")}${place}`);
    this.#shown = shown;
    this.#shownColumns = this.width;
  }

  /** Escape codes that erase the rows and leave the cursor where the first of them began. */
  #erasing(): string {
    const shown = this.#shown;
    if (shown.rows.length === 0) return "";
    this.#shown = noLive;
    const { rowsAbove } = cursorPlace(shown, Math.max(1, this.width));
    return `${rowsAbove > 0 ? `\u001B[${rowsAbove}A` : ""}\r\u001B[J`;
  }
}

/**
 * How many lines of the terminal the rows take. A row that is wider than the terminal is wrapped by it: after a resize, until the owner of the rows
 * lays them out again, and where the terminal is narrower than a prompt.
 */
function heightOf(rows: readonly string[], columns: number): number {
  return rows.reduce((sum, row) => sum + Math.max(1, Math.ceil(cellWidth(row) / columns)), 0);
}

/** Where the terminal's cursor is: lines below the beginning of the rows, and its column. A hidden cursor stays at the end of the last row. */
function cursorPlace({ rows, cursor }: Live, columns: number): { readonly rowsAbove: number; readonly column: number } {
  if (cursor === null) return { rowsAbove: heightOf(rows, columns) - 1, column: 0 };
  const wrapped = heightOf(rows.slice(cursor.row, cursor.row + 1), columns) - 1;
  const inside = Math.min(wrapped, Math.floor(cursor.column / columns));
  return {
    rowsAbove: heightOf(rows.slice(0, cursor.row), columns) + inside,
    column: Math.min(cursor.column - inside * columns, columns - 1),
  };
}

/** As many rows as there is room for, with the cursor's among them. */
function cutToHeight({ rows, cursor }: Live, height: number): Live {
  const most = Math.max(1, height);
  if (rows.length <= most) return { rows, cursor };
  const last = Math.max(cursor?.row ?? rows.length - 1, most - 1);
  const first = last - most + 1;
  return {
    rows: rows.slice(first, last + 1),
    cursor: cursor === null ? null : { row: cursor.row - first, column: cursor.column },
  };
}

function isSame(left: Live, right: Live): boolean {
  return (
    left.cursor?.row === right.cursor?.row &&
    left.cursor?.column === right.cursor?.column &&
    left.rows.length === right.rows.length &&
    left.rows.every((row, index) => row === right.rows[index])
  );
}
