// SHA-256 (FIPS 180-4) for the pure folders: the kernel computes the digest of a pending call synchronously, and Web
// Crypto is asynchronous (docs/decisions/0047). Linear in the length of the text.

/** SHA-256 of a text as UTF-8, in lower-case hex. */
export function sha256Text(text: string): string {
  const bytes = paddedUtf8(text);
  const hash = Int32Array.from(initialHash);
  const words = new Int32Array(64);
  for (let block = 0; block < bytes.length; block += 64) {
    for (let at = 0; at < 16; at += 1) words[at] = bigEndian(bytes, block + 4 * at);
    for (let at = 16; at < 64; at += 1) {
      const early = words[at - 15] ?? 0;
      const late = words[at - 2] ?? 0;
      const first = rotated(early, 7) ^ rotated(early, 18) ^ (early >>> 3);
      const second = rotated(late, 17) ^ rotated(late, 19) ^ (late >>> 10);
      words[at] = (words[at - 16] ?? 0) + first + (words[at - 7] ?? 0) + second;
    }
    compress(hash, words);
  }
  return Array.from(hash, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}

/** Adds one block, as its 64 scheduled words, to the hash. */
function compress(hash: Int32Array, words: Int32Array): void {
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = hash;
  for (let round = 0; round < 64; round += 1) {
    const choice = (e & f) ^ (~e & g);
    const sumOfE = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25);
    const first = (h + sumOfE + choice + (roundConstants[round] ?? 0) + (words[round] ?? 0)) | 0;
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const second = ((rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + majority) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + second) | 0;
  }
  for (const [index, word] of [a, b, c, d, e, f, g, h].entries()) hash[index] = (hash[index] ?? 0) + word;
}

function rotated(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}

function bigEndian(bytes: Uint8Array, at: number): number {
  return ((bytes[at] ?? 0) << 24) | ((bytes[at + 1] ?? 0) << 16) | ((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0);
}

/**
 * The text as UTF-8 with the padding of the algorithm: a 1 bit, zeros, and the length in bits as 64 bits. A lone
 * surrogate becomes U+FFFD.
 */
function paddedUtf8(text: string): Uint8Array {
  const encoded = new Uint8Array(text.length * 3 + 72);
  let length = 0;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) {
      encoded[length] = unit;
      length += 1;
      continue;
    }
    const read = text.codePointAt(at) ?? 0;
    const point = read >= 0xd800 && read <= 0xdfff ? 0xfffd : read;
    if (point > 0xffff) at += 1;
    const following = point < 0x800 ? 1 : point > 0xffff ? 3 : 2;
    encoded[length] = (leadBits[following] ?? 0) | (point >> (6 * following));
    for (let left = following - 1; left >= 0; left -= 1)
      encoded[length + following - left] = 0x80 | ((point >> (6 * left)) & 0x3f);
    length += following + 1;
  }
  encoded[length] = 0x80;
  const total = Math.ceil((length + 9) / 64) * 64;
  const bits = length * 8;
  for (let byte = 0; byte < 7; byte += 1) encoded[total - 1 - byte] = Math.floor(bits / 2 ** (8 * byte)) & 0xff;
  return encoded.subarray(0, total);
}

/** The high bits of the first byte, by the number of bytes that follow it. */
const leadBits: readonly number[] = [0, 0xc0, 0xe0, 0xf0];

const primes = firstPrimes(64);
/** The first 32 bits of the fractional parts of the square roots of the first 8 primes. */
const initialHash: readonly number[] = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
/** The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
const roundConstants: Int32Array = Int32Array.from(primes, (prime) => fraction(Math.cbrt(prime)));

function fraction(root: number): number {
  return Math.floor((root % 1) * 2 ** 32) | 0;
}

function firstPrimes(count: number): readonly number[] {
  const found: number[] = [];
  for (let candidate = 2; found.length < count; candidate += 1)
    if (found.every((prime) => candidate % prime !== 0)) found.push(candidate);
  return found;
}
