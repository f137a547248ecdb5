// Arguments of a call that arrive piece by piece, each at a path (`$.recipe.steps[1]`): what they add up to, and JSON text that grows with them.
//
// Rules:
//   1. What a call is run with is the tree, never the text: pieces may come in any order, and the text stops growing when they are out of it.
//   2. Nothing throws. A piece that has no place makes the arguments malformed, with the piece as what was written.

import type { Json, JsonObject } from "../../model/internal.ts";

import { flagAt, textAt } from "../fields.ts";

type Branch =
  | { readonly type: "object"; readonly fields: Map<string, Node> }
  | { readonly type: "array"; readonly items: Node[] };
type Leaf = { readonly type: "leaf"; value: Json; open: boolean };
type Node = Branch | Leaf;
type PathSegment = string | number;

/** A container the text is inside of, and the child it is at. */
type OpenContainer = { readonly branch: Branch; currentKey: PathSegment | null };

export type AssembledArguments = {
  /** The rest of the text. */
  readonly delta: string;
  readonly arguments: JsonObject | null;
  /** What was written, when it is no object. */
  readonly raw: string | null;
};

const maxPathSegments = 64;

export class PartialArguments {
  readonly #root: Branch = { type: "object", fields: new Map() };
  #stack: OpenContainer[] = [];
  #openString: Leaf | null = null;
  #isTextInOrder = true;
  readonly #unplacedPieces: JsonObject[] = [];

  /** Takes one piece in; gives the JSON text it adds. */
  add(piece: JsonObject): string {
    const value = valueOf(piece);
    if (value === undefined) return "";
    const segments = parsePath(textAt(piece, "jsonPath") ?? "");
    const continues = flagAt(piece, "willContinue") === true;
    const existing = segments === null ? null : this.#find(segments);
    if (existing?.type === "leaf" && existing.open && typeof existing.value === "string" && typeof value === "string") {
      const text = existing === this.#openString ? this.#continueString(value, continues) : this.#stopText();
      existing.value += value;
      existing.open = continues;
      return text;
    }
    const leaf: Leaf = { type: "leaf", value, open: continues };
    const text =
      segments === null || this.#unplacedPieces.length > 0 ? "" : this.#writeValue(segments, leaf, existing !== null);
    if (segments === null || !setAtPath(this.#root, segments, leaf)) this.#unplacedPieces.push(piece);
    return text;
  }

  /** The call is over. */
  end(): AssembledArguments {
    if (this.#unplacedPieces.length > 0)
      return { delta: "", arguments: null, raw: JSON.stringify(this.#unplacedPieces) };
    const delta = this.#isTextInOrder
      ? `${this.#stack.length === 0 ? "{}" : this.#closeString() + this.#closeTo(0)}`
      : "";
    return { delta, arguments: objectOf(this.#root.type === "object" ? this.#root.fields : new Map()), raw: null };
  }

  #find(segments: readonly PathSegment[]): Node | null {
    return segments.reduce<Node | null>((node, segment) => (node === null ? null : childOf(node, segment)), this.#root);
  }

  #continueString(value: string, continues: boolean): string {
    if (!continues) this.#openString = null;
    return this.#isTextInOrder ? `${JSON.stringify(value).slice(1, -1)}${continues ? "" : '"'}` : "";
  }

  #stopText(): string {
    this.#isTextInOrder = false;
    return "";
  }

  /** The text of a new value at a path, with what has to be closed and opened on the way there. */
  #writeValue(segments: readonly PathSegment[], leaf: Leaf, isReplacement: boolean): string {
    if (!this.#isTextInOrder || isReplacement) return this.#stopText();
    let text = this.#closeString();
    if (this.#stack.length === 0) {
      this.#stack.push({ branch: this.#root, currentKey: null });
      text += "{";
    }
    let depth = 0;
    while (
      depth < segments.length - 1 &&
      this.#stack[depth]?.currentKey === segments[depth] &&
      depth + 1 < this.#stack.length
    )
      depth += 1;
    text += this.#closeTo(depth + 1);
    for (; depth < segments.length; depth += 1) {
      const open = this.#stack[depth];
      const segment = segments[depth];
      if (open === undefined || segment === undefined || childOf(open.branch, segment) !== null)
        return this.#stopText();
      if ((open.branch.type === "object") !== (typeof segment === "string")) return this.#stopText();
      text += open.currentKey === null ? "" : ",";
      text += typeof segment === "string" ? `${JSON.stringify(segment)}:` : "";
      open.currentKey = segment;
      const next = segments[depth + 1];
      if (next === undefined) continue;
      const branch = emptyBranch(next);
      if (!setChild(open.branch, segment, branch)) return this.#stopText();
      this.#stack.push({ branch, currentKey: null });
      text += branch.type === "object" ? "{" : "[";
    }
    const valueText = JSON.stringify(leaf.value);
    if (!leaf.open || typeof leaf.value !== "string") return text + valueText;
    this.#openString = leaf;
    return text + valueText.slice(0, -1);
  }

  #closeString(): string {
    if (this.#openString === null) return "";
    this.#openString.open = false;
    this.#openString = null;
    return '"';
  }

  /** Closes containers until so many are open. */
  #closeTo(count: number): string {
    const closed = this.#stack.slice(count).reverse();
    this.#stack = this.#stack.slice(0, count);
    return closed.map(({ branch }) => (branch.type === "object" ? "}" : "]")).join("");
  }
}

/** What a piece says; `undefined` when it says nothing. */
function valueOf(piece: JsonObject): Json | undefined {
  const { stringValue, numberValue, boolValue } = piece;
  if (typeof stringValue === "string") return stringValue;
  if (typeof numberValue === "number") return numberValue;
  if (typeof boolValue === "boolean") return boolValue;
  return Object.hasOwn(piece, "nullValue") ? null : undefined;
}

/** `$.a[0]['b c']` as its steps; `null` for what is no path to a value. */
function parsePath(path: string): readonly PathSegment[] | null {
  if (!path.startsWith("$")) return null;
  const segments: PathSegment[] = [];
  const segmentPattern = /\.([^.[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/y;
  segmentPattern.lastIndex = 1;
  while (segmentPattern.lastIndex < path.length) {
    const match = segmentPattern.exec(path);
    if (match === null || segments.length === maxPathSegments) return null;
    const [, name, index, single, double] = match;
    segments.push(index === undefined ? (name ?? (single ?? double ?? "").replaceAll(/\\(.)/g, "$1")) : Number(index));
  }
  return segments.length === 0 ? null : segments;
}

function childOf(node: Node, segment: PathSegment): Node | null {
  if (node.type === "object") return typeof segment === "string" ? (node.fields.get(segment) ?? null) : null;
  return node.type === "array" && typeof segment === "number" ? (node.items[segment] ?? null) : null;
}

function emptyBranch(firstChild: PathSegment): Branch {
  return typeof firstChild === "string" ? { type: "object", fields: new Map() } : { type: "array", items: [] };
}

/** Puts a child in its place; lists grow by one at a time. */
function setChild(branch: Branch, segment: PathSegment, child: Node): boolean {
  if (branch.type === "object") {
    if (typeof segment !== "string") return false;
    branch.fields.set(segment, child);
    return true;
  }
  if (typeof segment !== "number" || segment > branch.items.length) return false;
  branch.items[segment] = child;
  return true;
}

function setAtPath(root: Branch, segments: readonly PathSegment[], leaf: Leaf): boolean {
  let branch = root;
  for (const [index, segment] of segments.entries()) {
    const next = segments[index + 1];
    if (next === undefined) return setChild(branch, segment, leaf);
    const existing = childOf(branch, segment);
    const child = existing === null ? emptyBranch(next) : existing;
    if (child.type === "leaf" || (existing === null && !setChild(branch, segment, child))) return false;
    branch = child;
  }
  return false;
}

function jsonOf(node: Node): Json {
  switch (node.type) {
    case "leaf":
      return node.value;
    case "array":
      return node.items.map(jsonOf);
    case "object":
      return objectOf(node.fields);
  }
}

function objectOf(fields: ReadonlyMap<string, Node>): JsonObject {
  return Object.fromEntries([...fields].map(([key, node]) => [key, jsonOf(node)]));
}
