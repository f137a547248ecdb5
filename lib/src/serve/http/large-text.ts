// Texts of responses that are too large to be rendered at once: a reply of a megabyte is several megabytes of JSON in
// an event, and hundreds of clients may ask for it at the same time.
//
// Theory of operation
//   `LargeText` keeps the parts of the JSON text as they are in memory: the JSON around the long strings of a value,
//   and the strings themselves, which are shared with the value. `next` renders the next slice of about `sliceLength`
//   characters. So the cost of a response is paid slice by slice, as its client reads, and a client that does not read
//   costs no rendering and no copy of the text.

/** The length of a slice, in characters. Strings of more characters are rendered in slices. */
export const sliceLength = 65_536;

/** A part of a text: JSON, or a string whose characters are escaped when they are rendered. */
type Part = { readonly type: "json" | "string"; readonly text: string };

export class LargeText {
  readonly #parts: readonly Part[];
  #index = 0;
  #offset = 0;
  #length: number;

  private constructor(parts: readonly Part[]) {
    this.#parts = parts;
    this.#length = parts.reduce((sum, { text }) => sum + text.length, 0);
  }

  /** A text that is rendered already; its slices are encoded one after the other. */
  static of(text: string): LargeText {
    return new LargeText([{ type: "json", text }]);
  }

  /** JSON in which each occurrence of `mark` stands for the content of one of these strings, in order. */
  static withStrings(json: string, mark: string, strings: readonly string[]): LargeText {
    const parts = json.split(mark).flatMap((text, index): readonly Part[] => {
      const string = strings[index];
      return [{ type: "json", text }, ...(string === undefined ? [] : [{ type: "string", text: string } as const])];
    });
    return new LargeText(parts);
  }

  /** This text between two others. No slice of it was taken yet. */
  between(before: string, after: string): LargeText {
    return new LargeText([{ type: "json", text: before }, ...this.#parts, { type: "json", text: after }]);
  }

  /** The length of what was not taken yet, in characters before they are escaped. */
  get length(): number {
    return this.#length;
  }

  /** The next slice; `null`: all were taken. */
  next(): string | null {
    if (this.#length === 0) return null;
    let slice = "";
    while (slice.length < sliceLength) {
      const part = this.#parts[this.#index];
      if (part === undefined) break;
      const { type, text } = part;
      const end = endBetweenPairs(text, this.#offset, this.#offset + sliceLength - slice.length);
      const taken = text.slice(this.#offset, end);
      slice += type === "json" ? taken : JSON.stringify(taken).slice(1, -1);
      this.#length -= taken.length;
      this.#offset = end;
      if (end < text.length) continue;
      this.#index += 1;
      this.#offset = 0;
    }
    return slice;
  }
}

/**
 * The end of a slice that begins at `start`: `end`, or one character before or after it, so that no surrogate pair is
 * divided.
 */
function endBetweenPairs(text: string, start: number, end: number): number {
  if (end >= text.length) return text.length;
  const last = text.charCodeAt(end - 1);
  if (last < 0xd800 || last > 0xdbff) return end;
  return end - 1 > start ? end - 1 : end + 1;
}
