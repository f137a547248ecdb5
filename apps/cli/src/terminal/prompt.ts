// Prompts for a line. The line is edited in the live rows of the screen, and is printed as permanent text when it is
// submitted.

import type { Editor } from "./editor.ts";
import type { Live, Screen } from "./screen.ts";

import { cellWidth } from "./cells.ts";
import { editor, press, viewEditor } from "./editor.ts";
import { noLive } from "./screen.ts";

export type LineOptions = {
  /** The text before the line; may contain styles. */
  readonly prompt: string;
  readonly history?: readonly string[];
  /** The initial text. */
  readonly text?: string;
  /** Returns rows that are shown below the line while it is edited. */
  readonly hint?: (text: string) => readonly string[];
  /** Returns the completed text, for Tab. */
  readonly complete?: (text: string) => string;
};

export type Line =
  | { readonly type: "line"; readonly text: string }
  /** Ctrl-C; the text is discarded. */
  | { readonly type: "interrupted"; readonly text: string }
  /** Ctrl-D, or the terminal was closed. */
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
      // Keys that arrive in one read, such as pasted text, are drawn once.
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
