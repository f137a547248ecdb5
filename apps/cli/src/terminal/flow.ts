// Lays text out on lines as it comes, character by character, and never takes back what it has given out.
//
// Rules:
//   1. No line is wider than the terminal, unless the terminal is narrower than anything could be.
//   2. Where a word goes is decided by where it begins: with room to spare it is shown as it comes, and cut if it turns out to be a monster; near the
//      edge it is waited for, which is never more than the rest of the line. So how text was cut into pieces changes nothing.
//   3. Every line ends with no style open.

import type { Style } from "./style.ts";

import { cellWidth, clusterWidth, OpenCluster } from "./cells.ts";
import { closing, isSameStyle, opening, plain } from "./style.ts";

export type Run = { readonly text: string; readonly style: Style };

export type FlowOptions = { readonly width: number; readonly colours: boolean };

/** What stands at the left of a line, and of those it is continued on. */
export type Margin = { readonly first: readonly Run[]; readonly rest: readonly Run[] };

export const noMargin: Margin = { first: [], rest: [] };

/** The narrowest that text is laid out for, and the least that a margin has to leave. */
const leastWidth = 2;
const leastRoom = 8;
/** A word that begins nearer to the edge than this is waited for. */
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
  /** Where the line begins, behind its margin. */
  #left = 0;
  #mode: "prose" | "verbatim" = "prose";
  #style: Style = plain;
  #spaces: Run[] = [];
  #word: Run[] = [];
  #wordWidth = 0;
  /** The word has begun to be shown: what follows goes behind it. */
  #isShown = false;

  constructor({ width, colours }: FlowOptions) {
    this.#width = Math.max(leastWidth, width);
    this.#colours = colours;
    this.#open = new OpenCluster((cluster) => this.#cluster(cluster));
  }

  get width(): number {
    return this.#width;
  }

  /** What has been laid out since the last time. */
  take(): string {
    const out = this.#out;
    this.#out = "";
    return out;
  }

  /** Begins a line; with a gap, an empty one stands before it. */
  line(margin: Margin = noMargin, gap = false): void {
    this.finish();
    if (this.#hasLines) this.#out += gap ? "\n\n" : "\n";
    this.#hasLines = true;
    // A margin that leaves no room for text is left out.
    const room = this.#width - Math.max(widthOf(margin.first), widthOf(margin.rest));
    this.#margin = room < leastRoom ? noMargin : margin;
    this.#begin(this.#margin.first);
  }

  /** A character of prose: may be moved to the next line with its word. */
  prose(point: string, style: Style): void {
    this.#point("prose", point, style);
  }

  /** A character that stays where it is; the line is cut where it is full. */
  verbatim(point: string, style: Style): void {
    this.#point("verbatim", point, style);
  }

  /** A line that somebody else has laid out. */
  laidOut(line: string): void {
    this.#out += line;
    this.#column = this.#width;
  }

  /** Ends the line: nothing is waited for any more. */
  finish(): void {
    this.#open.flush();
    this.#endWord();
    this.#spaces = [];
    this.#lift();
  }

  end(): string {
    this.finish();
    if (this.#hasLines) this.#out += "\n";
    this.#hasLines = false;
    return this.take();
  }

  #point(mode: "prose" | "verbatim", point: string, style: Style): void {
    // What is held is a character of the style it came with.
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
    // A line does not begin with a space.
    if (this.#column > this.#left) this.#spaces.push({ text: " ", style: this.#style });
  }

  #proseCluster(cluster: string, width: number): void {
    if (width === 2) {
      // Wide characters may stand on any line, whatever is beside them.
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
    this.#lift();
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
      this.#lift();
      this.#out += opening(style);
      this.#pen = style;
    }
    this.#out += text;
  }

  #lift(): void {
    if (!isSameStyle(this.#pen, plain)) this.#out += closing;
    this.#pen = plain;
  }
}

function widthOf(runs: readonly Run[]): number {
  return runs.reduce((sum, { text }) => sum + cellWidth(text), 0);
}

/** Harmless text in lines no wider than that, broken between words. Lines of its own stay lines. */
export function wrap(text: string, width: number, margin: Margin = noMargin): string {
  return wrapRuns([{ text, style: plain }], { width, colours: false }, margin);
}

/** Harmless text as it is, spaces and all, cut where a line is full. */
export function preformatted(text: string, width: number, margin: Margin = noMargin): string {
  const flow = new Flow({ width, colours: false });
  flow.line(margin);
  for (const point of text) {
    if (point === "\n") flow.line({ first: margin.rest, rest: margin.rest });
    else flow.verbatim(point, plain);
  }
  return flow.end().slice(0, -1);
}

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
