// Bundles the declaration files of `tsc -b` for the package: one file for each entry point, and one for each layer with
// the declarations that the entry points need. An editor then opens about ten files instead of three hundred.
//
// Theory of operation
//   1. From the exported names of the entry points, follow the names that each declaration refers to, through imports
//      and re-exports, to their declarations.
//   2. Give every declaration that was reached a name that is unique in its layer (folder of lib/src). Exported names
//      keep theirs; a private name that two files of a layer declare gets a number in the second file, and so does an
//      imported name that the layer declares itself.
//   3. Write the declarations of one layer into `types/<layer>.d.ts`, with imports from the other layers, and each
//      entry point as a list of re-exports.
//
// The text of a declaration and of its comments is copied. Only names that changed are replaced, so hovers and error
// messages show what the sources say.
//
// TypeScript 7 has no compiler API, and the bundlers of declarations need one or need Node 22. The syntax trees of
// oxc-parser suffice, because every type is written out in a declaration file. Forms that lib/src does not use throw: a
// namespace, a default export, an import of a whole module.

import type { Comment, Program } from "oxc-parser";

import { readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

import { parseSync } from "oxc-parser";

import { withInferredTypes } from "./inferred-types.ts";

type Node = { readonly type: string; readonly start: number; readonly end: number };

/**
 * A top-level declaration: all statements that declare one name in one file (the overloads of a function, a type and a
 * value of one name).
 */
type Declaration = {
  readonly module: Module;
  readonly name: string;
  readonly statements: Node[];
};

/** A name imported from another module of the library, or from a package. */
type Binding = { readonly from: string; readonly name: string };

type Reference = { readonly start: number; readonly end: number; readonly target: Declaration };

/** A parsed declaration file. */
class Module {
  readonly path: string;
  readonly text: string;
  readonly comments: readonly Comment[];
  readonly declarations = new Map<string, Declaration>();
  readonly imports = new Map<string, Binding>();
  /** By exported name: the local name, or where it comes from. */
  readonly exports = new Map<string, string | Binding>();
  readonly reexportedFiles: string[] = [];

  constructor(path: string) {
    this.path = path;
    this.text = withInferredTypes(readFileSync(path, "utf8"), path);
    const { program, comments, errors } = parseSync(path, this.text);
    if (errors[0] !== undefined) throw new Error(`${path}: ${errors[0].message}`);
    this.comments = comments;
    for (const statement of program.body) this.#read(statement);
  }

  #read(statement: Program["body"][number]): void {
    if (statement.type === "ImportDeclaration") {
      for (const specifier of statement.specifiers) {
        if (specifier.type !== "ImportSpecifier") throw this.notUnderstood(specifier);
        const name = nameIn(specifier.imported);
        this.imports.set(specifier.local.name, { from: this.addressOf(statement.source.value), name });
      }
    } else if (statement.type === "ExportAllDeclaration" && statement.exported === null) {
      this.reexportedFiles.push(this.addressOf(statement.source.value));
    } else if (statement.type === "ExportNamedDeclaration" && statement.declaration !== null) {
      for (const name of this.#declare(statement.declaration, statement)) this.exports.set(name, name);
    } else if (statement.type === "ExportNamedDeclaration") {
      for (const { local, exported } of statement.specifiers) {
        const from = statement.source === null ? null : this.addressOf(statement.source.value);
        const name = nameIn(local);
        this.exports.set(nameIn(exported), from === null ? name : { from, name });
      }
    } else if (statement.type.startsWith("Export")) {
      throw this.notUnderstood(statement);
    } else {
      this.#declare(statement, statement);
    }
  }

  #declare(node: Node, statement: Node): readonly string[] {
    const names = declaredNames(node);
    if (names.length !== 1) throw this.notUnderstood(node);
    for (const name of names) {
      const declaration = this.declarations.get(name) ?? { module: this, name, statements: [] };
      declaration.statements.push(statement);
      this.declarations.set(name, declaration);
    }
    return names;
  }

  /** The declaration file that a relative specifier names; the specifier of a package is returned as it is. */
  addressOf(specifier: string): string {
    return specifier.startsWith(".") ? resolve(dirname(this.path), specifier.replace(/\.ts$/, ".d.ts")) : specifier;
  }

  /** Where the text of a statement begins, with its doc comment. */
  startOf(statement: Node): number {
    const comment = this.comments.findLast(({ end }) => end <= statement.start);
    const isDoc = comment?.type === "Block" && comment.value.startsWith("*");
    if (comment === undefined || !isDoc || this.text.slice(comment.end, statement.start).trim() !== "") {
      return statement.start;
    }
    return comment.start;
  }

  notUnderstood(node: Node): Error {
    return new Error(`${this.path}: ${node.type} is not understood: ${this.text.slice(node.start, node.end)}`);
  }
}

/**
 * The files of the bundle, by path relative to lib/dist. `folder` has the declaration files of `tsc -b`, with the paths
 * of the sources. `packages`: packages that users install, whose types stay imports.
 */
export function bundleDeclarations(
  entries: readonly { readonly name: string; readonly path: string }[],
  folder: string,
  packages: readonly string[] = [],
): ReadonlyMap<string, string> {
  return new DeclarationBundle(folder, packages).write(entries);
}

class DeclarationBundle {
  readonly #folder: string;
  readonly #modules = new Map<string, Module>();
  /** Every declaration that was reached, with its references, in the order in which it was reached. */
  readonly #reached = new Map<Declaration, readonly Reference[]>();
  /** The name under which the layer of a declaration exports it. */
  readonly #names = new Map<Declaration, string>();
  readonly #scopes = new Map<string, Scope>();
  readonly #packages: readonly string[];
  /** The imports from packages of each layer. */
  readonly #packageImports = new Map<string, Set<string>>();

  constructor(folder: string, packages: readonly string[]) {
    this.#folder = folder;
    this.#packages = packages;
  }

  write(entries: readonly { readonly name: string; readonly path: string }[]): ReadonlyMap<string, string> {
    const exported = entries.map(({ name, path }) => ({ name, names: this.#exportsOf(this.#moduleAt(path)) }));
    for (const { names } of exported) for (const declaration of names.values()) this.#reach(declaration);
    this.#nameDeclarations(exported.flatMap(({ names }) => [...names.values()]));
    const layers = this.#layers();
    const files = new Map<string, string>();
    for (const [layer, declarations] of layers) files.set(`types/${layer}.d.ts`, this.#layerText(layer, declarations));
    for (const { name, names } of exported) files.set(`${name}.d.ts`, this.#entryText(names));
    return files;
  }

  /** All exported names of a module, with their declarations. */
  #exportsOf(module: Module): ReadonlyMap<string, Declaration> {
    const names = new Map<string, Declaration>();
    for (const path of module.reexportedFiles) {
      for (const [name, declaration] of this.#exportsOf(this.#moduleAt(path))) names.set(name, declaration);
    }
    for (const name of module.exports.keys()) names.set(name, this.#exportedBy(module, name));
    return names;
  }

  #exportedBy(module: Module, name: string): Declaration {
    const exported = module.exports.get(name);
    if (typeof exported === "object") return this.#exportedBy(this.#moduleAt(exported.from), exported.name);
    if (exported !== undefined) {
      const declaration = this.#lookUp(module, exported);
      if (declaration !== null) return declaration;
    }
    for (const path of module.reexportedFiles) {
      const declaration = this.#exportsOf(this.#moduleAt(path)).get(name);
      if (declaration !== undefined) return declaration;
    }
    throw new Error(`${module.path} does not export ${name}`);
  }

  /** The declaration of a name that is used in a module. `null` for globals and for names of packages. */
  #lookUp(module: Module, name: string): Declaration | null {
    const declaration = module.declarations.get(name);
    if (declaration !== undefined) return declaration;
    const binding = module.imports.get(name);
    if (binding === undefined || this.#packages.includes(binding.from)) return null;
    return this.#exportedBy(this.#moduleAt(binding.from), binding.name);
  }

  #moduleAt(path: string): Module {
    if (!path.startsWith(this.#folder))
      throw new Error(`the public types refer to "${path}", which is not part of the package`);
    const module = this.#modules.get(path) ?? new Module(path);
    this.#modules.set(path, module);
    return module;
  }

  #reach(declaration: Declaration): void {
    if (this.#reached.has(declaration)) return;
    const references = this.#referencesOf(declaration);
    this.#reached.set(declaration, references);
    for (const { target } of references) this.#reach(target);
  }

  #referencesOf(declaration: Declaration): readonly Reference[] {
    const { module, statements } = declaration;
    const references: Reference[] = [];
    for (const statement of statements) {
      const parameters = typeParametersIn(statement);
      walk(statement, (node) => {
        if (node.type === "TSImportType") references.push(this.#importType(module, node));
        const name = referenceIn(node);
        if (name !== null) this.#importFromPackage(declaration, name.name);
        const target = name === null ? null : this.#lookUp(module, name.name);
        if (name === null || target === null) return;
        if (parameters.has(name.name))
          throw new Error(`${module.path}: the type parameter ${name.name} hides a declaration`);
        references.push({ start: name.start, end: name.end, target });
      });
    }
    return references;
  }

  /** Notes that the layer of a declaration imports a name, if it is one of a package. */
  #importFromPackage(declaration: Declaration, name: string): void {
    const binding = declaration.module.imports.get(name);
    if (binding === undefined || !this.#packages.includes(binding.from)) return;
    const layer = this.#layerOf(declaration);
    const line = `import type { ${specifierOf(binding.name, name)} } from "${binding.from}";`;
    this.#packageImports.set(layer, (this.#packageImports.get(layer) ?? new Set()).add(line));
  }

  /** `import("../x.ts").Name`, which the compiler writes for inferred types. */
  #importType(module: Module, node: Node): Reference {
    const qualifier = "qualifier" in node ? node.qualifier : null;
    const address = "source" in node ? literalIn(node.source) : null;
    if (address === null || !isIdentifier(qualifier)) throw module.notUnderstood(node);
    const target = this.#exportedBy(this.#moduleAt(module.addressOf(address)), qualifier.name);
    return { start: node.start, end: qualifier.end, target };
  }

  #nameDeclarations(exported: readonly Declaration[]): void {
    for (const declaration of new Set([...exported, ...this.#reached.keys()])) {
      this.#names.set(declaration, this.#scopeOf(this.#layerOf(declaration)).add(declaration));
    }
  }

  #layers(): ReadonlyMap<string, readonly Declaration[]> {
    const layers = new Map<string, Declaration[]>();
    for (const declaration of this.#reached.keys()) {
      const layer = this.#layerOf(declaration);
      layers.set(layer, [...(layers.get(layer) ?? []), declaration]);
    }
    return layers;
  }

  /** The folder of the module below lib/src: `model`, `host-sqlite`. */
  #layerOf({ module }: Declaration): string {
    const folders = dirname(relative(this.#folder, module.path)).split("/");
    return folders.slice(0, folders[0] === "host" ? 2 : 1).join("-");
  }

  #layerText(layer: string, declarations: readonly Declaration[]): string {
    const scope = this.#scopeOf(layer);
    const imports = new Map<string, Set<string>>();
    for (const declaration of declarations) {
      for (const { target } of this.#reached.get(declaration) ?? []) {
        const from = this.#layerOf(target);
        if (from === layer) continue;
        const specifier = specifierOf(this.#nameOf(target), scope.add(target));
        imports.set(from, (imports.get(from) ?? new Set()).add(specifier));
      }
    }
    const importLines = [...imports]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([from, specifiers]) => `import { ${[...specifiers].sort().join(", ")} } from "./${from}.js";`);
    // Tabs instead of the four spaces of the compiler: a tenth of the size of these files.
    const texts = declarations.map((declaration) =>
      this.#textOf(declaration).replaceAll(/^(?: {4})+/gm, (spaces) => "\t".repeat(spaces.length / 4)),
    );
    const names = declarations.map((declaration) => this.#nameOf(declaration)).sort();
    const packageLines = [...(this.#packageImports.get(layer) ?? [])].sort();
    return `${[...packageLines, ...importLines, ...texts].join("\n")}\nexport { ${names.join(", ")} };\n`;
  }

  /** The text of a declaration without `export`, with its final name and those of what it refers to. */
  #textOf(declaration: Declaration): string {
    const { module, statements } = declaration;
    const ownName = this.#nameOf(declaration);
    const scope = this.#scopeOf(this.#layerOf(declaration));
    const texts = statements.map((statement) => {
      const start = module.startOf(statement);
      const replacements = (this.#reached.get(declaration) ?? [])
        .filter((reference) => reference.start >= statement.start && reference.end <= statement.end)
        .map((reference) => ({ ...reference, text: scope.add(reference.target) }));
      const declared = declaredIdentifier(statement);
      if (declared !== null && ownName !== declaration.name)
        replacements.push({ ...declared, target: declaration, text: ownName });
      const exportWord =
        /^export (?=declare|type|interface|abstract)/.exec(module.text.slice(statement.start, statement.end))?.[0] ??
        "";
      const wordEnd = statement.start + exportWord.length;
      return module.text.slice(start, statement.start) + replaced(module.text, wordEnd, statement.end, replacements);
    });
    return texts.join("\n");
  }

  #entryText(names: ReadonlyMap<string, Declaration>): string {
    const layers = new Map<string, string[]>();
    for (const [exportedName, declaration] of names) {
      const specifier = specifierOf(this.#nameOf(declaration), exportedName);
      const layer = this.#layerOf(declaration);
      layers.set(layer, [...(layers.get(layer) ?? []), specifier]);
    }
    const lines = [...layers].map(
      ([layer, specifiers]) => `export { ${specifiers.join(", ")} } from "./types/${layer}.js";`,
    );
    return `${lines.length === 0 ? "export {};" : lines.join("\n")}\n`;
  }

  #scopeOf(layer: string): Scope {
    const scope = this.#scopes.get(layer) ?? new Scope();
    this.#scopes.set(layer, scope);
    return scope;
  }

  #nameOf(declaration: Declaration): string {
    const name = this.#names.get(declaration);
    if (name === undefined)
      throw new Error(`${declaration.module.path}: ${declaration.name} has no name in the bundle`);
    return name;
  }
}

/** The top-level names of one layer: of its own declarations and of those that it imports. */
class Scope {
  readonly #names = new Map<Declaration, string>();
  readonly #taken = new Set<string>();

  /** The name of a declaration in this scope. */
  add(declaration: Declaration): string {
    const existing = this.#names.get(declaration);
    if (existing !== undefined) return existing;
    let name = declaration.name;
    for (let number = 2; this.#taken.has(name); number += 1) name = `${declaration.name}${number}`;
    this.#taken.add(name);
    this.#names.set(declaration, name);
    return name;
  }
}

function specifierOf(name: string, alias: string): string {
  return name === alias ? name : `${name} as ${alias}`;
}

function replaced(
  text: string,
  start: number,
  end: number,
  replacements: readonly { readonly start: number; readonly end: number; readonly text: string }[],
): string {
  let result = "";
  let position = start;
  for (const replacement of [...replacements].sort((a, b) => a.start - b.start)) {
    result += text.slice(position, replacement.start) + replacement.text;
    position = replacement.end;
  }
  return result + text.slice(position, end);
}

/**
 * The identifier by which a node refers to a declaration, or `null`. Property names and parameters are no references.
 */
function referenceIn(node: Node): (Node & { readonly name: string }) | null {
  if (node.type === "TSTypeReference" && "typeName" in node) return firstIdentifier(node.typeName);
  if (node.type === "TSTypeQuery" && "exprName" in node) return firstIdentifier(node.exprName);
  if ((node.type === "TSInterfaceHeritage" || node.type === "TSClassImplements") && "expression" in node) {
    return firstIdentifier(node.expression);
  }
  if (node.type === "ClassDeclaration" && "superClass" in node) return firstIdentifier(node.superClass);
  if ("computed" in node && node.computed === true && "key" in node) return firstIdentifier(node.key);
  return null;
}

/** The leftmost identifier of `a.b.c`. */
function firstIdentifier(node: unknown): (Node & { readonly name: string }) | null {
  if (isIdentifier(node)) return node;
  if (!isNode(node)) return null;
  if ("left" in node) return firstIdentifier(node.left);
  return "object" in node ? firstIdentifier(node.object) : null;
}

function typeParametersIn(statement: Node): ReadonlySet<string> {
  const names = new Set<string>();
  walk(statement, (node) => {
    if (node.type === "TSTypeParameter" && "name" in node && isIdentifier(node.name)) names.add(node.name.name);
    if (node.type === "TSMappedType" && "key" in node && isIdentifier(node.key)) names.add(node.key.name);
  });
  return names;
}

function declaredNames(node: Node): readonly string[] {
  return declaredIdentifiers(node).map(({ name }) => name);
}

function declaredIdentifier(statement: Node): (Node & { readonly name: string }) | null {
  const { declaration } = { declaration: null, ...statement };
  return declaredIdentifiers(isNode(declaration) ? declaration : statement)[0] ?? null;
}

function declaredIdentifiers(node: Node): readonly (Node & { readonly name: string })[] {
  const { id, declarations } = { id: null, declarations: [], ...node };
  const identifiers = Array.isArray(declarations)
    ? declarations.map((declarator: { readonly id?: unknown }) => declarator.id)
    : [];
  return [id, ...identifiers].filter(isIdentifier);
}

/** Visits a node and its descendants. */
function walk(node: Node, visit: (node: Node) => void): void {
  visit(node);
  const children = Object.values(node).flatMap((value: unknown) => (Array.isArray(value) ? value : [value]));
  for (const child of children) if (isNode(child)) walk(child, visit);
}

function isNode(value: unknown): value is Node {
  return (
    typeof value === "object" && value !== null && "type" in value && typeof value.type === "string" && "start" in value
  );
}

function isIdentifier(value: unknown): value is Node & { readonly name: string } {
  return isNode(value) && value.type === "Identifier";
}

function literalIn(value: unknown): string | null {
  if (!isNode(value)) return null;
  if ("literal" in value) return literalIn(value.literal);
  return "value" in value && typeof value.value === "string" ? value.value : null;
}

function nameIn(name: { readonly type: string; readonly name?: string; readonly value?: unknown }): string {
  return name.name ?? String(name.value);
}

/** The address of the declaration file of a source module. */
export function declarationFileOf(source: string, sources: string, folder: string): string {
  return join(folder, relative(sources, source)).replace(/\.ts$/, ".d.ts");
}
