// Assembles streamed function-call arguments of Gemini (`functionCall.partialArgs`). The API does not stream JSON text:
// each piece is a value (`stringValue`, `numberValue`, `boolValue`, `nullValue`) at a JSONPath
// (`jsonPath: "$.recipe.steps[1]"`), and `willContinue` says that a string continues.
//
// Theory of operation
//   Each piece is written into a tree, which gives the arguments. In parallel, JSON text is produced for
//   `tool_call_delta` events: the text closes and opens containers on the way from the last path to the new one. Text
//   can only be appended, so a piece for a container that was closed before stops the text.
//
// Invariants
//   1. The call runs with the arguments of the tree, never with the text. Pieces may arrive in any order.
//   2. Nothing throws (W1). A piece without a valid path, or whose path contradicts the tree, makes the arguments
//      malformed; `raw` then holds these pieces.
//   3. Objects are built from `Map`s with `Object.fromEntries`, so a path with `__proto__` is a field and no prototype
//      pollution.

import type { Json, JsonObject } from "../../model/internal.ts";

import { flagAt, textAt } from "../fields.ts";

type Branch =
  | { readonly type: "object"; readonly fields: Map<string, Node> }
  | { readonly type: "array"; readonly items: Node[] };
type Leaf = { readonly type: "leaf"; value: Json; open: boolean };
type Node = Branch | Leaf;
type PathSegment = string | number;

/** A container that the text has opened and not closed, and the key or index that was written last in it. */
type OpenContainer = { readonly branch: Branch; currentKey: PathSegment | null };

/** The result of `PartialArguments.end`. */
export type AssembledArguments = {
  /** The end of the JSON text. */
  readonly delta: string;
  readonly arguments: JsonObject | null;
  /** The pieces without a place, as JSON text; `null` when there are none. */
  readonly raw: string | null;
};

/** Longest path in segments. A longer one makes the piece malformed, which bounds the depth of the tree. */
const maxPathSegments = 64;

/** The arguments of one call while they arrive. */
export class PartialArguments {
  readonly #root: Branch = { type: "object", fields: new Map() };
  #stack: OpenContainer[] = [];
  #openString: Leaf | null = null;
  #isTextInOrder = true;
  readonly #unplacedPieces: JsonObject[] = [];

  /** Adds one piece and returns the JSON text that it adds. */
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

  /** Ends the call and returns its arguments. */
  end(): AssembledArguments {
    if (this.#unplacedPieces.length > 0)
      return { delta: "", arguments: null, raw: JSON.stringify(this.#unplacedPieces) };
    const delta = this.#isTextInOrder
      ? `${this.#stack.length === 0 ? "{}" : this.#closeString() + this.#closeTo(0)}`
      : "";
    return { delta, arguments: toObject(this.#root.type === "object" ? this.#root.fields : new Map()), raw: null };
  }

  #find(segments: readonly PathSegment[]): Node | null {
    return segments.reduce<Node | null>((node, segment) => (node === null ? null : childOf(node, segment)), this.#root);
  }

  #continueString(value: string, continues: boolean): string {
    if (!continues) this.#openString = null;
    return this.#isTextInOrder ? `${JSON.stringify(value).slice(1, -1)}${continues ? "" : '"'}` : "";
  }

  /** No more text is produced: this piece cannot be written at the end of it. */
  #stopText(): string {
    this.#isTextInOrder = false;
    return "";
  }

  /** The text of a new value at a path, with the brackets that have to be closed and opened on the way there. */
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

  /** Closes containers until `count` are open. */
  #closeTo(count: number): string {
    const closed = this.#stack.slice(count).reverse();
    this.#stack = this.#stack.slice(0, count);
    return closed.map(({ branch }) => (branch.type === "object" ? "}" : "]")).join("");
  }
}

/** The value of a piece; `undefined` when it has none. */
function valueOf(piece: JsonObject): Json | undefined {
  const { stringValue, numberValue, boolValue } = piece;
  if (typeof stringValue === "string") return stringValue;
  if (typeof numberValue === "number") return numberValue;
  if (typeof boolValue === "boolean") return boolValue;
  return Object.hasOwn(piece, "nullValue") ? null : undefined;
}

/**
 * Parses a JSONPath of names and indexes, `$.a[0]['b c']`, into segments. `null`: anything else, and the root itself.
 */
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

/**
 * Sets a child. `false`: the segment does not fit the container. Arrays grow by one item at a time, so a large index
 * cannot allocate a large array.
 */
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

/** Sets a value at a path and creates the containers on the way. `false`: the path contradicts the tree. */
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
      return toObject(node.fields);
  }
}

function toObject(fields: ReadonlyMap<string, Node>): JsonObject {
  return Object.fromEntries([...fields].map(([key, node]) => [key, jsonOf(node)]));
}
