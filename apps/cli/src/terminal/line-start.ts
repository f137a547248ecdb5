// Classifies a line of Markdown by its first characters. Called again with each character until the kind of the line is
// known. Only the marker of a line is held back, so the result never depends on the text after the marker.

export type LineStart =
  /** More characters are needed. */
  | { readonly type: "unclear" }
  | { readonly type: "quote" }
  | { readonly type: "heading"; readonly level: number }
  /** A list item. `rest`: the part of its content that has been read. */
  | {
      readonly type: "item";
      readonly marker: string;
      readonly isChecked: boolean | null;
      readonly rest: string;
    }
  /** The opening line of a code block; the language follows the marker. */
  | { readonly type: "code_block"; readonly marker: string }
  | { readonly type: "row" }
  | { readonly type: "rule" }
  | { readonly type: "blank" }
  | { readonly type: "text" };

const unclear: LineStart = { type: "unclear" };
const text: LineStart = { type: "text" };

/** Classifies the beginning of a line, without its indentation. */
export function readLineStart(start: string): LineStart {
  const [first = ""] = start;
  switch (first) {
    case "":
      return unclear;
    case ">":
      return { type: "quote" };
    case "|":
      return { type: "row" };
    case "#":
      return heading(start);
    case "`":
    case "~":
      return codeBlock(start);
    case "-":
    case "*":
    case "+":
    case "_":
      return bullet(start);
    default:
      return /^\d/.test(first) ? numbered(start) : text;
  }
}

/** Classifies a complete line whose beginning was `unclear`. */
export function readShortLine(line: string): LineStart {
  const content = line.trimEnd();
  if (content === "") return { type: "blank" };
  if (/^([-*_])(?: *\1){2,}$/.test(content)) return { type: "rule" };
  if (/^(?:`{3,}|~{3,})$/.test(content)) return { type: "code_block", marker: content };
  if (/^#{1,6}$/.test(content)) return { type: "heading", level: content.length };
  if (/^(?:[-*+]|\d{1,9}[.)])$/.test(content)) return { type: "item", marker: content, isChecked: null, rest: "" };
  return text;
}

function heading(start: string): LineStart {
  if (/^#{1,6}$/.test(start)) return unclear;
  const [, marks] = /^(#{1,6})[ \t]$/.exec(start) ?? [];
  return marks === undefined ? text : { type: "heading", level: marks.length };
}

function codeBlock(start: string): LineStart {
  if (/^(?:`+|~+)$/.test(start)) return unclear;
  const [, marker] = /^(`{3,}|~{3,})[^`~]/.exec(start) ?? [];
  return marker === undefined ? text : { type: "code_block", marker };
}

function bullet(start: string): LineStart {
  if (/^([-*_])(?: *\1)* *$|^\+ *$/.test(start)) return unclear;
  if (/^[-*+] +\[[ xX]?\]?$/.test(start)) return unclear;
  const [, marker, mark, content] = /^([-*+]) +(?:\[([ xX])\] )?(.*)$/s.exec(start) ?? [];
  if (marker === undefined) return text;
  return { type: "item", marker, isChecked: mark === undefined ? null : mark !== " ", rest: content ?? "" };
}

function numbered(start: string): LineStart {
  if (/^\d{1,9}(?:[.)] *)?$/.test(start)) return unclear;
  const [, marker, content] = /^(\d{1,9}[.)]) +(.*)$/s.exec(start) ?? [];
  return marker === undefined ? text : { type: "item", marker, isChecked: null, rest: content ?? "" };
}
