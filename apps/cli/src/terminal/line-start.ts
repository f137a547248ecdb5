// What a line of Markdown is, said by its first characters: asked again with each of them until it is clear. Nothing is held back for longer than the
// marker itself, so the answer may not depend on anything behind it.

export type LineStart =
  /** Cannot be said yet. */
  | { readonly type: "unclear" }
  | { readonly type: "quote" }
  | { readonly type: "heading"; readonly level: number }
  /** `rest` is what is already there of its content. */
  | {
      readonly type: "item";
      readonly marker: string;
      readonly isChecked: boolean | null;
      readonly rest: string;
    }
  /** The rest of the line says which language. */
  | { readonly type: "fence"; readonly marker: string }
  | { readonly type: "row" }
  | { readonly type: "rule" }
  | { readonly type: "blank" }
  | { readonly type: "text" };

const unclear: LineStart = { type: "unclear" };
const text: LineStart = { type: "text" };

/** What the line is that begins like this, behind its indentation. */
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
      return fence(start);
    case "-":
    case "*":
    case "+":
    case "_":
      return bullet(start);
    default:
      return /^\d/.test(first) ? numbered(start) : text;
  }
}

/** The same for a whole line, when its end has come. */
export function readShortLine(line: string): LineStart {
  const content = line.trimEnd();
  if (content === "") return { type: "blank" };
  if (/^([-*_])(?: *\1){2,}$/.test(content)) return { type: "rule" };
  if (/^(?:`{3,}|~{3,})$/.test(content)) return { type: "fence", marker: content };
  if (/^#{1,6}$/.test(content)) return { type: "heading", level: content.length };
  if (/^(?:[-*+]|\d{1,9}[.)])$/.test(content)) return { type: "item", marker: content, isChecked: null, rest: "" };
  return text;
}

function heading(start: string): LineStart {
  if (/^#{1,6}$/.test(start)) return unclear;
  const [, marks] = /^(#{1,6})[ \t]$/.exec(start) ?? [];
  return marks === undefined ? text : { type: "heading", level: marks.length };
}

function fence(start: string): LineStart {
  if (/^(?:`+|~+)$/.test(start)) return unclear;
  const [, marker] = /^(`{3,}|~{3,})[^`~]/.exec(start) ?? [];
  return marker === undefined ? text : { type: "fence", marker };
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
