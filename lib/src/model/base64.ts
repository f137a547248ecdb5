// Bytes ⇄ base64 (RFC 4648 §4), for pure folders, which know neither `Buffer` nor `atob`. Standard alphabet; padding is
// written, and read as optional; ASCII white space is skipped; anything else is refused. docs/decisions/0006 has the numbers.

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const notInAlphabet = 64;
const whiteSpace = 65;
const padding = 66;

const digits: Uint8Array = new Uint8Array(128).fill(notInAlphabet);
for (let index = 0; index < alphabet.length; index += 1) digits[alphabet.charCodeAt(index)] = index;
for (const character of " \t\n\f\r") digits[character.charCodeAt(0)] = whiteSpace;
digits["=".charCodeAt(0)] = padding;

const encoded: readonly string[] = Array.from(
  { length: 4096 },
  (_, pair) => alphabet.charAt(pair >> 6) + alphabet.charAt(pair & 63),
);

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  let index = 0;
  for (; index + 2 < bytes.length; index += 3) {
    const triple = (byteAt(bytes, index) << 16) | (byteAt(bytes, index + 1) << 8) | byteAt(bytes, index + 2);
    text += pairOf(triple >> 12) + pairOf(triple & 4095);
  }
  if (bytes.length - index === 1) {
    text += `${pairOf(byteAt(bytes, index) << 4)}==`;
  } else if (bytes.length - index === 2) {
    const rest = (byteAt(bytes, index) << 10) | (byteAt(bytes, index + 1) << 2);
    text += `${pairOf(rest >> 6)}${alphabet.charAt(rest & 63)}=`;
  }
  return text;
}

/** The bytes, or `null` when the text is not base64. */
export function fromBase64(text: string): Uint8Array | null {
  const bytes = new Uint8Array(Math.floor((text.length * 3) / 4));
  let length = 0;
  let bits = 0;
  let held = 0;
  let digitCount = 0;
  let paddingCount = 0;
  for (let index = 0; index < text.length; index += 1) {
    const digit = digits[text.charCodeAt(index)] ?? notInAlphabet;
    if (digit === whiteSpace) continue;
    if (digit === padding) {
      paddingCount += 1;
      continue;
    }
    if (digit === notInAlphabet || paddingCount > 0) return null;
    digitCount += 1;
    bits = (bits << 6) | digit;
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes[length] = bits >> held;
      length += 1;
      bits &= (1 << held) - 1;
    }
  }
  const wholeGroups =
    paddingCount === 0 ? digitCount % 4 !== 1 : (digitCount + paddingCount) % 4 === 0 && paddingCount <= 2;
  return wholeGroups ? bytes.subarray(0, length) : null;
}

const byteAt = (bytes: Uint8Array, index: number): number => bytes[index] ?? 0;
const pairOf = (twelveBits: number): string => encoded[twelveBits] ?? "";
