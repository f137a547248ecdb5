// Base64 (RFC 4648 §4) for the pure folders, which have neither `Buffer` nor `atob`. Standard alphabet. Padding is
// written; when reading, padding is optional, ASCII white space is skipped and any other character is an error.
// docs/decisions/0006 has measurements.
//
// Both directions are linear in the length of the input.

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const notInAlphabet = 64;
const whiteSpace = 65;
const padding = 66;

/** The value of each ASCII character: 0 to 63, or one of the three classes above. */
const digits: Uint8Array = new Uint8Array(128).fill(notInAlphabet);
for (let index = 0; index < alphabet.length; index += 1) digits[alphabet.charCodeAt(index)] = index;
for (const character of " \t\n\f\r") digits[character.charCodeAt(0)] = whiteSpace;
digits["=".charCodeAt(0)] = padding;

const codes: readonly number[] = Array.from(alphabet, (character) => character.charCodeAt(0));
const paddingCode = "=".charCodeAt(0);

// Bytes per slice: a multiple of 3, so that only the last slice is padded, and few enough that the 8,192 characters fit
// into the arguments of one `String.fromCharCode` call.
const sliceLength = 3 * 2048;

/** Encodes bytes as base64 text with padding. */
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
    // Bytes past the end count as 0; their characters are replaced by padding below.
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

/** Decodes base64 text. Returns `null` if the text is not valid base64. */
export function fromBase64(text: string): Uint8Array | null {
  const bytes = new Uint8Array(Math.floor((text.length * 3) / 4));
  let length = 0;
  // `bits` holds the `bitCount` low bits that do not fill a byte yet.
  let bits = 0;
  let bitCount = 0;
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
    bitCount += 6;
    if (bitCount >= 8) {
      bitCount -= 8;
      bytes[length] = bits >> bitCount;
      length += 1;
      bits &= (1 << bitCount) - 1;
    }
  }
  // A group has 4 characters. Without padding the last group may have 2 or 3, never 1: 6 bits are less than a byte.
  const isComplete =
    paddingCount === 0 ? digitCount % 4 !== 1 : (digitCount + paddingCount) % 4 === 0 && paddingCount <= 2;
  return isComplete ? bytes.slice(0, length) : null;
}
