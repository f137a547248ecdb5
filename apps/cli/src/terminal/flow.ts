// Line wrapping of streamed text: lays characters out on lines as they arrive. Output is append-only.
//
// Rules
//   1. No line is wider than the terminal (for terminals of at least `leastWidth` cells).
//   2. The column in which a word begins decides how it is handled. With more than `edge` cells left it is printed as
//      it arrives, and broken if it is longer than the line. Nearer to the edge it is held back until it is complete or
//      too long for the line. So the result does not depend on how the text is split into deltas, and at most the rest
//      of one line is held back.
//   3. Every line ends with all styles closed.

import type { Style } from "./style.ts";

import { cellWidth, clusterWidth, OpenCluster } from "./cells.ts";
import { closing, isSameStyle, opening, plain } from "./style.ts";

export type Run = { readonly text: string; readonly style: Style };

export type FlowOptions = { readonly width: number; readonly colours: boolean };

/** The left margin of the first line of a paragraph, and of its continuation lines. */
export type Margin = { readonly first: readonly Run[]; readonly rest: readonly Run[] };

export const noMargin: Margin = { first: [], rest: [] };

/** The narrowest supported width, and the least width that a margin must leave for text. */
const leastWidth = 2;
const leastRoom = 8;
/** A word that begins nearer to the right edge than this is held back until it is complete. */
const edge = 24;
const tabWidth = 4;

export class Flow {
  readonly #width: number;
  readonly #colours: boolean;
  readonly #open: OpenCluster;
  #out = "";
  #pen: Style = plain;
  #hasLines = false;
  #margin: Margin = noMargin;
  #column = 0;
  /** The column after the margin. */
  #left = 0;
  #mode: "prose" | "verbatim" = "prose";
  #style: Style = plain;
  #spaces: Run[] = [];
  #word: Run[] = [];
  #wordWidth = 0;
  /** Whether the beginning of the current word is printed already. */
  #isShown = false;

  constructor({ width, colours }: FlowOptions) {
    this.#width = Math.max(leastWidth, width);
    this.#colours = colours;
    this.#open = new OpenCluster((cluster) => this.#cluster(cluster));
  }

  get width(): number {
    return this.#width;
  }

  /** Returns the output since the last call. */
  take(): string {
    const out = this.#out;
    this.#out = "";
    return out;
  }

  /** Starts a line; `gap`: after an empty line. */
  line(margin: Margin = noMargin, gap = false): void {
    this.finish();
    if (this.#hasLines) this.#out += gap ? "\n\n" : "\n";
    this.#hasLines = true;
    // A margin that leaves too little width for text is omitted.
    const room = this.#width - Math.max(widthOf(margin.first), widthOf(margin.rest));
    this.#margin = room < leastRoom ? noMargin : margin;
    this.#begin(this.#margin.first);
  }

  /** Adds a character of prose, which is wrapped at word boundaries. */
  prose(point: string, style: Style): void {
    this.#point("prose", point, style);
  }

  /** Adds a character of preformatted text, which is broken where the line is full. */
  verbatim(point: string, style: Style): void {
    this.#point("verbatim", point, style);
  }

  /** Adds a line that is laid out already, such as a row of a table. */
  laidOut(line: string): void {
    this.#out += line;
    this.#column = this.#width;
  }

  /** Ends the line and prints held text. */
  finish(): void {
    this.#open.flush();
    this.#endWord();
    this.#spaces = [];
    this.#closeStyle();
  }

  end(): string {
    this.finish();
    if (this.#hasLines) this.#out += "\n";
    this.#hasLines = false;
    return this.take();
  }

  #point(mode: "prose" | "verbatim", point: string, style: Style): void {
    // A held cluster has the style with which it was added.
    if (mode !== this.#mode || !isSameStyle(style, this.#style)) this.#open.flush();
    this.#mode = mode;
    this.#style = style;
    this.#open.add(point);
  }

  #cluster(cluster: string): void {
    if (this.#mode === "verbatim") this.#verbatimCluster(cluster);
    else if (cluster === " " || cluster === "\t") this.#space();
    else this.#proseCluster(cluster, clusterWidth(cluster));
  }

  #verbatimCluster(cluster: string): void {
    if (cluster !== "\t") return this.#put(cluster, clusterWidth(cluster), this.#style);
    const missing = tabWidth - ((this.#column - this.#left) % tabWidth);
    for (let count = 0; count < missing; count += 1) this.#put(" ", 1, this.#style);
  }

  #space(): void {
    this.#endWord();
    // Spaces at the beginning of a line are dropped.
    if (this.#column > this.#left) this.#spaces.push({ text: " ", style: this.#style });
  }

  #proseCluster(cluster: string, width: number): void {
    if (width === 2) {
      // A line may be broken before and after a wide (CJK, emoji) character.
      this.#endWord();
      this.#addToWord(cluster, width);
      this.#endWord();
      return;
    }
    const standsAlone = this.#word.length === 0 && !this.#isShown;
    if (width === 0 && standsAlone && this.#spaces.length === 0) return this.#put(cluster, 0, this.#style);
    if (this.#isShown) this.#put(cluster, width, this.#style);
    else this.#addToWord(cluster, width);
  }

  #addToWord(cluster: string, width: number): void {
    const last = this.#word.at(-1);
    if (last !== undefined && last.style === this.#style) {
      this.#word[this.#word.length - 1] = { text: last.text + cluster, style: last.style };
    } else {
      this.#word.push({ text: cluster, style: this.#style });
    }
    this.#wordWidth += width;
    const start = this.#column + this.#spaces.length;
    if (this.#column === this.#left || this.#width - start > edge) this.#showWord();
    else if (start + this.#wordWidth > this.#width) {
      this.#spaces = [];
      this.#wrap();
      this.#showWord();
    }
  }

  #showWord(): void {
    for (const { text, style } of this.#spaces) this.#put(text, 1, style);
    for (const { text, style } of this.#word) this.#putText(text, style);
    this.#spaces = [];
    this.#word = [];
    this.#wordWidth = 0;
    this.#isShown = true;
  }

  #endWord(): void {
    if (this.#word.length > 0) this.#showWord();
    this.#isShown = false;
  }

  #putText(text: string, style: Style): void {
    const open = new OpenCluster((cluster) => this.#put(cluster, clusterWidth(cluster), style));
    for (const point of text) open.add(point);
    open.flush();
  }

  #put(cluster: string, width: number, style: Style): void {
    if (this.#column + width > this.#width && this.#column > this.#left) this.#wrap();
    this.#write(cluster, style);
    this.#column += width;
  }

  #wrap(): void {
    this.#closeStyle();
    this.#out += "\n";
    this.#begin(this.#margin.rest);
  }

  #begin(margin: readonly Run[]): void {
    for (const { text, style } of margin) this.#write(text, style);
    this.#left = widthOf(margin);
    this.#column = this.#left;
    this.#isShown = false;
  }

  #write(text: string, style: Style): void {
    if (this.#colours && !isSameStyle(style, this.#pen)) {
      this.#closeStyle();
      this.#out += opening(style);
      this.#pen = style;
    }
    this.#out += text;
  }

  /** Closes the open style. */
  #closeStyle(): void {
    if (!isSameStyle(this.#pen, plain)) this.#out += closing;
    this.#pen = plain;
  }
}

function widthOf(runs: readonly Run[]): number {
  return runs.reduce((sum, { text }) => sum + cellWidth(text), 0);
}

/** Wraps text between words. The text must be free of control characters (`safeText`); its line breaks are kept. */
export function wrap(text: string, width: number, margin: Margin = noMargin): string {
  return wrapRuns([{ text, style: plain }], { width, colours: false }, margin);
}

/**
 * Breaks text where a line is full, and keeps all its spaces. The text must be free of control characters (`safeText`).
 */
export function preformatted(text: string, width: number, margin: Margin = noMargin): string {
  const flow = new Flow({ width, colours: false });
  flow.line(margin);
  for (const point of text) {
    if (point === "\n") flow.line({ first: margin.rest, rest: margin.rest });
    else flow.verbatim(point, plain);
  }
  return flow.end().slice(0, -1);
}

/** As `wrap`, for text with styles. */
export function wrapRuns(runs: readonly Run[], options: FlowOptions, margin: Margin = noMargin): string {
  const flow = new Flow(options);
  flow.line(margin);
  const below: Margin = { first: margin.rest, rest: margin.rest };
  for (const { text, style } of runs) {
    for (const point of text) {
      if (point === "\n") flow.line(below);
      else flow.prose(point, style);
    }
  }
  return flow.end().slice(0, -1);
}
