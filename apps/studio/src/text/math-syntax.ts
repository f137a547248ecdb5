// Formulas in Markdown, as models write them: `$x$`, `$$x$$`, `\(x\)`, `\[x\]`, and blocks whose first and last line are
// `$$` or `\[` and `\]`. A plugin for remark: formulas become code with the class `math-inline` or `math-display`, which
// markdown.tsx renders.
//
// Rules
//   1. Dollars are prices more often than formulas. As in Pandoc, `$` begins a formula only before a character that is
//      no space, and ends it only after one and not before a digit; no letter or digit is before it.
//   2. A backslash hides the character after it: `\$` ends no formula.
//   3. Markers without an end cost no quadratic time. A block that is not closed ends with its text, so that its lines
//      are read once. Other formulas have at most `maxLength` characters, and `\(` and `\[` contain no other one.

/// <reference types="remark-parse" />

import type { Extension as FromMarkdown } from "mdast-util-from-markdown";
import type { Code, Construct, Effects, Extension, State, Tokenizer } from "micromark-util-types";
import type { Processor } from "unified";

declare module "micromark-util-types" {
  interface TokenTypeMap {
    formula: "formula";
    formulaBlock: "formulaBlock";
    formulaMark: "formulaMark";
    formulaText: "formulaText";
  }
}

const dollar = 36;
const backslash = 92;
const maxLength = 2000;

const fromMarkdown: FromMarkdown = {
  enter: {
    formula(token) {
      const className = ["math-inline"];
      this.enter({ type: "inlineCode", value: "", data: { hProperties: { className } } }, token);
      this.buffer();
    },
    formulaBlock(token) {
      this.enter({ type: "code", value: "", data: { hProperties: { className: ["math-display"] } } }, token);
      this.buffer();
    },
    formulaText(token) {
      this.config.enter["data"]?.call(this, token);
    },
  },
  exit: {
    formula(token) {
      const value = this.resume();
      const node = this.stack.at(-1);
      const isDisplay = /^(?:\$\$|\\\[)/.test(this.sliceSerialize(token));
      if (node?.type === "inlineCode") {
        node.value = value.trim();
        if (isDisplay) node.data = { hProperties: { className: ["math-display"] } };
      }
      this.exit(token);
    },
    formulaBlock(token) {
      const value = this.resume();
      const node = this.stack.at(-1);
      if (node?.type === "code") node.value = value.trim();
      this.exit(token);
    },
    formulaText(token) {
      this.config.exit["data"]?.call(this, token);
    },
  },
};

/** `$x$` and `$$x$$`. */
const tokenizeDollars: Tokenizer = (effects, ok, nok) => {
  let size = 0;
  let closing = 0;
  let length = 0;
  let last: Code = null;
  const open: State = (code) => {
    if (code === dollar && size < 2) {
      effects.consume(code);
      size += 1;
      return open;
    }
    if (code === dollar || (size === 1 && isSpace(code))) return nok(code);
    effects.exit("formulaMark");
    return between(code);
  };
  const between: State = (code) => {
    if (code === null || length > maxLength) return nok(code);
    if (code === dollar) {
      // Rule 1.
      if (size === 1 && isSpace(last)) return nok(code);
      effects.enter("formulaMark");
      return close(code);
    }
    last = code;
    if (isLineEnd(code)) return lineEnd(effects, code, between);
    effects.enter("formulaText");
    return text(code);
  };
  const text: State = (code) => {
    if (code === null || code === dollar || isLineEnd(code)) {
      effects.exit("formulaText");
      return between(code);
    }
    effects.consume(code);
    last = code;
    length += 1;
    return code === backslash ? hidden : text;
  };
  const hidden: State = (code) => {
    if (code === null || isLineEnd(code)) return text(code);
    effects.consume(code);
    last = code;
    length += 1;
    return text;
  };
  const close: State = (code) => {
    if (code === dollar && closing < size) {
      effects.consume(code);
      closing += 1;
      return close;
    }
    if (closing < size || code === dollar || (size === 1 && isDigit(code))) return nok(code);
    effects.exit("formulaMark");
    effects.exit("formula");
    return ok(code);
  };
  return (code) => {
    effects.enter("formula");
    effects.enter("formulaMark");
    return open(code);
  };
};

/** `\(x\)` and `\[x\]`. */
const tokenizeBrackets: Tokenizer = (effects, ok, nok) => {
  let closing: Code = null;
  let length = 0;
  const end: Construct = {
    partial: true,
    tokenize: (inner, isEnd, isNone) => (code) => {
      inner.enter("formulaMark");
      inner.consume(code);
      return (next) => {
        if (next !== closing) return isNone(next);
        inner.consume(next);
        inner.exit("formulaMark");
        return isEnd;
      };
    },
  };
  const between: State = (code) => {
    if (code === null || length > maxLength) return nok(code);
    if (isLineEnd(code)) return lineEnd(effects, code, between);
    if (code === backslash) return effects.attempt(end, done, escaped)(code);
    effects.enter("formulaText");
    return text(code);
  };
  const escaped: State = (code) => {
    effects.enter("formulaText");
    effects.consume(code);
    return (next) => {
      if (next === null || isLineEnd(next)) return text(next);
      // Rule 3.
      if (closingOf(next) !== null) return nok(next);
      effects.consume(next);
      length += 2;
      return text;
    };
  };
  const text: State = (code) => {
    if (code === null || code === backslash || isLineEnd(code)) {
      effects.exit("formulaText");
      return between(code);
    }
    effects.consume(code);
    length += 1;
    return text;
  };
  const done: State = (code) => {
    effects.exit("formula");
    return ok(code);
  };
  return (code) => {
    effects.enter("formula");
    effects.enter("formulaMark");
    effects.consume(code);
    return (next) => {
      closing = closingOf(next);
      if (closing === null) return nok(next);
      effects.consume(next);
      effects.exit("formulaMark");
      return between;
    };
  };
};

/** Lines between two lines with `$$`, or with `\[` and `\]`. */
const tokenizeBlock: Tokenizer = function tokenizeBlock(effects, ok, nok) {
  const { parser } = this;
  const now = (): number => this.now().line;
  let marker: readonly [Code, Code] = [dollar, dollar];
  /** The rest of a line with a marker: nothing. */
  const restOf =
    (inner: Effects, isEmpty: State, isNot: State): State =>
    (code) => {
      if (code === null || isLineEnd(code)) {
        inner.exit("formulaMark");
        return isEmpty(code);
      }
      if (!isSpace(code)) return isNot(code);
      inner.consume(code);
      return restOf(inner, isEmpty, isNot);
    };
  /** A line that belongs to the same container, for example to the same quote. */
  const nextLine: Construct = {
    partial: true,
    tokenize: (inner, isNext, isNot) => (code) => {
      inner.enter("lineEnding");
      inner.consume(code);
      inner.exit("lineEnding");
      return (next) => (parser.lazy[now()] === true ? isNot(next) : isNext(next));
    },
  };
  const lastLine: Construct = {
    partial: true,
    tokenize: (inner, isLast, isNot) => (code) => {
      inner.enter("formulaMark");
      const first: State = (next) => {
        if (next !== null && isSpace(next) && !isLineEnd(next)) {
          inner.consume(next);
          return first;
        }
        if (next !== marker[0]) return isNot(next);
        inner.consume(next);
        return (second) => {
          if (second !== marker[1]) return isNot(second);
          inner.consume(second);
          return restOf(inner, isLast, isNot);
        };
      };
      return first(code);
    },
  };
  const line: State = (code) => {
    if (code === null) return done(code);
    if (isLineEnd(code)) return effects.attempt(nextLine, begin, done)(code);
    effects.enter("formulaText");
    return text(code);
  };
  const begin: State = (code) => effects.attempt(lastLine, done, line)(code);
  const text: State = (code) => {
    if (code === null || isLineEnd(code)) {
      effects.exit("formulaText");
      return line(code);
    }
    effects.consume(code);
    return text;
  };
  const done: State = (code) => {
    effects.exit("formulaBlock");
    return ok(code);
  };
  return (code) => {
    effects.enter("formulaBlock");
    effects.enter("formulaMark");
    effects.consume(code);
    return (next) => {
      const isDollar = code === dollar && next === dollar;
      if (!isDollar && !(code === backslash && next === codeOf("["))) return nok(next);
      marker = isDollar ? [dollar, dollar] : [backslash, codeOf("]")];
      effects.consume(next);
      return restOf(effects, line, nok);
    };
  };
};

const dollars: Construct = {
  name: "dollars",
  previous: (code) => code !== dollar && !isWord(code),
  tokenize: tokenizeDollars,
};
const brackets: Construct = { name: "brackets", tokenize: tokenizeBrackets };
const block: Construct = { name: "formulaBlock", concrete: true, tokenize: tokenizeBlock };

const syntax: Extension = {
  text: { [dollar]: dollars, [backslash]: brackets },
  flow: { [dollar]: block, [backslash]: block },
};

function lineEnd(effects: Effects, code: Code, next: State): State {
  effects.enter("lineEnding");
  effects.consume(code);
  effects.exit("lineEnding");
  return next;
}

/** micromark has codes below -2 for line endings, -2 and -1 for tabs. */
function isLineEnd(code: Code): boolean {
  return code !== null && code < -2;
}

function isSpace(code: Code): boolean {
  return code === null || code < 0 || code === 32;
}

function isDigit(code: Code): boolean {
  return code !== null && code >= 48 && code <= 57;
}

function isWord(code: Code): boolean {
  return code !== null && code > 0 && /[\p{L}\p{N}]/u.test(String.fromCodePoint(code));
}

function codeOf(character: string): number {
  return character.charCodeAt(0);
}

/** The character that ends a formula after a backslash. */
function closingOf(opening: Code): number | null {
  return opening === codeOf("(") ? codeOf(")") : opening === codeOf("[") ? codeOf("]") : null;
}

/** Adds formulas to the Markdown that a processor reads. A plugin of unified is called with the processor as `this`. */
function addFormulas(this: Processor): void {
  const data = this.data();
  (data.micromarkExtensions ??= []).push(syntax);
  (data.fromMarkdownExtensions ??= []).push(fromMarkdown);
}

export const remarkFormulas = addFormulas;
