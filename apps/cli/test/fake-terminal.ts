// A simulated terminal: a test presses keys and waits for text. It interprets the escape sequences that the screen
// writes: line feeds, cursor movements and clearing below the cursor.

import type { Key } from "../src/terminal/editor.ts";
import type { Terminal } from "../src/terminal/terminal.ts";

/** The timeout of `until`, in milliseconds. */
const patienceMs = 10_000;

export class FakeTerminal implements Terminal {
  lines: string[] = [""];
  row = 0;
  column = 0;
  isCursorSeen = true;
  readonly #height: number;
  /** The last line that the test has read. */
  #seen = 0;
  #listener: ((key: Key) => void) | null = null;
  readonly #keys: Key[] = [];
  readonly #gone = new Set<() => void>();
  readonly #waiting = new Set<() => void>();

  constructor(height = 50) {
    this.#height = height;
  }

  readonly columns = (): number => 100;
  readonly rows = (): number => this.#height;
  readonly onResize = () => (): void => undefined;
  readonly close = (): void => undefined;

  readonly write = (text: string): void => {
    // eslint-disable-next-line no-control-regex -- what a terminal reads
    for (const part of text.match(/\u001B\[\??[0-9;]*[A-Za-z]|[^]/gu) ?? []) this.#read(part);
    for (const look of this.#waiting) look();
  };

  #read(part: string): void {
    // eslint-disable-next-line no-control-regex -- what a terminal reads
    const [, digits = "", letter] = /^\u001B\[(\??[0-9;]*)([A-Za-z])$/.exec(part) ?? [];
    if (letter === "A") this.row -= Number(digits);
    else if (letter === "C") this.column += Number(digits);
    else if (letter === "J") {
      this.lines = [...this.lines.slice(0, this.row), this.lines[this.row]?.slice(0, this.column) ?? ""];
    } else if (letter === "l" || letter === "h") this.isCursorSeen = letter === "h";
    else if (part === "\n") {
      this.row += 1;
      this.column = 0;
      this.lines[this.row] ??= "";
    } else if (part === "\r") this.column = 0;
    else if (letter === undefined) {
      const line = this.lines[this.row] ?? "";
      this.lines[this.row] = line.slice(0, this.column).padEnd(this.column) + part + line.slice(this.column + 1);
      this.column += 1;
    }
  }

  readonly listen = (listener: ((key: Key) => void) | null): void => {
    this.#listener = listener;
    while (this.#handOut());
  };

  readonly onGone = (listener: () => void) => {
    this.#gone.add(listener);
    return () => void this.#gone.delete(listener);
  };

  #handOut(): boolean {
    const key = this.#listener === null ? undefined : this.#keys.shift();
    if (key !== undefined) this.#listener?.(key);
    return key !== undefined;
  }

  press(name: string, more: Partial<Key> = {}): void {
    this.#keys.push({ name, text: "", ctrl: false, meta: false, shift: false, ...more });
    this.#handOut();
  }

  ctrl(name: string): void {
    this.press(name, { ctrl: true });
  }

  type(text: string): void {
    for (const point of text) this.press(point, { text: point });
  }

  say(text: string): void {
    this.type(text);
    this.press("return");
  }

  /** Simulates a closed terminal. */
  vanish(): void {
    for (const listener of this.#gone) listener();
  }

  /** Waits until the screen matches, from the line that was last at the previous call, and returns its text. */
  until(expected: RegExp): Promise<string> {
    return new Promise((resolve, reject) => {
      const fresh = (): string => this.lines.slice(this.#seen).join("\n");
      const late = setTimeout(() => {
        this.#waiting.delete(look);
        reject(new Error(`never on the screen: ${String(expected)}\n${fresh()}`));
      }, patienceMs);
      const look = (): void => {
        const text = fresh();
        if (!expected.test(text)) return;
        clearTimeout(late);
        this.#waiting.delete(look);
        // Live rows without a cursor are overwritten by the next text.
        this.#seen = Math.max(this.#seen, this.isCursorSeen ? this.row : this.row - 4);
        resolve(text);
      };
      this.#waiting.add(look);
      look();
    });
  }
}
