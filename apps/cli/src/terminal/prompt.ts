// Asks a person for a line, or for a key. The line is edited in the live rows of the screen, and stays on it, as it was typed, when it is done.

import type { Editor, Key } from "./editor.ts";
import type { Live, Screen } from "./screen.ts";

import { cellWidth } from "./cells.ts";
import { editor, press, viewEditor } from "./editor.ts";
import { noLive } from "./screen.ts";

export type LineOptions = {
  /** Stands before the line; may have a style. */
  readonly prompt: string;
  readonly history?: readonly string[];
  /** What is there to begin with. */
  readonly text?: string;
  /** Shown below while the line is edited. */
  readonly hint?: (text: string) => readonly string[];
  /** What Tab makes of the text. */
  readonly complete?: (text: string) => string;
};

export type Line =
  | { readonly type: "line"; readonly text: string }
  /** Ctrl-C; what was typed is given up. */
  | { readonly type: "interrupted"; readonly text: string }
  /** Ctrl-D, or the terminal is gone. */
  | { readonly type: "ended" };

export function askLine(screen: Screen, options: LineOptions): Promise<Line> {
  const { prompt, history = [], text = "", hint = () => [], complete = (typed) => typed } = options;
  let state = editor(history, text);
  return new Promise((resolve) => {
    let isDrawn = false;
    const draw = (): void => {
      isDrawn = true;
      screen.live(editorRows(state, prompt, hint(state.text), screen.width));
    };
    const done = (line: Line, shown: string): void => {
      isDrawn = true;
      offGone();
      offResize();
      screen.terminal.listen(null);
      screen.print(shown, noLive);
      resolve(line);
    };
    const typed = (): string =>
      `${editorRows({ ...state, cursor: state.text.length }, prompt, [], screen.width).rows.join("\n")}\n`;
    const offGone = screen.terminal.onGone(() => done({ type: "ended" }, ""));
    const offResize = screen.terminal.onResize(draw);
    draw();
    screen.terminal.listen((key) => {
      const edited = press(state, key);
      switch (edited.type) {
        case "submitted":
          state = edited.editor;
          return done({ type: "line", text: edited.text }, typed());
        case "interrupted":
          return done({ type: "interrupted", text: state.text }, state.text === "" ? "" : typed());
        case "ended":
          return done({ type: "ended" }, "");
        case "completing": {
          const completed = complete(state.text);
          state = { ...state, text: completed, cursor: completed.length };
          break;
        }
        case "redrawing":
          screen.clear();
          break;
        case "editing":
          state = edited.editor;
      }
      // Keys that come together, as when something is pasted, are drawn together.
      if (isDrawn) setImmediate(() => !isDrawn && draw());
      isDrawn = false;
    });
  });
}

export function editorRows(state: Editor, prompt: string, hints: readonly string[], width: number): Live {
  const promptWidth = cellWidth(prompt);
  const { rows, row, column } = viewEditor(state, promptWidth, width);
  const below = " ".repeat(promptWidth);
  return {
    rows: [...rows.map((shown, index) => (index === 0 ? prompt : below) + shown), ...hints],
    cursor: { row, column: promptWidth + column },
  };
}

/** Waits for one of these keys; Ctrl-C and Ctrl-D are always among them. */
export function askKey<K extends string>(
  screen: Screen,
  prompt: string,
  keys: readonly K[],
): Promise<K | "interrupted" | "ended"> {
  return new Promise((resolve) => {
    const done = (key: K | "interrupted" | "ended"): void => {
      offGone();
      screen.terminal.listen(null);
      screen.print(`${prompt}${key === "interrupted" || key === "ended" ? "" : key}\n`, noLive);
      resolve(key);
    };
    const offGone = screen.terminal.onGone(() => done("ended"));
    screen.live({ rows: [prompt], cursor: { row: 0, column: cellWidth(prompt) } });
    screen.terminal.listen((key: Key) => {
      if (key.ctrl && key.name === "c") return done("interrupted");
      if (key.ctrl && key.name === "d") return done("ended");
      const found = keys.find((known) => known === key.text.toLowerCase());
      if (found !== undefined) done(found);
    });
  });
}
