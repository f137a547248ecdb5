// An incremental JSON parser for output that is still being written (partial objects of structured output).
//
// Theory of operation
//   A character automaton (`#state`) with a stack of open arrays and objects. `push` continues from the state of the
//   last call, so the cost of a call is linear in the new text. Parsing the complete text again for every delta would
//   be quadratic in its length. The value is one tree that is mutated in place; an open string is written into its
//   place at the end of every `push`.
//
// It accepts all valid JSON. It is lenient with invalid JSON (it does not check commas or closing brackets), because
// its result is a preview: the final value is parsed by `JSON.parse`. Keys are defined with `Object.defineProperty`, so
// a key `__proto__` is a field and no prototype pollution.

import type { Json, JsonObject } from "../model/internal.ts";

import { PartialBranches, valueInField } from "./added-nulls.ts";
import { asObject } from "./fields.ts";

type OpenContainer = { branches: PartialBranches | null } & (
  | { type: "array"; items: Json[] }
  | { type: "object"; fields: { [key: string]: Json }; key: string | null }
);

/**
 * An incremental JSON parser: after `push('{"city": "Ro')` the value is `{ city: "Ro" }`. The value is mutated as text
 * arrives, so a caller that keeps an earlier state copies it. Strings appear as far as they were received, numbers and
 * literals when they are complete; input after the end of the value, or input that cannot be JSON, ends the parsing.
 */
export class PartialJson {
  #root: Json | undefined;
  readonly #stack: OpenContainer[] = [];
  /**
   * What the next character belongs to. `value`: structure, or the start of a value. `token`: a number or a literal.
   * `broken`: no JSON, the rest is ignored.
   */
  #state: "value" | "string" | "escape" | "unicode" | "token" | "done" | "broken" = "value";
  #string = "";
  #token = "";
  #hex = "";
  /** The open string is the key of a field. */
  #isKey = false;
  /** The next string in the open object is a key. */
  #expectsKey = false;
  /** Where `null` stands for an absent field; `null`: nowhere. */
  readonly #branches: PartialBranches | null;
  readonly #addedNulls: JsonObject | null;

  /**
   * `addedNulls`: where `null` stands for an absent field, which the value then does not have, and the field `root`
   * that the value is in (`added-nulls.ts`). Default: nowhere, and none.
   */
  constructor(addedNulls: JsonObject | null = null) {
    this.#addedNulls = addedNulls;
    this.#branches = addedNulls === null ? null : PartialBranches.of(addedNulls);
  }

  /** The value as far as it was received; `undefined` before its first character. */
  get value(): Json | undefined {
    const root = this.#root;
    if (this.#addedNulls?.["root"] === undefined || root === undefined) return root;
    const value = valueInField(this.#addedNulls, root);
    const fields = asObject(root);
    const isBeforeField = fields !== null && Object.keys(fields).length === 0;
    return value === undefined && !isBeforeField ? root : value;
  }

  /** Is the value complete? */
  get isDone(): boolean {
    return this.#state === "done";
  }

  /** Parses more text. */
  push(text: string): void {
    for (let index = 0; index < text.length; index += 1) {
      if (this.#state === "string") {
        // Most characters are inside strings: everything up to the next quote or backslash is appended at once.
        const end = this.#plainEnd(text, index);
        if (end > index) {
          this.#string += text.slice(index, end);
          index = end;
          if (index >= text.length) break;
        }
      }
      this.#consume(text.charAt(index));
    }
    const isInString = this.#state === "string" || this.#state === "escape" || this.#state === "unicode";
    if (isInString && !this.#isKey) this.#setOpenString(this.#string);
  }

  #plainEnd(text: string, from: number): number {
    let end = from;
    while (end < text.length && text.charAt(end) !== '"' && text.charAt(end) !== "\\") end += 1;
    return end;
  }

  #consume(char: string): void {
    switch (this.#state) {
      case "string":
        if (char === "\\") this.#state = "escape";
        else this.#endString();
        return;
      case "escape":
        this.#escape(char);
        return;
      case "unicode":
        this.#hex += char;
        if (this.#hex.length < 4) return;
        this.#string += String.fromCharCode(Number.parseInt(this.#hex, 16));
        this.#state = "string";
        return;
      case "token":
        if (/[\w.+-]/.test(char)) {
          this.#token += char;
          return;
        }
        this.#endToken();
        this.#consumeStructure(char);
        return;
      case "value":
        this.#consumeStructure(char);
        return;
      case "done":
      case "broken":
        return;
    }
  }

  #consumeStructure(char: string): void {
    if (this.#state === "broken" || this.#state === "done" || char.trim() === "") return;
    const top = this.#stack.at(-1);
    switch (char) {
      case '"':
        this.#state = "string";
        this.#string = "";
        this.#isKey = top?.type === "object" && this.#expectsKey;
        if (!this.#isKey) this.#addValue("");
        return;
      case "{":
        return this.#open({ type: "object", fields: {}, key: null, branches: this.#branchesHere() });
      case "[":
        return this.#open({ type: "array", items: [], branches: this.#branchesHere() });
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
        this.#state = "token";
        this.#token = char;
    }
  }

  #open(container: OpenContainer): void {
    this.#addValue(container.type === "array" ? container.items : container.fields);
    this.#stack.push(container);
    this.#expectsKey = container.type === "object";
  }

  #escape(char: string): void {
    const unescaped = escapedCharacters[char];
    if (char === "u") {
      this.#hex = "";
      this.#state = "unicode";
      return;
    }
    this.#string += unescaped ?? char;
    this.#state = "string";
  }

  #endString(): void {
    this.#state = "value";
    const top = this.#stack.at(-1);
    if (this.#isKey && top?.type === "object") {
      top.key = this.#string;
      this.#expectsKey = false;
      return;
    }
    this.#setOpenString(this.#string);
    if (this.#stack.length === 0) this.#state = "done";
  }

  #endToken(): void {
    this.#state = "value";
    const token = this.#token;
    const literal = literals.get(token);
    const value = literal === undefined ? Number(token) : literal;
    if (typeof value === "number" && Number.isNaN(value)) {
      this.#state = "broken";
      return;
    }
    if (value !== null || !this.#isAddedNull()) this.#addValue(value);
    if (this.#stack.length === 0) this.#state = "done";
  }

  /** The branches of the schema that a value at this place may belong to. */
  #branchesHere(): PartialBranches | null {
    const top = this.#stack.at(-1);
    if (top === undefined) return this.#branches;
    return top.type === "array"
      ? (top.branches?.child(null, {}) ?? null)
      : (top.branches?.child(top.key, top.fields) ?? null);
  }

  #isAddedNull(): boolean {
    const top = this.#stack.at(-1);
    return top?.type === "object" && top.key !== null && top.branches?.isAddedNull(top.key, top.fields) === true;
  }

  /** Puts a new value where the parser is: as the root, the next item, or the value of the current key. */
  #addValue(value: Json): void {
    const top = this.#stack.at(-1);
    if (top === undefined) this.#root = value;
    else if (top.type === "array") top.items.push(value);
    else if (top.key !== null)
      Object.defineProperty(top.fields, top.key, { value, writable: true, enumerable: true, configurable: true });
  }

  /** Replaces the value of the open string with the characters received so far. */
  #setOpenString(text: string): void {
    const top = this.#stack.at(-1);
    if (top === undefined) this.#root = text;
    else if (top.type === "array") top.items[top.items.length - 1] = text;
    else this.#addValue(text);
  }
}

const escapedCharacters: { readonly [char: string]: string } = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f" };
const literals: ReadonlyMap<string, Json> = new Map<string, Json>([
  ["true", true],
  ["false", false],
  ["null", null],
]);
