// The screen of the chat: permanent text, and below it live rows (a prompt, a spinner, running tools). Text is printed
// above the live rows and is never changed; the live rows are erased and redrawn when they change. Uses only relative
// cursor movements, so the scrollback of the terminal is kept.

import type { Terminal } from "./terminal.ts";

import { cellWidth } from "./cells.ts";

/** The live rows, and the position of the cursor in them; `null`: the cursor is hidden. */
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
  /** Whether the printed text ends in the middle of a line; no live rows are drawn then. */
  #isMidLine = false;

  constructor(terminal: Terminal) {
    this.terminal = terminal;
    terminal.onResize(() => this.#draw(this.#wanted));
  }

  get width(): number {
    return this.terminal.columns();
  }

  /** Prints permanent text, and sets the live rows below it. */
  print(text: string, live: Live = this.#wanted): void {
    if (text === "") return this.live(live);
    this.terminal.write(this.#erasing() + text);
    this.#isMidLine = !text.endsWith("\n");
    this.#wanted = live;
    this.#draw(live);
  }

  /** Sets the live rows. Redraws only if they or the width have changed. */
  live(live: Live): void {
    this.#wanted = live;
    if (!isSame(live, this.#shown) || this.#shownColumns !== this.width) this.#draw(live);
  }

  /** Clears the screen and redraws the live rows. */
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

  /** Escape sequences that erase the live rows and move the cursor to the beginning of the first one. */
  #erasing(): string {
    const shown = this.#shown;
    if (shown.rows.length === 0) return "";
    this.#shown = noLive;
    const { rowsAbove } = cursorPlace(shown, Math.max(1, this.width));
    return `${rowsAbove > 0 ? `\u001B[${rowsAbove}A` : ""}\r\u001B[J`;
  }
}

/**
 * The number of terminal lines that the rows take. The terminal itself wraps a row that is wider than it: after a
 * resize, until the owner of the rows lays them out again, and if the terminal is narrower than a prompt.
 */
function heightOf(rows: readonly string[], columns: number): number {
  return rows.reduce((sum, row) => sum + Math.max(1, Math.ceil(cellWidth(row) / columns)), 0);
}

/**
 * The position of the terminal's cursor: lines below the first row, and column. A hidden cursor is at the end of the
 * last row.
 */
function cursorPlace({ rows, cursor }: Live, columns: number): { readonly rowsAbove: number; readonly column: number } {
  if (cursor === null) return { rowsAbove: heightOf(rows, columns) - 1, column: 0 };
  const wrapped = heightOf(rows.slice(cursor.row, cursor.row + 1), columns) - 1;
  const inside = Math.min(wrapped, Math.floor(cursor.column / columns));
  return {
    rowsAbove: heightOf(rows.slice(0, cursor.row), columns) + inside,
    column: Math.min(cursor.column - inside * columns, columns - 1),
  };
}

/** Cuts the rows to the height of the terminal, around the row of the cursor. */
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
