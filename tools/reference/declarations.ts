// The declarations behind the package's entry points, with their doc comments, members and signatures, as
// docs/reference shows them. They are read from the declaration files that `tsc -b` emits (tools/package).

import type { DeclarationFile, Declaration as Declared } from "../package/declaration-files.ts";
import type { Node } from "../package/syntax-nodes.ts";
import type { Comment } from "oxc-parser";

import { existsSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

import { format } from "oxfmt";

import { declarationFileOf, DeclarationFiles } from "../package/declaration-files.ts";
import { childrenOf, firstIdentifier, innerDeclaration, isNode, walk } from "../package/syntax-nodes.ts";

/** One declaration. A function has one for each overload, so a name stands for a list of them. */
export type Declaration = {
  readonly file: DeclarationFile;
  readonly name: string;
  readonly kind: "function" | "class" | "constant" | "type";
  readonly node: Node;
  /** The text of the doc comment directly before the declaration, without the asterisks, or `null`. */
  readonly doc: string | null;
};

/** One member of an object type, an interface or a class. */
export type Member = {
  /**
   * Names from the declaration to the member: the discriminant of a union's variant, outer fields, the member's own
   * name.
   */
  readonly path: readonly string[];
  readonly doc: string | null;
};

const root = join(import.meta.dirname, "../..");
const files = new DeclarationFiles("/", (address) => !address.startsWith("/"));

/** The names that an entry point exports, in the order of its export lists. */
export function exportedNames({ file }: EntryPoint): readonly string[] {
  return [...files.exportedNames(file)];
}

/**
 * The declarations of a name that a file declares, imports or re-exports. `null` for globals, type parameters and names
 * of packages.
 */
export function resolveName(file: DeclarationFile, name: string): readonly Declaration[] | null {
  const found = files.resolve(file, name);
  return found === null ? null : found.statements.map((statement) => declarationIn(found, statement));
}

function declarationIn({ file, name }: Declared, statement: Node): Declaration {
  const node = innerDeclaration(statement);
  return { file, name, kind: kinds[node.type] ?? "type", node, doc: docBefore(file, statement.start) };
}

const kinds: { readonly [type: string]: Declaration["kind"] } = {
  VariableDeclaration: "constant",
  TSDeclareFunction: "function",
  FunctionDeclaration: "function",
  ClassDeclaration: "class",
};

/** The text of the doc comment directly before a position, or `null`. */
function docBefore(file: DeclarationFile, position: number): string | null {
  const comment = file.docBefore(position);
  return comment === null ? null : withoutAsterisks(comment);
}

/** An entry point of the package: its import name, what it is for, and its declaration file. */
export type EntryPoint = { readonly name: string; readonly purpose: string; readonly file: DeclarationFile };

/**
 * The entry points in `exports` of a package's package.json, in that order. The first comment of the source file says
 * what an entry point is for.
 */
export function entryPoints(library = join(root, "lib")): readonly EntryPoint[] {
  type Target = { readonly source: string };
  const { exports }: { readonly exports: { readonly [path: string]: Target | string } } = JSON.parse(
    readFileSync(join(library, "package.json"), "utf8"),
  );
  return Object.entries(exports).flatMap(([path, target]) => {
    if (typeof target === "string") return [];
    const name = `everturn${path.slice(1)}`;
    return [
      {
        name,
        purpose: purposeOf(join(library, target.source)),
        file: files.at(declarationFileOf(join(library, target.source), join(library, "src"), join(library, "build"))),
      },
    ];
  });
}

/** The source file of a declaration, relative to the repository. */
export function sourceOf({ file }: Declaration): string {
  const source = relative(root, file.path)
    .replace("lib/build/", "lib/src/")
    .replace(/\.d\.ts$/, ".ts");
  return existsSync(join(root, source)) ? source : `${source}x`;
}

/** The declaration without its comments and private members, `export` and `declare`, formatted like the sources. */
export async function signatureOf({ file, node }: Declaration): Promise<string> {
  let text = "";
  let position = node.start;
  for (const comment of file.comments.filter(({ start, end }) => start >= node.start && end <= node.end)) {
    text += file.text.slice(position, comment.start);
    position = comment.end;
  }
  text += file.text.slice(position, node.end);
  const lines = text.split("\n").filter((line) => line.trim() !== "" && !/^\s*(?:#private;|private .*;)$/.test(line));
  const declared = lines[0]?.startsWith("declare ") === true ? lines.join("\n") : `declare ${lines.join("\n")}`;
  const { code, errors } = await format("signature.d.ts", declared, { printWidth: 110 });
  if (errors[0] !== undefined) throw new Error(`${file.path}: ${errors[0].message}`);
  return code.trim().replace(/^declare /, "");
}

/** The names of types that a declaration refers to, without private members. */
export function referencedNames({ node }: Declaration): ReadonlySet<string> {
  const names = new Set<string>();
  const add = (type: unknown): void => void names.add(firstIdentifier(type)?.name ?? "");
  walk(node, (child) => {
    if (child.type === "TSTypeReference" && "typeName" in child) add(child.typeName);
    if (child.type === "TSTypeQuery" && "exprName" in child) add(child.exprName);
    if (child.type === "TSInterfaceHeritage" && "expression" in child) add(child.expression);
    if ("superClass" in child && isNode(child.superClass)) add(child.superClass);
    return child.type !== "PropertyDefinition" || !("accessibility" in child) || child.accessibility !== "private";
  });
  names.delete("");
  return names;
}

/**
 * The members of a declaration, with those of nested object types, and of the options that a function takes as an
 * object literal. The constructor and the field that names a variant are left out, and so are members inside function
 * types and type arguments.
 */
export function membersOf({ file, node }: Declaration): readonly Member[] {
  const members: Member[] = [];
  collect(node, []);
  return members;

  function collect(inside: Node, path: readonly string[]): void {
    const variant = inside.type === "TSTypeLiteral" ? discriminantOf(file, inside) : null;
    const prefix = variant === null ? path : [...path, variant.value];
    const variantDoc = variant === null ? null : docBefore(file, inside.start);
    if (variantDoc !== null) members.push({ path: prefix, doc: variantDoc });
    for (const child of childrenOf(inside)) {
      const name = memberName(file, child);
      if (name === null) {
        if (!opaque.has(child.type)) collect(child, prefix);
      } else if (!isPrivate(child) && name !== variant?.field && name !== "constructor") {
        const memberPath = [...prefix, name];
        members.push({ path: memberPath, doc: docBefore(file, child.start) });
        if ("typeAnnotation" in child && isNode(child.typeAnnotation)) collect(child.typeAnnotation, memberPath);
      }
    }
  }
}

/** Types whose inner object types are not fields of the declaration. */
const opaque: ReadonlySet<string> = new Set([
  "TSFunctionType",
  "TSTypeParameterDeclaration",
  "TSTypeParameterInstantiation",
  "TSConditionalType",
  "FunctionExpression",
  "TSEmptyBodyFunctionExpression",
]);

const memberTypes: ReadonlySet<string> = new Set([
  "TSPropertySignature",
  "TSMethodSignature",
  "PropertyDefinition",
  "MethodDefinition",
  "TSAbstractMethodDefinition",
]);

function memberName(file: DeclarationFile, node: Node): string | null {
  if (!memberTypes.has(node.type) || !("key" in node) || !isNode(node.key)) return null;
  const key = file.text.slice(node.key.start, node.key.end);
  const computed = "computed" in node && node.computed === true ? `[${key}]` : key;
  return "optional" in node && node.optional === true ? `${computed}?` : computed;
}

function isPrivate(node: Node): boolean {
  if ("accessibility" in node && node.accessibility === "private") return true;
  return "key" in node && isNode(node.key) && node.key.type === "PrivateIdentifier";
}

/** The value of the field `type`, `role` or `kind` where it is a string literal: it names the variant of a union. */
function discriminantOf(
  file: DeclarationFile,
  literal: Node,
): { readonly field: string; readonly value: string } | null {
  for (const member of childrenOf(literal)) {
    const name = memberName(file, member);
    if (name === "type" || name === "role" || name === "kind") {
      const text = file.text.slice(member.start, member.end);
      const values = /:\s*((?:"[^"]+"(?:\s*\|\s*)?)+);?$/.exec(text)?.[1];
      if (values !== undefined) return { field: name, value: values };
    }
  }
  return null;
}

function withoutAsterisks({ value }: Comment): string {
  return value
    .slice(1)
    .split("\n")
    .map((line) => line.replace(/^\s*\* ?/, "").trimEnd())
    .join("\n")
    .trim();
}

/** The first paragraph of line comments in a source file, without "Entry point `…`:". */
function purposeOf(source: string): string {
  const lines: string[] = [];
  for (const line of readFileSync(source, "utf8").split("\n")) {
    if (!line.startsWith("//") || line === "//") break;
    lines.push(line.slice(2).trim());
  }
  const text = lines.join(" ").replace(/^Entry point `[^`]+`: /, "");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
