// Syntax trees of oxc-parser, for walks that do not know the types of the nodes, and edits of the text they stand for.

/** A node of the syntax tree. */
export type Node = { readonly type: string; readonly start: number; readonly end: number };
export type Identifier = Node & { readonly name: string };

/** A range of a text, and what replaces it. */
export type Edit = { readonly start: number; readonly end: number; readonly text: string };

export function isNode(value: unknown): value is Node {
  return (
    typeof value === "object" && value !== null && "type" in value && typeof value.type === "string" && "start" in value
  );
}

export function isIdentifier(value: unknown): value is Identifier {
  return isNode(value) && value.type === "Identifier";
}

export function childrenOf(node: Node): readonly Node[] {
  return Object.values(node)
    .flatMap((value: unknown) => (Array.isArray(value) ? value : [value]))
    .filter(isNode);
}

/** Visits a node and its descendants. `visit` returns `false` to leave the descendants out. */
export function walk(node: Node, visit: (node: Node) => unknown): void {
  if (visit(node) === false) return;
  for (const child of childrenOf(node)) walk(child, visit);
}

/** The leftmost identifier of `a.b.c`. */
export function firstIdentifier(node: unknown): Identifier | null {
  if (isIdentifier(node)) return node;
  if (!isNode(node)) return null;
  if ("left" in node) return firstIdentifier(node.left);
  return "object" in node ? firstIdentifier(node.object) : null;
}

/** The declaration in an `export` statement, or the statement itself. */
export function innerDeclaration(statement: Node): Node {
  const { declaration } = { declaration: null, ...statement };
  return isNode(declaration) ? declaration : statement;
}

/** The names that a declaration declares. */
export function declaredIdentifiers(node: Node): readonly Identifier[] {
  const { id, declarations } = { id: null, declarations: [], ...node };
  const identifiers = Array.isArray(declarations)
    ? declarations.map((declarator: { readonly id?: unknown }) => declarator.id)
    : [];
  return [id, ...identifiers].filter(isIdentifier);
}

/** A part of a text with edits, which do not overlap. */
export function edited(text: string, start: number, end: number, edits: readonly Edit[]): string {
  let result = "";
  let position = start;
  for (const edit of [...edits].sort((a, b) => a.start - b.start)) {
    result += text.slice(position, edit.start) + edit.text;
    position = edit.end;
  }
  return result + text.slice(position, end);
}
