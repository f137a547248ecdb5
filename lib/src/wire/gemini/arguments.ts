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
type Step = string | number;

/** A container the text is inside of, and the child it is at. */
type Open = { readonly branch: Branch; at: Step | null };

export type WholeArguments = {
  /** The rest of the text. */
  readonly delta: string;
  readonly arguments: JsonObject | null;
  /** What was written, when it is no object. */
  readonly raw: string | null;
};

const maxSteps = 64;

export class PartialArguments {
  readonly #root: Branch = { type: "object", fields: new Map() };
  #stack: Open[] = [];
  #openText: Leaf | null = null;
  #inOrder = true;
  readonly #misfits: JsonObject[] = [];

  /** Takes one piece in; gives the JSON text it adds. */
  add(piece: JsonObject): string {
    const value = valueOf(piece);
    if (value === undefined) return "";
    const steps = stepsOf(textAt(piece, "jsonPath") ?? "");
    const continues = flagAt(piece, "willContinue") === true;
    const before = steps === null ? null : this.#find(steps);
    if (before?.type === "leaf" && before.open && typeof before.value === "string" && typeof value === "string") {
      const text = before === this.#openText ? this.#more(value, continues) : this.#giveUp();
      before.value += value;
      before.open = continues;
      return text;
    }
    const leaf: Leaf = { type: "leaf", value, open: continues };
    const text = steps === null || this.#misfits.length > 0 ? "" : this.#write(steps, leaf, before !== null);
    if (steps === null || !place(this.#root, steps, leaf)) this.#misfits.push(piece);
    return text;
  }

  /** The call is over. */
  end(): WholeArguments {
    if (this.#misfits.length > 0) return { delta: "", arguments: null, raw: JSON.stringify(this.#misfits) };
    const delta = this.#inOrder ? `${this.#stack.length === 0 ? "{}" : this.#closeText() + this.#closeTo(0)}` : "";
    return { delta, arguments: objectOf(this.#root.type === "object" ? this.#root.fields : new Map()), raw: null };
  }

  #find(steps: readonly Step[]): Node | null {
    return steps.reduce<Node | null>((node, step) => (node === null ? null : childOf(node, step)), this.#root);
  }

  #more(value: string, continues: boolean): string {
    if (!continues) this.#openText = null;
    return this.#inOrder ? `${JSON.stringify(value).slice(1, -1)}${continues ? "" : '"'}` : "";
  }

  #giveUp(): string {
    this.#inOrder = false;
    return "";
  }

  /** The text of a new value at a path, with what has to be closed and opened on the way there. */
  #write(steps: readonly Step[], leaf: Leaf, again: boolean): string {
    if (!this.#inOrder || again) return this.#giveUp();
    let text = this.#closeText();
    if (this.#stack.length === 0) {
      this.#stack.push({ branch: this.#root, at: null });
      text += "{";
    }
    let depth = 0;
    while (depth < steps.length - 1 && this.#stack[depth]?.at === steps[depth] && depth + 1 < this.#stack.length)
      depth += 1;
    text += this.#closeTo(depth + 1);
    for (; depth < steps.length; depth += 1) {
      const open = this.#stack[depth];
      const step = steps[depth];
      if (open === undefined || step === undefined || childOf(open.branch, step) !== null) return this.#giveUp();
      if ((open.branch.type === "object") !== (typeof step === "string")) return this.#giveUp();
      text += open.at === null ? "" : ",";
      text += typeof step === "string" ? `${JSON.stringify(step)}:` : "";
      open.at = step;
      const next = steps[depth + 1];
      if (next === undefined) continue;
      const branch = emptyBranch(next);
      if (!put(open.branch, step, branch)) return this.#giveUp();
      this.#stack.push({ branch, at: null });
      text += branch.type === "object" ? "{" : "[";
    }
    const written = JSON.stringify(leaf.value);
    if (!leaf.open || typeof leaf.value !== "string") return text + written;
    this.#openText = leaf;
    return text + written.slice(0, -1);
  }

  #closeText(): string {
    if (this.#openText === null) return "";
    this.#openText.open = false;
    this.#openText = null;
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
function stepsOf(path: string): readonly Step[] | null {
  if (!path.startsWith("$")) return null;
  const steps: Step[] = [];
  const step = /\.([^.[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/y;
  step.lastIndex = 1;
  while (step.lastIndex < path.length) {
    const found = step.exec(path);
    if (found === null || steps.length === maxSteps) return null;
    const [, name, index, single, double] = found;
    steps.push(index === undefined ? (name ?? (single ?? double ?? "").replaceAll(/\\(.)/g, "$1")) : Number(index));
  }
  return steps.length === 0 ? null : steps;
}

function childOf(node: Node, step: Step): Node | null {
  if (node.type === "object") return typeof step === "string" ? (node.fields.get(step) ?? null) : null;
  return node.type === "array" && typeof step === "number" ? (node.items[step] ?? null) : null;
}

function emptyBranch(firstChild: Step): Branch {
  return typeof firstChild === "string" ? { type: "object", fields: new Map() } : { type: "array", items: [] };
}

/** Puts a child in its place; lists grow by one at a time. */
function put(branch: Branch, step: Step, child: Node): boolean {
  if (branch.type === "object") {
    if (typeof step !== "string") return false;
    branch.fields.set(step, child);
    return true;
  }
  if (typeof step !== "number" || step > branch.items.length) return false;
  branch.items[step] = child;
  return true;
}

function place(root: Branch, steps: readonly Step[], leaf: Leaf): boolean {
  let branch = root;
  for (const [index, step] of steps.entries()) {
    const next = steps[index + 1];
    if (next === undefined) return put(branch, step, leaf);
    const known = childOf(branch, step);
    const child = known === null ? emptyBranch(next) : known;
    if (child.type === "leaf" || (known === null && !put(branch, step, child))) return false;
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
