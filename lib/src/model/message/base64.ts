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

const codes: readonly number[] = Array.from(alphabet, (character) => character.charCodeAt(0));
const paddingCode = "=".charCodeAt(0);

// Whole triples, so that only the last slice is padded, and few enough characters to be arguments of one call.
const sliceLength = 3 * 2048;

export function toBase64(bytes: Uint8Array): string {
  const slices: string[] = [];
  for (let start = 0; start < bytes.length; start += sliceLength) {
    slices.push(encodeSlice(bytes, start, Math.min(start + sliceLength, bytes.length)));
  }
  return slices.join("");
}

function encodeSlice(bytes: Uint8Array, start: number, end: number): string {
  const characters: number[] = [];
  for (let index = start; index < end; index += 3) {
    // Beyond the end of an array there is `undefined`, which counts as 0 here.
    const triple = ((bytes[index] ?? 0) << 16) | ((bytes[index + 1] ?? 0) << 8) | (bytes[index + 2] ?? 0);
    characters.push(
      codes[triple >> 18] ?? 0,
      codes[(triple >> 12) & 63] ?? 0,
      index + 1 < end ? (codes[(triple >> 6) & 63] ?? 0) : paddingCode,
      index + 2 < end ? (codes[triple & 63] ?? 0) : paddingCode,
    );
  }
  return String.fromCharCode(...characters);
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
  return wholeGroups ? bytes.slice(0, length) : null;
}
