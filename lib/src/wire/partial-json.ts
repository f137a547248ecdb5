// JSON that is still being written: what it says so far, at a cost that grows with what is new and not with what came before.

import type { Json } from "../model/internal.ts";

type Growing =
  | { type: "array"; items: Json[] }
  | { type: "object"; fields: { [key: string]: Json }; key: string | null };

/**
 * An incremental JSON parser: after `push('{"city": "Ro')` the value is `{ city: "Ro" }`. The value is mutated as text arrives, so a caller that keeps an
 * earlier state copies it. Strings appear as far as they were received, numbers and literals when they are complete; input after the end of the
 * value, or input that cannot be JSON, ends the parsing.
 */
export class PartialJson {
  #root: Json | undefined;
  readonly #stack: Growing[] = [];
  /** What is being read: nothing, a text, or a number or word. */
  #state: "value" | "text" | "escape" | "unicode" | "word" | "done" | "broken" = "value";
  #text = "";
  #word = "";
  #hex = "";
  /** A text that is the name of a field. */
  #isKey = false;
  #expectsKey = false;

  /** What the JSON says so far; `undefined` before it says anything. */
  get value(): Json | undefined {
    return this.#root;
  }

  /** Is the value whole? */
  get isDone(): boolean {
    return this.#state === "done";
  }

  push(text: string): void {
    for (let index = 0; index < text.length; index += 1) {
      if (this.#state === "text") {
        // Most of what is written is text: up to its next mark it is taken at once.
        const end = this.#plainEnd(text, index);
        if (end > index) {
          this.#text += text.slice(index, end);
          index = end;
          if (index >= text.length) break;
        }
      }
      this.#take(text.charAt(index));
    }
    const writes = this.#state === "text" || this.#state === "escape" || this.#state === "unicode";
    if (writes && !this.#isKey) this.#show(this.#text);
  }

  #plainEnd(text: string, from: number): number {
    let end = from;
    while (end < text.length && text.charAt(end) !== '"' && text.charAt(end) !== "\\") end += 1;
    return end;
  }

  #take(char: string): void {
    switch (this.#state) {
      case "text":
        if (char === "\\") this.#state = "escape";
        else this.#endText();
        return;
      case "escape":
        this.#escape(char);
        return;
      case "unicode":
        this.#hex += char;
        if (this.#hex.length < 4) return;
        this.#text += String.fromCharCode(Number.parseInt(this.#hex, 16));
        this.#state = "text";
        return;
      case "word":
        if (/[\w.+-]/.test(char)) {
          this.#word += char;
          return;
        }
        this.#endWord();
        this.#mark(char);
        return;
      case "value":
        this.#mark(char);
        return;
      case "done":
      case "broken":
        return;
    }
  }

  #mark(char: string): void {
    if (this.#state === "broken" || this.#state === "done" || char.trim() === "") return;
    const top = this.#stack.at(-1);
    switch (char) {
      case '"':
        this.#state = "text";
        this.#text = "";
        this.#isKey = top?.type === "object" && this.#expectsKey;
        if (!this.#isKey) this.#add("");
        return;
      case "{":
        return this.#open({ type: "object", fields: {}, key: null });
      case "[":
        return this.#open({ type: "array", items: [] });
      case "}":
      case "]":
        this.#stack.pop();
        this.#expectsKey = false;
        if (this.#stack.length === 0) this.#state = "done";
        return;
      case ",":
        this.#expectsKey = top?.type === "object";
        return;
      case ":":
        this.#expectsKey = false;
        return;
      default:
        this.#state = "word";
        this.#word = char;
    }
  }

  #open(growing: Growing): void {
    this.#add(growing.type === "array" ? growing.items : growing.fields);
    this.#stack.push(growing);
    this.#expectsKey = growing.type === "object";
  }

  #escape(char: string): void {
    const plain = escapes[char];
    if (char === "u") {
      this.#hex = "";
      this.#state = "unicode";
      return;
    }
    this.#text += plain ?? char;
    this.#state = "text";
  }

  #endText(): void {
    this.#state = "value";
    const top = this.#stack.at(-1);
    if (this.#isKey && top?.type === "object") {
      top.key = this.#text;
      this.#expectsKey = false;
      return;
    }
    this.#show(this.#text);
    if (this.#stack.length === 0) this.#state = "done";
  }

  #endWord(): void {
    this.#state = "value";
    const word = this.#word;
    const known = words.get(word);
    const value = known === undefined ? Number(word) : known;
    if (typeof value === "number" && Number.isNaN(value)) {
      this.#state = "broken";
      return;
    }
    this.#add(value);
    if (this.#stack.length === 0) this.#state = "done";
  }

  /** A new value in its place. */
  #add(value: Json): void {
    const top = this.#stack.at(-1);
    if (top === undefined) this.#root = value;
    else if (top.type === "array") top.items.push(value);
    else if (top.key !== null)
      Object.defineProperty(top.fields, top.key, { value, writable: true, enumerable: true, configurable: true });
  }

  /** The text that is being written, as far as it goes. */
  #show(text: string): void {
    const top = this.#stack.at(-1);
    if (top === undefined) this.#root = text;
    else if (top.type === "array") top.items[top.items.length - 1] = text;
    else this.#add(text);
  }
}

const escapes: { readonly [char: string]: string } = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f" };
const words: ReadonlyMap<string, Json> = new Map<string, Json>([
  ["true", true],
  ["false", false],
  ["null", null],
]);
