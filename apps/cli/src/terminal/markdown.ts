// Renders streaming Markdown for a terminal. Output is append-only.
//
// Invariants
//   1. The output does not depend on how the text is split into deltas: the parser reads one character at a time and
//      never looks ahead.
//   2. Little is held back: the marker at the beginning of a line, a run of markers inside a line, a word near the
//      edge, and a table row.
//   3. Held text is limited (`longestMarker`, `longestRow`), so time and memory are linear in the input.
//   4. Control characters are replaced first (safe-text.ts), so a model cannot inject terminal escape sequences.
// Line breaks of the model are kept, other than in CommonMark, because models use them on purpose. Several empty lines
// become one.

import type { CodeBlock } from "./code-block.ts";
import type { FlowOptions, Margin, Run } from "./flow.ts";
import type { LineStart } from "./line-start.ts";
import type { Style } from "./style.ts";

import { cellWidth } from "./cells.ts";
import { codeLineStyle, isClosing, longestMarker, mayClose } from "./code-block.ts";
import { Flow, noMargin } from "./flow.ts";
import { Inline } from "./inline.ts";
import { readLineStart, readShortLine } from "./line-start.ts";
import { SafeText } from "./safe-text.ts";
import { plain } from "./style.ts";
import { alignmentsOf, cellsOf, Table } from "./table.ts";

export type MarkdownOptions = FlowOptions & {
  /** The style of text without a style of its own. */
  readonly base?: Style;
};

/** An open list item: the column of its marker in the source, and the column of its content in the output. */
type Item = { readonly indent: number; readonly left: number };

type Phase =
  /** At the beginning of a line; the held characters do not decide its kind yet. */
  | { readonly type: "start" }
  | { readonly type: "inline"; readonly inline: Inline }
  /** The opening line of a code block, after its marker. */
  | { readonly type: "language"; readonly marker: string }
  | { readonly type: "code_start"; readonly codeBlock: CodeBlock }
  | { readonly type: "code"; readonly codeBlock: CodeBlock; readonly style: Style }
  | { readonly type: "row" };

type OpenTable =
  | { readonly type: "heads"; readonly line: string; readonly margin: Margin; readonly gap: boolean }
  | { readonly type: "rows"; readonly table: Table; readonly margin: Margin };

/** A longer table row is text. The limit bounds the text that is held back. */
const longestRow = 4000;
const deepestQuote = 8;

export class MarkdownStream {
  readonly #safe = new SafeText();
  readonly #flow: Flow;
  readonly #options: FlowOptions;
  readonly #base: Style;
  #phase: Phase = { type: "start" };
  #held = "";
  /**
   * The current line: its indentation, its depth of block quotes, and whether the optional space after a `>` may
   * follow.
   */
  #indent = 0;
  #quotes = 0;
  #spaceIsDue = false;
  /** The markers of list items that begin on this line. */
  #bullet: readonly Run[] = [];
  #items: readonly Item[] = [];
  #quotesBefore = 0;
  #gap = false;
  #table: OpenTable | null = null;

  constructor({ base = plain, ...options }: MarkdownOptions) {
    this.#options = options;
    this.#flow = new Flow(options);
    this.#base = base;
  }

  /** Adds text and returns the output that is ready. */
  push(text: string): string {
    for (const point of this.#safe.push(text)) this.#feed(point);
    return this.#flow.take();
  }

  /** Ends the text and returns the rest of the output. */
  end(): string {
    for (const point of this.#safe.end()) this.#feed(point);
    this.#feed("\n");
    this.#closeTable();
    return this.#flow.end();
  }

  #feed(point: string): void {
    const phase = this.#phase;
    switch (phase.type) {
      case "start":
        if (point === "\n") this.#shortLine();
        else this.#start(point);
        return;
      case "inline":
        if (point !== "\n") return phase.inline.feed(point);
        phase.inline.endLine();
        this.#flow.finish();
        return this.#nextLine();
      case "language":
        return this.#language(phase.marker, point);
      case "code_start":
        return this.#codeStart(phase.codeBlock, point);
      case "code":
        if (point !== "\n") return this.#flow.verbatim(point, phase.style);
        this.#flow.finish();
        return this.#beginCodeLine(phase.codeBlock);
      case "row":
        if (point === "\n") return this.#row();
        this.#held += point;
        if (this.#held.length > longestRow) this.#text();
    }
  }

  #nextLine(): void {
    this.#phase = { type: "start" };
    this.#held = "";
    this.#indent = 0;
    this.#quotes = 0;
    this.#spaceIsDue = false;
    this.#bullet = [];
  }

  // Kinds of lines.

  #start(point: string): void {
    if (this.#held === "" && (point === " " || point === "\t")) {
      if (this.#spaceIsDue) this.#spaceIsDue = false;
      else this.#indent += point === "\t" ? 4 : 1;
      return;
    }
    this.#spaceIsDue = false;
    this.#held += point;
    this.#become(this.#held.length > longestMarker ? { type: "text" } : readLineStart(this.#held));
  }

  #shortLine(): void {
    const kind = readShortLine(this.#held);
    this.#become(kind);
    if (this.#phase.type !== "start") this.#feed("\n");
    else this.#nextLine();
  }

  #become(line: LineStart): void {
    switch (line.type) {
      case "unclear":
        return;
      case "blank":
        // An item without content is shown too.
        if (this.#bullet.length > 0) this.#begin();
        else {
          this.#closeTable();
          this.#gap = true;
        }
        return;
      case "quote":
        this.#quotes = Math.min(deepestQuote, this.#quotes + 1);
        this.#held = "";
        this.#indent = 0;
        this.#spaceIsDue = true;
        return;
      case "item":
        return this.#item(line);
      case "heading":
        this.#gap = true;
        this.#begin();
        this.#inline(headingStyle(line.level));
        return;
      case "rule":
        this.#begin();
        for (let count = 0; count < Math.min(40, this.#flow.width - 2); count += 1)
          this.#flow.verbatim("─", { dim: true });
        this.#flow.finish();
        return;
      case "code_block":
        this.#phase = { type: "language", marker: line.marker };
        return;
      case "row":
        this.#phase = { type: "row" };
        return;
      case "text":
        return this.#text();
    }
  }

  #text(): void {
    const held = this.#held;
    this.#begin();
    const inline = this.#inline(plain);
    for (const point of held) inline.feed(point);
  }

  #inline(look: Style): Inline {
    const quoted: Style = this.#quotes > 0 ? { italic: true } : plain;
    const base = { ...this.#base, ...quoted, ...look };
    const inline = new Inline((point, style) => this.#flow.prose(point, style), base);
    this.#phase = { type: "inline", inline };
    return inline;
  }

  #item({ marker, isChecked, rest }: Extract<LineStart, { type: "item" }>): void {
    this.#leaveItems();
    const left = this.#items.at(-1)?.left ?? 0;
    const level = this.#items.length;
    const isBullet = marker.length === 1;
    const sign = isBullet ? (bullets[level % bullets.length] ?? "•") : marker;
    const box = isChecked === null ? "" : isChecked ? "☑ " : "☐ ";
    this.#bullet = [
      ...this.#bullet,
      { text: `${sign} `, style: { hue: "cyan" } },
      ...(box === "" ? [] : [{ text: box, style: plain }]),
    ];
    this.#items = [...this.#items, { indent: this.#indent, left: left + cellWidth(`${sign} ${box}`) }];
    this.#indent += marker.length + 1;
    this.#held = "";
    for (const point of rest) this.#feed(point);
  }

  /** Closes the list items that this line is not indented enough for. */
  #leaveItems(): void {
    if (this.#quotes !== this.#quotesBefore) this.#items = [];
    this.#quotesBefore = this.#quotes;
    this.#items = this.#items.filter(({ indent }) => this.#indent >= indent + 2);
  }

  /** Starts an output line with the margin of its block quotes and list items. */
  #begin(): void {
    this.#closeTable();
    this.#flow.line(this.#marginOfLine(), this.#gap);
    this.#gap = false;
    this.#held = "";
  }

  #marginOfLine(): Margin {
    this.#leaveItems();
    const quotes: readonly Run[] = Array.from({ length: this.#quotes }, () => ({ text: "▏ ", style: { dim: true } }));
    const left = this.#items.at(-1)?.left ?? 0;
    const own = this.#bullet.reduce((sum, { text }) => sum + cellWidth(text), 0);
    return {
      first: [...quotes, ...spaces(left - own), ...this.#bullet],
      rest: [...quotes, ...spaces(left)],
    };
  }

  // Code.

  #language(marker: string, point: string): void {
    // Backticks in the info string: an inline code span, not a code block (CommonMark 4.5).
    if (point === "`" && marker.startsWith("`")) {
      this.#held += point;
      return this.#text();
    }
    if (point !== "\n") {
      this.#held += point;
      return;
    }
    const language = this.#held.slice(marker.length).trim();
    this.#closeTable();
    const outer = this.#marginOfLine();
    const margin: Margin = {
      first: [...outer.first, { text: "  ", style: plain }],
      rest: [...outer.rest, { text: "  ", style: plain }],
    };
    const below = { first: margin.rest, rest: margin.rest };
    const codeBlock = { marker, indent: this.#indent, quotes: this.#quotes, margin: below, language };
    if (language !== "" || this.#bullet.length > 0) {
      this.#flow.line(margin, this.#gap);
      this.#gap = false;
      for (const char of language) this.#flow.verbatim(char, { dim: true });
      this.#flow.finish();
    }
    this.#beginCodeLine(codeBlock);
  }

  #beginCodeLine(codeBlock: CodeBlock): void {
    this.#nextLine();
    this.#phase = { type: "code_start", codeBlock };
  }

  /**
   * The beginning of a line inside a code block. Removes its quote markers and the indentation of the block, and
   * detects the closing line.
   */
  #codeStart(codeBlock: CodeBlock, point: string): void {
    const { quotes, indent, marker } = codeBlock;
    if (this.#quotes < quotes && this.#held === "") {
      if (point === " ") return;
      if (point === ">") {
        this.#quotes += 1;
        this.#spaceIsDue = true;
        return;
      }
      // The block quote has ended, and the code block with it.
      this.#nextLine();
      return this.#feed(point);
    }
    if (this.#held === "" && point === " " && (this.#spaceIsDue || this.#indent < indent)) {
      if (this.#spaceIsDue) this.#spaceIsDue = false;
      else this.#indent += 1;
      return;
    }
    this.#spaceIsDue = false;
    if (point === "\n") {
      if (isClosing(this.#held, marker)) return this.#nextLine();
      return this.#codeLine(codeBlock, "\n");
    }
    this.#held += point;
    if (!mayClose(this.#held, marker)) this.#codeLine(codeBlock, "");
  }

  #codeLine(codeBlock: CodeBlock, more: string): void {
    const held = this.#held;
    const isEmpty = held === "" && more === "\n" && codeBlock.quotes === 0;
    this.#flow.line(isEmpty ? noMargin : codeBlock.margin, this.#gap);
    this.#gap = false;
    this.#held = "";
    this.#phase = { type: "code", codeBlock, style: codeLineStyle(codeBlock.language, held) };
    for (const point of held + more) this.#feed(point);
  }

  // Tables.

  #row(): void {
    const line = this.#held;
    const open = this.#table;
    if (open?.type === "rows") this.#show(open.table.row(line), open.margin);
    else {
      const heads = open === null ? [] : cellsOf(open.line);
      const alignments = alignmentsOf(line);
      if (open !== null && alignments !== null && alignments.length === heads.length) {
        const margin = { first: open.margin.rest, rest: open.margin.rest };
        const left = margin.rest.reduce((sum, { text }) => sum + cellWidth(text), 0);
        const table = new Table(heads, alignments, { ...this.#options, width: this.#flow.width - left });
        this.#gap = open.gap;
        this.#table = { type: "rows", table, margin };
      } else {
        this.#closeTable();
        this.#table = { type: "heads", line, margin: this.#marginOfLine(), gap: this.#gap };
        this.#gap = false;
      }
    }
    this.#nextLine();
  }

  #show(lines: readonly string[], margin: Margin): void {
    for (const line of lines) {
      this.#flow.line(margin, this.#gap);
      this.#gap = false;
      this.#flow.laidOut(line);
    }
  }

  /** Ends a table. A heading row without a delimiter row was not a table and is printed as text. */
  #closeTable(): void {
    const open = this.#table;
    this.#table = null;
    if (open === null) return;
    if (open.type === "rows") return this.#show(open.table.end(), open.margin);
    const after = this.#gap;
    this.#flow.line(open.margin, open.gap);
    const inline = new Inline((point, style) => this.#flow.prose(point, style), this.#base);
    for (const point of open.line) inline.feed(point);
    inline.endLine();
    this.#flow.finish();
    this.#gap = after;
  }
}

const bullets = ["•", "◦", "▪"];

function headingStyle(level: number): Style {
  if (level === 1) return { bold: true, underline: true, hue: "magenta" };
  return level === 2 ? { bold: true, hue: "magenta" } : { bold: true };
}

function spaces(count: number): readonly Run[] {
  return count > 0 ? [{ text: " ".repeat(count), style: plain }] : [];
}

/** Renders a complete text. */
export function renderMarkdown(text: string, options: MarkdownOptions): string {
  const stream = new MarkdownStream(options);
  return stream.push(text) + stream.end();
}
