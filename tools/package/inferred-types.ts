// Writes out the types that are inferred from tables of fields, in the text of a declaration file that `tsc -b` has
// emitted:
//
//   declare const threadFields: { /** The messages, oldest first. */ messages: PresentField<readonly Message[]> };
//   export type Thread = Infer<typeof threadFields>;
//   → export type Thread = { /** The messages, oldest first. */ readonly messages: readonly Message[] };
//
// `InferUnion` becomes the list of its members, `WordOf` the list of its words, `VerbsOf` the functions of a table of
// operations (serve/contract/operation.ts): `verb` in the types of each row.
//
// The package and the API reference contain types that a reader understands without the machinery of
// core/model/parse/shape.ts. Editors also need it: the language service of TypeScript 7.0 shows no doc comments for
// properties of mapped types. The compiler has written the table with its comments, so this module only rearranges
// text.

import type { Edit, Node } from "./syntax-nodes.ts";

import { parseSync } from "oxc-parser";

import { edited, isNode, walk } from "./syntax-nodes.ts";

/** Returns the text with the inferred types written out. `path` is for error messages. */
export function withInferredTypes(text: string, path: string): string {
  return withNamedImports(new InferredTypes(text, path).text());
}

/** The types that are inferred from a constant. */
const inferred: ReadonlySet<string> = new Set([
  "Infer",
  "InferOptional",
  "InferSome",
  "InferUnion",
  "InferShapes",
  "WordOf",
  "VerbsOf",
]);
/** The types of the entries of a table. Their argument is the type of the value. */
const valueTypes: ReadonlySet<string> = new Set(["PresentField", "OptionalField", "Shape"]);

class InferredTypes {
  readonly #text: string;
  readonly #path: string;
  /** The types of the file's constants, by name. */
  readonly #tables = new Map<string, Node>();
  readonly #edits: Edit[] = [];

  constructor(text: string, path: string) {
    this.#text = text;
    this.#path = path;
    const { program, errors } = parseSync(path, text);
    if (errors[0] !== undefined) throw new Error(`${path}: ${errors[0].message}`);
    walk(program, (node) => this.#findTable(node));
    walk(program, (node) => this.#replaceInferred(node));
  }

  text(): string {
    return edited(this.#text, 0, this.#text.length, this.#edits);
  }

  #findTable(node: Node): void {
    if (node.type !== "VariableDeclarator" || !("id" in node) || !isNode(node.id) || !("name" in node.id)) return;
    const table = typeOf(node.id);
    if (table !== null) this.#tables.set(String(node.id.name), table);
  }

  #replaceInferred(node: Node): void {
    const name = referenceName(node) ?? "";
    if (!inferred.has(name)) return;
    const query = typeArguments(node).at(-1);
    if (query?.type !== "TSTypeQuery" || !("exprName" in query) || !isNode(query.exprName)) return;
    const tableName = this.#slice(query.exprName);
    const table = this.#tables.get(tableName);
    if (table === undefined) throw new Error(`${this.#path}: ${tableName} is not declared in this file`);
    this.#edits.push({ start: node.start, end: node.end, text: this.#writtenOut(name, node, table) });
  }

  #writtenOut(name: string, node: Node, table: Node): string {
    if (name === "WordOf")
      return this.#slice(table)
        .replace(/^readonly \[(.*)\]$/s, "$1")
        .replaceAll(", ", " | ");
    if (name === "VerbsOf") return this.#verbs(table);
    if (name !== "InferUnion") return this.#object(table, "", name === "InferSome");
    const isContinued = this.#text.slice(0, node.start).trimEnd().endsWith("|");
    return this.#union(table, this.#discriminant(node), isContinued);
  }

  /** The field `type: ` of a member of a union, without its value. */
  #discriminant(node: Node): string {
    const [key] = typeArguments(node);
    return key === undefined ? "" : `readonly ${this.#slice(key).replaceAll('"', "")}: `;
  }

  /** The members of a union, each with the doc comment of its case. `isContinued`: other members are before them. */
  #union(table: Node, discriminant: string, isContinued: boolean): string {
    let text = "";
    let position = table.start + 1;
    for (const property of properties(table)) {
      const fields = typeOf(property);
      if (fields?.type !== "TSTypeLiteral") throw new Error(`${this.#path}: ${this.#slice(property)} is not a table`);
      const tag = `\n        ${discriminant}${JSON.stringify(keyOf(property))};`;
      const bar = isContinued && text === "" ? "" : "| ";
      text += `${this.#text.slice(position, property.start)}${bar}${this.#object(fields, tag)}`;
      position = property.end;
    }
    return text;
  }

  /** The object type of a table of fields. `first` is written before its fields; `isOpen`: each may be absent. */
  #object(table: Node, first: string, isOpen = false): string {
    const edits = properties(table).flatMap((property): readonly Edit[] => {
      const field = typeOf(property);
      const kind = field === null ? null : referenceName(field);
      const [value] = field === null ? [] : typeArguments(field);
      if (field === null || value === undefined || !valueTypes.has(kind ?? "")) {
        throw new Error(`${this.#path}: ${this.#slice(property)} is not a field`);
      }
      const name = `readonly ${keyOf(property)}${isOpen || kind === "OptionalField" ? "?" : ""}: `;
      return [{ start: property.start, end: field.end, text: name + this.#slice(value) }];
    });
    const body = edited(this.#text, table.start + 1, table.end, edits);
    return `{${first}${body === "}" && first !== "" ? "\n    }" : body}`;
  }

  /** The object type of the verbs of operations. Rows whose verb is `never` are left out. */
  #verbs(table: Node): string {
    const edits = properties(table).map((property): Edit => {
      const operation = typeOf(property);
      const types = operation === null ? [] : typeArguments(operation).flatMap(properties);
      const member = types.find((type) => keyOf(type) === "verb");
      const verb = member === undefined ? null : typeOf(member);
      if (verb === null) throw new Error(`${this.#path}: ${this.#slice(property)} is not an operation`);
      const type = this.#slice(verb)
        .replace(/\?: \((.+)\) \| undefined\) =>/s, "?: $1) =>")
        .replace(" | undefined) =>", ") =>");
      const text = verb.type === "TSNeverKeyword" ? "" : `readonly ${keyOf(property)}: ${type};`;
      return { start: property.start, end: property.end, text };
    });
    return edited(this.#text, table.start, table.end, edits);
  }

  #slice({ start, end }: Node): string {
    return this.#text.slice(start, end);
  }
}

/** Replaces `import("./x.ts").Name`, which the compiler writes for inferred types, by `Name` and an import. */
function withNamedImports(text: string): string {
  const names = new Map<string, Set<string>>();
  const body = text.replaceAll(/\bimport\("([^"]+)"\)\.(\w+)/g, (type, from: string, name: string) => {
    const declared = new RegExp(`^(?:export )?(?:declare )?(?:type|class|interface|const) ${name}\\b`, "m").test(text);
    if (declared) return type;
    const isImported = new RegExp(`^import .*\\b${name}\\b.* from "${from.replaceAll(".", "\\.")}";$`, "m").test(text);
    if (!isImported) names.set(from, (names.get(from) ?? new Set()).add(name));
    return name;
  });
  const imports = [...names].map(([from, of]) => `import type { ${[...of].join(", ")} } from "${from}";\n`);
  return imports.join("") + body;
}

/** The name of a type reference, also of `import("./x.ts").Name`. */
function referenceName(node: Node): string | null {
  const name =
    node.type === "TSTypeReference" && "typeName" in node
      ? node.typeName
      : node.type === "TSImportType" && "qualifier" in node
        ? node.qualifier
        : null;
  return isNode(name) && "name" in name ? String(name.name) : null;
}

function typeArguments(node: Node): readonly Node[] {
  const list = "typeArguments" in node && isNode(node.typeArguments) ? node.typeArguments : null;
  return list !== null && "params" in list && Array.isArray(list.params) ? list.params.filter(isNode) : [];
}

/** The type that a name or a property is declared with. */
function typeOf(node: Node): Node | null {
  const annotation = "typeAnnotation" in node && isNode(node.typeAnnotation) ? node.typeAnnotation : null;
  if (annotation === null) return null;
  return "typeAnnotation" in annotation && isNode(annotation.typeAnnotation) ? annotation.typeAnnotation : null;
}

function properties(literal: Node): readonly Node[] {
  return "members" in literal && Array.isArray(literal.members) ? literal.members.filter(isNode) : [];
}

function keyOf(property: Node): string {
  const key = "key" in property && isNode(property.key) ? property.key : null;
  if (key !== null && "name" in key) return String(key.name);
  return key !== null && "value" in key ? String(key.value) : "";
}
