// Inline Markdown of one line: strong, emphasis, strikethrough, code spans, links. Parsed character by character; only
// a run of markers is held back, until the next character decides what it means.
//
// There is no lookahead, so an opening marker takes effect without a known closing marker. It must be followed by a
// word, and every style ends at the end of the line. Links are printed as written, with a dim address, so that the user
// sees where a link leads.

import type { Style } from "./style.ts";

type Marker = "*" | "_";

export type InlineSink = (point: string, style: Style) => void;

export class Inline {
  readonly #sink: InlineSink;
  readonly #base: Style;
  /** The previous character; a space at the beginning of a line. */
  #before = " ";
  #run = "";
  /** The character of the run. Comparing with the run itself would cost time quadratic in its length. */
  #marker = "";
  #isEscaped = false;
  #strong: Marker | null = null;
  #emphasis: Marker | null = null;
  #isStruck = false;
  #look: Style | null = null;
  /** The number of backticks that close the open code span; 0: none is open. */
  #ticks = 0;
  /** A space in a code span, printed if more code follows. */
  #codeSpace = "";
  #brackets = 0;
  #link: "none" | "closed" | "address" = "none";
  #depth = 0;
  /** The beginning of the current word, to detect a URL. */
  #word = "";

  constructor(sink: InlineSink, base: Style) {
    this.#sink = sink;
    this.#base = base;
  }

  feed(point: string): void {
    if (this.#ticks > 0) return this.#code(point);
    if (this.#isEscaped) return this.#escaped(point);
    if (this.#run !== "") {
      if (point === this.#marker) {
        this.#run += point;
        return;
      }
      this.#resolve(point);
      return this.feed(point);
    }
    if (this.#link === "closed") {
      this.#link = point === "(" ? "address" : "none";
      this.#depth = 0;
    }
    if (this.#link === "address") return this.#address(point);
    if (point === "\\") this.#isEscaped = true;
    else if (point === "*" || point === "~" || point === "_" || point === "`") {
      this.#run = point;
      this.#marker = point;
    } else this.#bracketOrText(point);
  }

  endLine(): void {
    if (this.#ticks > 0) this.#code("\n");
    else if (this.#isEscaped) this.#put("\\");
    else if (this.#run !== "") this.#resolve("\n");
    this.#before = " ";
    this.#run = "";
    this.#isEscaped = false;
    this.#strong = null;
    this.#emphasis = null;
    this.#isStruck = false;
    this.#look = null;
    this.#ticks = 0;
    this.#codeSpace = "";
    this.#brackets = 0;
    this.#link = "none";
    this.#word = "";
  }

  /** The current style. Cached, so that equal styles are the same object. */
  #style(): Style {
    this.#look ??= {
      ...this.#base,
      ...(this.#strong === null ? {} : { bold: true as const }),
      ...(this.#emphasis === null ? {} : { italic: true as const }),
      ...(this.#isStruck ? { strike: true as const } : {}),
    };
    return this.#look;
  }

  #put(text: string, style: Style = this.#style()): void {
    for (const point of text) {
      this.#sink(point, style);
      this.#before = point;
      this.#word = isSpace(point) ? "" : (this.#word + point).slice(0, 16);
    }
  }

  #escaped(point: string): void {
    this.#isEscaped = false;
    if (isPunctuation(point)) return this.#put(point);
    this.#put("\\");
    this.feed(point);
  }

  #bracketOrText(point: string): void {
    if (point === "[") this.#brackets += 1;
    if (point === "]" && this.#brackets > 0) {
      this.#brackets -= 1;
      this.#link = "closed";
    }
    this.#put(point);
  }

  #address(point: string): void {
    if (point === "(") this.#depth += 1;
    if (point === ")") this.#depth -= 1;
    this.#put(point, addressStyle);
    if (this.#depth === 0) this.#link = "none";
  }

  #code(point: string): void {
    const style = codeStyle(this.#style());
    if (point === "`") {
      this.#run += point;
      return;
    }
    if (this.#run !== "") {
      const { length } = this.#run;
      const isOver = length === this.#ticks;
      // A code span with several backticks may have one padding space at each end, which is not part of the code
      // (CommonMark 6.1).
      if (!isOver || this.#ticks === 1) this.#put(this.#codeSpace, style);
      this.#codeSpace = "";
      this.#run = "";
      if (isOver) {
        this.#ticks = 0;
        this.#before = "`";
        if (point !== "\n") this.feed(point);
        return;
      }
      this.#put("`".repeat(length), style);
    }
    this.#put(this.#codeSpace, style);
    this.#codeSpace = "";
    if (point === "\n") return;
    const isFirst = this.#before === "`" && this.#word === "";
    if (point !== " ") this.#put(point, style);
    else if (isFirst && this.#ticks > 1) this.#before = " ";
    else this.#codeSpace = " ";
  }

  /** Interprets a run of markers, now that the next character is known. */
  #resolve(next: string): void {
    const run = this.#run;
    this.#run = "";
    this.#look = null;
    if (run.startsWith("`")) {
      if (next === "\n") return this.#put(run);
      this.#ticks = run.length;
      this.#before = "`";
      this.#word = "";
      return;
    }
    const mayOpen = !isSpace(next);
    const mayClose = !isSpace(this.#before);
    if (run.startsWith("~")) {
      const isToggle = run.length === 2 && !isAddress(this.#word) && (this.#isStruck ? mayClose : mayOpen);
      if (isToggle) this.#isStruck = !this.#isStruck;
      this.#look = null;
      if (!isToggle) this.#put(run);
      return;
    }
    this.#emphasise(run.startsWith("*") ? "*" : "_", run.length, next, mayOpen, mayClose);
  }

  #emphasise(marker: Marker, count: number, next: string, mayOpen: boolean, mayClose: boolean): void {
    const insideWord = isWordPart(this.#before) && isWordPart(next);
    const isLiteral = marker === "_" && (insideWord || isAddress(this.#word));
    const isOpener = mayOpen && !(marker === "_" && isWordPart(this.#before));
    let left = isLiteral || count > 3 ? 0 : count;
    while (left > 0) {
      if (left >= 2 && this.#strong === marker && mayClose) this.#strong = null;
      else if (left !== 2 && this.#emphasis === marker && mayClose) {
        this.#emphasis = null;
        left -= 1;
        continue;
      } else if (left >= 2 && this.#strong === null && isOpener) this.#strong = marker;
      else if (left === 1 && this.#emphasis === null && isOpener && !isWordPart(this.#before)) {
        this.#emphasis = marker;
        left -= 1;
        continue;
      } else break;
      left -= 2;
    }
    this.#look = null;
    const literal = isLiteral || count > 3 ? count : left;
    this.#put(marker.repeat(literal));
  }
}

function codeStyle(around: Style): Style {
  return { ...around, hue: "cyan" };
}

const addressStyle: Style = { dim: true, underline: true };

function isSpace(point: string): boolean {
  return /^\s$/.test(point);
}

/** Letters and digits of scripts that separate words by spaces. */
function isWordPart(point: string): boolean {
  return /^[\p{L}\p{N}]$/u.test(point) && !/^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]$/u.test(point);
}

function isPunctuation(point: string): boolean {
  return /^[!-/:-@[-`{-~]$/.test(point);
}

function isAddress(word: string): boolean {
  return /https?:\/\//.test(word);
}
