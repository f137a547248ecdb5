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
    const { rows, cursor } = cutToHeight(live, this.terminal.rows() - 1);
    const up = cursor === null ? 0 : rows.length - 1 - cursor.row;
    const place =
      cursor === null
        ? hideCursor
        : `${up > 0 ? `\u001B[${up}A` : ""}\r${cursor.column > 0 ? `\u001B[${cursor.column}C` : ""}${showCursor}`;
    this.terminal.write(`${erasing}${rows.join("\n")}${place}`);
    this.#shown = { rows, cursor };
    this.#shownColumns = this.width;
  }

  /** What takes the rows off again; the cursor is then where they began. */
  #erasing(): string {
    const { rows, cursor } = this.#shown;
    if (rows.length === 0) return "";
    this.#shown = noLive;
    // A terminal that has become narrower has broken rows in two.
    const columns = Math.max(1, this.width);
    const height = (row: string): number =>
      columns >= this.#shownColumns ? 1 : Math.max(1, Math.ceil(cellWidth(row) / columns));
    const at = cursor?.row ?? rows.length - 1;
    const above = rows.slice(0, at).reduce((sum, row) => sum + height(row), 0);
    const inside = cursor === null ? height(rows[at] ?? "") - 1 : Math.floor(cursor.column / columns);
    const up = above + inside;
    return `${up > 0 ? `\u001B[${up}A` : ""}\r\u001B[J`;
  }
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
