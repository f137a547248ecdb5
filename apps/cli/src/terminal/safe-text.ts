// Text from a model, a tool or a stored session, made harmless before it reaches a terminal: nobody but us moves the cursor, sets a title, answers for
// the keyboard or turns the reading direction around.
//
// A control character becomes a picture of itself, so that one sees that something was there. Lines and tabs stay. Text may come in pieces cut anywhere.

/** Makes a text harmless. */
export function safeText(text: string): string {
  const stream = new SafeText();
  return stream.push(text) + stream.end();
}

/** The same on one line: what breaks a line becomes a space. */
export function safeLine(text: string): string {
  return safeText(text)
    .replaceAll(/\s*\n\s*/g, " ")
    .replaceAll("\t", " ");
}

/** Makes text harmless that comes in pieces. */
export class SafeText {
  /** The first half of a character that was cut in two. */
  #half = "";

  push(text: string): string {
    const whole = this.#half + text;
    const last = whole.charCodeAt(whole.length - 1);
    const isCut = last >= 0xd800 && last <= 0xdbff;
    this.#half = isCut ? whole.slice(-1) : "";
    const ready = isCut ? whole.slice(0, -1) : whole;
    return isHarmless.test(ready) ? ready : ready.replaceAll(harmful, picture);
  }

  end(): string {
    const rest = this.#half === "" ? "" : replacement;
    this.#half = "";
    return rest;
  }
}

const replacement = "\uFFFD";

const isHarmless = /^[\n\u0020-\u007E]*$/;

// Controls other than tab and line feed; line separators; what turns the direction of text around; halves of characters.
const harmful =
  // eslint-disable-next-line no-control-regex -- these are what has to go
  /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u2028\u2029\u202A-\u202E\u2066-\u2069]|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;

function picture(found: string): string {
  const code = found.charCodeAt(0);
  // Line ends of other systems come as a pair, cut or not.
  if (code === 0x0d) return "";
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return code === 0x20_28 || code === 0x20_29 ? "\n" : replacement;
}
