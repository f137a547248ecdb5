// Reads the declarations behind the package's entry points from the declaration files (`lib/build/**/*.d.ts`) that
// `tsc -b` emits.
//
// TypeScript 7 has no compiler API, and a documentation tool that brings its own TypeScript would check the sources
// with another compiler than the one that builds them. Declaration files need no checker: every type is written out in
// them, and doc comments are kept. So this module works on the syntax trees of oxc-parser. It follows `import` and
// `export … from` between files and understands the forms that lib/src uses; other forms throw.

import type { Comment, ModuleExportName, Program, Statement } from "oxc-parser";

import { readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

import { parseSync } from "oxc-parser";
import { format } from "oxfmt";

import { withInferredTypes } from "../package/inferred-types.ts";

/** A node of the syntax tree, as far as a walk that does not know its type needs it. */
type Node = { readonly type: string; readonly start: number; readonly end: number };

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

type Binding = { readonly from: string; readonly name: string };

const root = join(import.meta.dirname, "../..");
const files = new Map<string, DeclarationFile>();

/** A parsed declaration file: what it declares, and where its imported and re-exported names come from. */
class DeclarationFile {
  readonly path: string;
  readonly text: string;
  readonly program: Program;
  readonly comments: readonly Comment[];
  readonly declared = new Map<string, Declaration[]>();
  readonly #imported = new Map<string, Binding>();
  readonly #exported = new Map<string, Binding>();
  /** The files of `export * from`. */
  readonly #reexported: string[] = [];

  constructor(path: string) {
    this.path = path;
    this.text = withInferredTypes(readFileSync(path, "utf8"), path);
    const { program, comments, errors } = parseSync(path, this.text);
    if (errors[0] !== undefined) throw new Error(`${path}: ${errors[0].message}`);
    this.program = program;
    this.comments = comments;
    for (const statement of program.body) this.#read(statement);
  }

  /** The names that the file exports, in the order of its export lists. */
  get exportedNames(): readonly string[] {
    return [...this.#exported.keys()];
  }

  /**
   * Finds the declarations of a name that this file declares, imports or re-exports. `null` for globals and type
   * parameters.
   */
  resolve(name: string): readonly Declaration[] | null {
    const own = this.declared.get(name);
    if (own !== undefined) return own;
    const binding = this.#exported.get(name) ?? this.#imported.get(name);
    if (binding !== undefined) return fileAt(binding.from).resolve(binding.name);
    for (const path of this.#reexported) {
      const declarations = fileAt(path).resolve(name);
      if (declarations !== null) return declarations;
    }
    return null;
  }

  /** The doc comment that ends directly before `position`, or `null`. The `|` of a union may stand between the two. */
  docBefore(position: number): string | null {
    const comment = this.comments.findLast(({ end }) => end <= position);
    if (comment === undefined || comment.type !== "Block" || !comment.value.startsWith("*")) return null;
    if (!/^[\s|]*$/.test(this.text.slice(comment.end, position))) return null;
    return withoutAsterisks(comment.value);
  }

  #read(statement: Statement): void {
    if (statement.type === "ImportDeclaration") {
      for (const specifier of statement.specifiers) {
        const name = specifier.type === "ImportSpecifier" ? exportedName(specifier.imported) : "default";
        if (!statement.source.value.startsWith(".")) continue;
        this.#imported.set(specifier.local.name, { from: this.#target(statement.source.value), name });
      }
    } else if (statement.type === "ExportNamedDeclaration" && statement.source !== null) {
      for (const { local, exported } of statement.specifiers) {
        this.#exported.set(exportedName(exported), {
          from: this.#target(statement.source.value),
          name: exportedName(local),
        });
      }
    } else if (statement.type === "ExportNamedDeclaration" && statement.declaration !== null) {
      this.#declare(statement.declaration, statement.start);
    } else if (statement.type === "ExportNamedDeclaration" && statement.specifiers.length === 0) {
      // `export {}` marks a module without exports.
    } else if (statement.type === "ExportAllDeclaration" && statement.exported === null) {
      this.#reexported.push(this.#target(statement.source.value));
    } else if (statement.type.startsWith("Export")) {
      throw new Error(`${this.path}: a statement of type ${statement.type} is not understood`);
    } else {
      this.#declare(statement, statement.start);
    }
  }

  #declare(node: Node & object, start: number): void {
    for (const [name, kind] of declaredNames(node)) {
      const declaration = { file: this, name, kind, node, doc: this.docBefore(start) };
      this.declared.set(name, [...(this.declared.get(name) ?? []), declaration]);
    }
  }

  #target(specifier: string): string {
    return resolve(dirname(this.path), specifier.replace(/\.ts$/, ".d.ts"));
  }
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
        file: fileAt(join(library, declarationFileOf(target.source))),
      },
    ];
  });
}

/** The declaration file that `tsc -b` writes for a source file. */
function declarationFileOf(source: string): string {
  return source.replace("./src/", "./build/").replace(/\.ts$/, ".d.ts");
}

/** The source file of a declaration, relative to the repository. */
export function sourceOf({ file }: Declaration): string {
  return relative(root, file.path)
    .replace("lib/build/", "lib/src/")
    .replace(/\.d\.ts$/, ".ts");
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
  walk(node, (child) => {
    if (child.type === "TSTypeReference" && "typeName" in child) names.add(firstIdentifier(child.typeName));
    if (child.type === "TSTypeQuery" && "exprName" in child) names.add(firstIdentifier(child.exprName));
    if (child.type === "TSInterfaceHeritage" && "expression" in child) names.add(firstIdentifier(child.expression));
    if ("superClass" in child && isNode(child.superClass)) names.add(firstIdentifier(child.superClass));
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
    const variantDoc = variant === null ? null : file.docBefore(inside.start);
    if (variantDoc !== null) members.push({ path: prefix, doc: variantDoc });
    for (const child of childrenOf(inside)) {
      const name = memberName(file, child);
      if (name === null) {
        if (!opaque.has(child.type)) collect(child, prefix);
      } else if (!isPrivate(child) && name !== variant?.field && name !== "constructor") {
        const memberPath = [...prefix, name];
        members.push({ path: memberPath, doc: file.docBefore(child.start) });
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

function declaredNames(node: Node & object): readonly (readonly [string, Declaration["kind"]])[] {
  if (node.type === "VariableDeclaration" && "declarations" in node && Array.isArray(node.declarations)) {
    return node.declarations.map((declarator: { id: { name: string } }) => [declarator.id.name, "constant"]);
  }
  if (!("id" in node) || !isNode(node.id) || !("name" in node.id) || typeof node.id.name !== "string") return [];
  if (node.type === "TSDeclareFunction" || node.type === "FunctionDeclaration") return [[node.id.name, "function"]];
  if (node.type === "ClassDeclaration") return [[node.id.name, "class"]];
  return [[node.id.name, "type"]];
}

function firstIdentifier(node: unknown): string {
  if (!isNode(node)) return "";
  if ("left" in node) return firstIdentifier(node.left);
  return "name" in node && typeof node.name === "string" ? node.name : "";
}

/** Visits a node and its descendants. `visit` returns `false` to leave the descendants out. */
function walk(node: Node, visit: (node: Node) => boolean): void {
  if (!visit(node)) return;
  for (const child of childrenOf(node)) walk(child, visit);
}

function childrenOf(node: Node): readonly Node[] {
  return Object.values(node)
    .flatMap((value: unknown) => (Array.isArray(value) ? value : [value]))
    .filter(isNode);
}

function isNode(value: unknown): value is Node {
  return (
    typeof value === "object" && value !== null && "type" in value && typeof value.type === "string" && "start" in value
  );
}

function fileAt(path: string): DeclarationFile {
  const parsed = files.get(path);
  if (parsed !== undefined) return parsed;
  const file = new DeclarationFile(path);
  files.set(path, file);
  return file;
}

function exportedName(name: ModuleExportName): string {
  return name.type === "Literal" ? name.value : name.name;
}

function withoutAsterisks(comment: string): string {
  return comment
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
