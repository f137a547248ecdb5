// Sanitizes text of models, tools and stored sessions before it is written to a terminal (terminal escape injection): no such text can move the cursor,
// set the title, make the terminal send input, or reverse the direction of text (bidirectional overrides, "Trojan Source").
//
// A control character is replaced with its symbol (U+2400 block), so that the user sees it. Line feeds and tabs are kept. Text may be streamed in pieces
// that split a surrogate pair.

/** Sanitizes a text. */
export function safeText(text: string): string {
  const stream = new SafeText();
  return stream.push(text) + stream.end();
}

/** Sanitizes a text for one line: line breaks and tabs become spaces. */
export function safeLine(text: string): string {
  return safeText(text)
    .replaceAll(/\s*\n\s*/g, " ")
    .replaceAll("\t", " ");
}

/** Sanitizes streamed text. */
export class SafeText {
  /** A high surrogate at the end of the last piece. */
  #half = "";

  push(text: string): string {
    const joined = this.#half + text;
    const last = joined.charCodeAt(joined.length - 1);
    const isCut = last >= 0xd800 && last <= 0xdbff;
    this.#half = isCut ? joined.slice(-1) : "";
    const ready = isCut ? joined.slice(0, -1) : joined;
    return isSafe.test(ready) ? ready : ready.replaceAll(unsafe, symbolOf);
  }

  end(): string {
    const rest = this.#half === "" ? "" : replacement;
    this.#half = "";
    return rest;
  }
}

const replacement = "\uFFFD";

const isSafe = /^[\n\u0020-\u007E]*$/;

// C0 and C1 control characters except tab and line feed, line separators, bidirectional controls, and unpaired surrogates.
const unsafe = /(?![\t\n])\p{Cc}|[\u2028\u2029\u202A-\u202E\u2066-\u2069]|\p{Cs}/gu;

function symbolOf(character: string): string {
  const code = character.charCodeAt(0);
  // A carriage return is dropped: CRLF becomes LF, also if the pair is split over two pieces.
  if (code === 0x0d) return "";
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return code === 0x20_28 || code === 0x20_29 ? "\n" : replacement;
}
