// The line editor as a pure function from a state and a key to the next state: text, cursor, history, paste mode, kill
// buffer. Independent of terminals. Key bindings follow readline (Emacs mode).

import { cellWidth, clusters } from "./cells.ts";
import { safeText } from "./safe-text.ts";

/** A key as Node's `readline` names it. `text`: the characters that it types; empty for other keys. */
export type Key = {
  readonly name: string;
  readonly text: string;
  readonly ctrl: boolean;
  readonly meta: boolean;
  readonly shift: boolean;
};

export type Editor = {
  readonly text: string;
  /** The position of the cursor in UTF-16 units, always between two clusters. */
  readonly cursor: number;
  readonly history: readonly string[];
  /** The index of the shown history entry; `history.length`: the new line. */
  readonly place: number;
  /** The new line, while a history entry is shown. */
  readonly draft: string;
  /** Whether a bracketed paste is in progress, in which Enter is text. */
  readonly isPasting: boolean;
  /** The kill buffer: the text that was cut last (Ctrl-Y inserts it). */
  readonly cut: string;
};

/** The effect of a key. */
export type Edited =
  | { readonly type: "editing"; readonly editor: Editor }
  | { readonly type: "submitted"; readonly editor: Editor; readonly text: string }
  | { readonly type: "interrupted"; readonly editor: Editor }
  | { readonly type: "ended" }
  | { readonly type: "completing"; readonly editor: Editor }
  | { readonly type: "redrawing"; readonly editor: Editor };

/** The longest line, in UTF-16 units. Longer input is ignored. */
const longestInput = 200_000;

export function editor(history: readonly string[] = [], text = ""): Editor {
  return { text, cursor: text.length, history, place: history.length, draft: "", isPasting: false, cut: "" };
}

/** Applies a key to the editor. */
export function press(editor: Editor, key: Key): Edited {
  const edited = (next: Editor): Edited => ({ type: "editing", editor: next });
  if (key.name === "paste-start") return edited({ ...editor, isPasting: true });
  if (key.name === "paste-end") return edited({ ...editor, isPasting: false });
  if (editor.isPasting) return edited(paste(editor, key));
  if (key.ctrl) return pressControl(editor, key.name);
  switch (key.name) {
    case "return":
      if (key.meta || key.shift) return edited(insert(editor, "\n"));
      return endLine(editor);
    case "enter":
      // A single line feed, as Ctrl-J sends it.
      return edited(insert(editor, "\n"));
    case "tab":
      return { type: "completing", editor };
    case "backspace":
      return edited(key.meta ? cutTo(editor, wordBefore(editor)) : remove(editor, before(editor), editor.cursor));
    case "delete":
      return edited(remove(editor, editor.cursor, after(editor)));
    case "left":
      return edited(move(editor, key.meta ? wordBefore(editor) : before(editor)));
    case "right":
      return edited(move(editor, key.meta ? wordAfter(editor) : after(editor)));
    case "home":
      return edited(move(editor, lineStart(editor)));
    case "end":
      return edited(move(editor, lineEnd(editor)));
    case "up":
      return edited(up(editor));
    case "down":
      return edited(down(editor));
    case "escape":
      return edited(editor);
  }
  if (key.meta) return edited(pressMeta(editor, key.name));
  return edited(insert(editor, key.text));
}

function pressControl(editor: Editor, name: string): Edited {
  const edited = (next: Editor): Edited => ({ type: "editing", editor: next });
  switch (name) {
    case "c":
      return { type: "interrupted", editor };
    case "d":
      if (editor.text === "") return { type: "ended" };
      return edited(remove(editor, editor.cursor, after(editor)));
    case "a":
      return edited(move(editor, lineStart(editor)));
    case "e":
      return edited(move(editor, lineEnd(editor)));
    case "b":
      return edited(move(editor, before(editor)));
    case "f":
      return edited(move(editor, after(editor)));
    case "h":
      return edited(remove(editor, before(editor), editor.cursor));
    case "k":
      return edited(cutTo(editor, lineEnd(editor)));
    case "u":
      return edited(cutTo(editor, lineStart(editor)));
    case "w":
      return edited(cutTo(editor, wordBefore(editor)));
    case "y":
      return edited(insert(editor, editor.cut));
    case "p":
      return edited(up(editor));
    case "n":
      return edited(down(editor));
    case "left":
      return edited(move(editor, wordBefore(editor)));
    case "right":
      return edited(move(editor, wordAfter(editor)));
    case "l":
      return { type: "redrawing", editor };
    default:
      return edited(editor);
  }
}

function pressMeta(editor: Editor, name: string): Editor {
  switch (name) {
    case "b":
      return move(editor, wordBefore(editor));
    case "f":
      return move(editor, wordAfter(editor));
    case "d":
      return cutTo(editor, wordAfter(editor));
    default:
      return editor;
  }
}

/** Enter: submits, or inserts a line break after a backslash, as in a shell. */
function endLine(editor: Editor): Edited {
  const { text, cursor } = editor;
  if (cursor === text.length && text.endsWith("\\")) {
    return { type: "editing", editor: insert(remove(editor, cursor - 1, cursor), "\n") };
  }
  return { type: "submitted", editor, text };
}

function paste(editor: Editor, key: Key): Editor {
  // Pasted line ends may be CRLF, which arrive as two keys.
  if (key.name === "return") return insert(editor, "\n");
  if (key.name === "enter") return editor.text[editor.cursor - 1] === "\n" ? editor : insert(editor, "\n");
  return insert(editor, key.name === "tab" ? "\t" : key.text);
}

function insert(editor: Editor, typed: string): Editor {
  const text = typed.replaceAll(/[^\P{Cc}\n\t]/gu, "");
  if (text === "" || editor.text.length + text.length > longestInput) return editor;
  const { cursor } = editor;
  return {
    ...editor,
    text: editor.text.slice(0, cursor) + text + editor.text.slice(cursor),
    cursor: cursor + text.length,
  };
}

function remove(editor: Editor, from: number, to: number): Editor {
  return { ...editor, text: editor.text.slice(0, from) + editor.text.slice(to), cursor: from };
}

function cutTo(editor: Editor, place: number): Editor {
  const [from, to] = [Math.min(place, editor.cursor), Math.max(place, editor.cursor)];
  return from === to ? editor : { ...remove(editor, from, to), cut: editor.text.slice(from, to) };
}

function move(editor: Editor, cursor: number): Editor {
  return { ...editor, cursor };
}

/**
 * Cursor keys move by grapheme clusters. Only this many units around the cursor are segmented, so a key costs constant
 * time in a long text.
 */
const near = 200;
const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });

function before({ text, cursor }: Editor): number {
  const letters = Array.from(segmenter.segment(text.slice(Math.max(0, cursor - near), cursor)));
  return cursor - (letters.at(-1)?.segment.length ?? 0);
}

function after({ text, cursor }: Editor): number {
  const [letter] = segmenter.segment(text.slice(cursor, cursor + near));
  return cursor + (letter?.segment.length ?? 0);
}

function wordBefore({ text, cursor }: Editor): number {
  return text.slice(0, cursor).replace(/[^\s]*\s*$/u, "").length;
}

function wordAfter({ text, cursor }: Editor): number {
  return cursor + (/^\s*[^\s]*/u.exec(text.slice(cursor))?.[0].length ?? 0);
}

function lineStart({ text, cursor }: Editor): number {
  return text.lastIndexOf("\n", cursor - 1) + 1;
}

function lineEnd({ text, cursor }: Editor): number {
  const end = text.indexOf("\n", cursor);
  return end === -1 ? text.length : end;
}

/** Moves to the line above; on the first line, to the previous history entry. */
function up(editor: Editor): Editor {
  const start = lineStart(editor);
  if (start === 0) return recall(editor, editor.place - 1);
  const column = editor.cursor - start;
  const above = lineStart({ ...editor, cursor: start - 1 });
  return move(editor, Math.min(above + column, start - 1));
}

function down(editor: Editor): Editor {
  const end = lineEnd(editor);
  if (end === editor.text.length) return recall(editor, editor.place + 1);
  const column = editor.cursor - lineStart(editor);
  const below = end + 1;
  return move(editor, Math.min(below + column, lineEnd({ ...editor, cursor: below })));
}

function recall(editor: Editor, place: number): Editor {
  const { history } = editor;
  if (place < 0 || place > history.length) return editor;
  const draft = editor.place === history.length ? editor.text : editor.draft;
  const text = place === history.length ? draft : (history[place] ?? "");
  return { ...editor, text, cursor: text.length, place, draft };
}

/** The rows of the editor on a terminal, and the position of the cursor in them. */
export type EditorView = { readonly rows: readonly string[]; readonly row: number; readonly column: number };

/**
 * Lays the text out in rows. The first row follows the prompt; the others are indented by its width. The last column
 * stays free, because some terminals wrap when it is written.
 */
export function viewEditor({ text, cursor }: Editor, promptWidth: number, width: number): EditorView {
  const room = Math.max(4, width - promptWidth - 1);
  const rows: string[] = [];
  let row = "";
  let used = 0;
  let at = 0;
  let [cursorRow, cursorColumn] = [0, 0];
  const place = (): void => {
    if (at <= cursor) [cursorRow, cursorColumn] = [rows.length, used];
  };
  for (const cluster of clusters(text)) {
    const shown = cluster === "\t" ? "    " : safeText(cluster);
    const cells = cluster === "\n" ? 0 : cellWidth(shown);
    if (used + cells > room) {
      rows.push(row);
      [row, used] = ["", 0];
    }
    place();
    at += cluster.length;
    if (cluster === "\n") {
      rows.push(row);
      [row, used] = ["", 0];
    } else {
      row += shown;
      used += cells;
    }
  }
  place();
  rows.push(row);
  return { rows, row: cursorRow, column: cursorColumn };
}
