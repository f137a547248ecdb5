// Lays out code that was printed without whitespace: one line for each statement, declared constant and class member, and for each property of a long object.
//
// Indentation and spaces are a seventh of the package. Without them, but with names and line breaks, stack traces still lead to a statement, and messages can
// still be found with a search. A line break is only added where one token ends and another begins, so the meaning of the code does not change.

import { parseSync } from "oxc-parser";

type Node = { readonly type: string; readonly start: number; readonly end: number };

/** Objects with more characters get a line for each property. */
const longObject = 120;

/** The code with line breaks. */
export function breakLines(code: string, path: string): string {
  const { program, errors } = parseSync(path, code);
  if (errors.length > 0) throw new Error(`${path} cannot be parsed: ${errors[0]?.message}`);
  const breaks = new Set<number>();
  visit(program, breaks);
  breaks.delete(0);
  const positions = [...breaks].sort((left, right) => left - right);
  const lines = positions.map((position, index) => code.slice(positions[index - 1] ?? 0, position));
  return [...lines, code.slice(positions.at(-1) ?? 0)].join("\n");
}

/** Adds the positions before which a line ends. */
function visit(node: Node, breaks: Set<number>): void {
  for (const child of [...listOf(node, "body"), ...listOf(node, "consequent")]) breaks.add(child.start);
  for (const child of listOf(node, "declarations").slice(1)) breaks.add(child.start);
  if (node.type === "ObjectExpression" && node.end - node.start > longObject)
    for (const child of listOf(node, "properties")) breaks.add(child.start);
  for (const value of Object.values(node).flat(1)) if (isNode(value)) visit(value, breaks);
}

function listOf(node: Node, field: string): readonly Node[] {
  const value: unknown = Reflect.get(node, field);
  return Array.isArray(value) ? value.filter(isNode) : [];
}

function isNode(value: unknown): value is Node {
  return (
    typeof value === "object" && value !== null && "type" in value && typeof value.type === "string" && "start" in value
  );
}
