// Sanitizes text of models, tools and stored sessions before it is written to a terminal (terminal escape injection):
// no such text can move the cursor, set the title, make the terminal send input, or reverse the direction of text
// (bidirectional overrides, "Trojan Source").
//
// A control character is replaced with its symbol (U+2400 block), so that the user sees it. Line feeds and tabs are
// kept. Text may be streamed in pieces that split a surrogate pair.

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

/**
 * A value as JSON that can be written to a terminal: characters that could control it are escaped (`\\u009b`). The
 * value that a program parses is the same.
 */
export function safeJson(value: unknown, indent = 0): string {
  return (JSON.stringify(value, null, indent) ?? "null").replaceAll(unsafe, (character) =>
    [...Array(character.length).keys()]
      .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}

/**
 * The last line of defence, for everything that commands write to a terminal: only colours and styles of this program
 * (SGR sequences) may control it. Texts are sanitized where they are formatted; this function covers what a command
 * forgets.
 */
export function safeOutput(text: string): string {
  return text.replaceAll(unsafe, (character, at: number) =>
    character === "\u001B" && sgr.test(text.slice(at + 1, at + 20)) ? character : symbolOf(character),
  );
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

// C0 and C1 control characters except tab and line feed, line separators, bidirectional controls, invisible tags, and
// unpaired surrogates.
const unsafe = /(?![\t\n])\p{Cc}|[\u2028\u2029\p{Bidi_Control}\u{E0000}-\u{E007F}]|\p{Cs}/gu;

/** The rest of an SGR sequence after its escape character. */
const sgr = /^\[[0-9;]{0,16}m/;

function symbolOf(character: string): string {
  const code = character.charCodeAt(0);
  // A carriage return is dropped: CRLF becomes LF, also if the pair is split over two pieces.
  if (code === 0x0d) return "";
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return code === 0x20_28 || code === 0x20_29 ? "\n" : replacement;
}
