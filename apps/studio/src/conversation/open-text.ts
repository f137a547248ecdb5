// The text of a reply while it arrives, in blocks: a finished block never changes, so it is rendered once, and the cost
// of a delta does not grow with the text before it.
//
// A block of Markdown ends at an empty line outside of a code block. Text without empty lines is cut at `maxTail`
// characters; such pieces are shown as plain text until the reply is complete, because half of a code block or table is
// not Markdown.

/** A finished piece of text. `isPlain`: it was cut, and is not rendered as Markdown. */
type Block = { readonly text: string; readonly isPlain: boolean };

export type OpenText = {
  readonly blocks: readonly Block[];
  /** The text after the last finished block. */
  readonly tail: string;
  /** Whether `tail` continues a piece that was cut. */
  readonly isTailPlain: boolean;
  /** The number of characters in all. */
  readonly length: number;
};

export const emptyText: OpenText = { blocks: [], tail: "", isTailPlain: false, length: 0 };

const maxTail = 4000;

/** Appends a delta. */
export function appendText(text: OpenText, delta: string): OpenText {
  const length = text.length + delta.length;
  let { tail, isTailPlain } = text;
  const finished: Block[] = [];
  tail += delta;
  for (;;) {
    const end = endOfBlock(tail, isTailPlain);
    if (end === null) break;
    finished.push({ text: tail.slice(0, end.at), isPlain: isTailPlain || end.isCut });
    tail = tail.slice(end.at);
    isTailPlain = end.isCut;
  }
  return { blocks: finished.length === 0 ? text.blocks : [...text.blocks, ...finished], tail, isTailPlain, length };
}

/** The whole text. */
export function wholeText({ blocks, tail }: OpenText): string {
  return blocks.reduce((whole, { text }) => whole + text, "") + tail;
}

/** Where the first block of a text ends; `null`: it has not ended yet. */
function endOfBlock(text: string, isPlain: boolean): { readonly at: number; readonly isCut: boolean } | null {
  let fence: string | null = null;
  let start = 0;
  for (;;) {
    const lineEnd = text.indexOf("\n", start);
    if (lineEnd === -1) break;
    const line = text.slice(start, Math.min(lineEnd, start + 200));
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1] ?? null;
    if (fence === null && mark !== null && !isPlain) fence = mark;
    else if (fence !== null && mark !== null && mark.startsWith(fence)) fence = null;
    const isEmpty = fence === null && line.trim() === "" && start > 0;
    if (isEmpty) return { at: lineEnd + 1, isCut: false };
    start = lineEnd + 1;
  }
  if (text.length <= maxTail) return null;
  const lastLine = text.lastIndexOf("\n", maxTail);
  return { at: lastLine > maxTail / 2 ? lastLine + 1 : maxTail, isCut: true };
}
