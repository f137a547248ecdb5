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
// The bundlers of declarations need the compiler API of TypeScript 5 or need Node 22.

import type { Declaration, DeclarationFile } from "./declaration-files.ts";
import type { Edit, Identifier, Node } from "./syntax-nodes.ts";

import { dirname, relative } from "node:path";

import { DeclarationFiles } from "./declaration-files.ts";
import {
  declaredIdentifiers,
  edited,
  firstIdentifier,
  innerDeclaration,
  isIdentifier,
  isNode,
  walk,
} from "./syntax-nodes.ts";

type Reference = { readonly start: number; readonly end: number; readonly target: Declaration };

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
  readonly #files: DeclarationFiles;
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
    this.#files = new DeclarationFiles(folder, (address) => packages.includes(address));
    this.#packages = packages;
  }

  write(entries: readonly { readonly name: string; readonly path: string }[]): ReadonlyMap<string, string> {
    const exported = entries.map(({ name, path }) => ({ name, names: this.#exportsOf(this.#files.at(path)) }));
    for (const { names } of exported) for (const declaration of names.values()) this.#reach(declaration);
    this.#nameDeclarations(exported.flatMap(({ names }) => [...names.values()]));
    const layers = this.#layers();
    const files = new Map<string, string>();
    for (const [layer, declarations] of layers) files.set(`types/${layer}.d.ts`, this.#layerText(layer, declarations));
    for (const { name, names } of exported) files.set(`${name}.d.ts`, this.#entryText(names));
    return files;
  }

  /** All exported names of a file, with their declarations. */
  #exportsOf(file: DeclarationFile): ReadonlyMap<string, Declaration> {
    return new Map([...this.#files.exportedNames(file)].map((name) => [name, this.#exportedBy(file, name)]));
  }

  #exportedBy(file: DeclarationFile, name: string): Declaration {
    const declaration = this.#files.resolve(file, name);
    if (declaration === null) throw new Error(`${file.path} does not export ${name}`);
    return declaration;
  }

  #reach(declaration: Declaration): void {
    if (this.#reached.has(declaration)) return;
    const references = this.#referencesOf(declaration);
    this.#reached.set(declaration, references);
    for (const { target } of references) this.#reach(target);
  }

  #referencesOf(declaration: Declaration): readonly Reference[] {
    const { file, statements } = declaration;
    const references: Reference[] = [];
    for (const statement of statements) {
      const parameters = typeParametersIn(statement);
      walk(statement, (node) => {
        if (node.type === "TSImportType") references.push(this.#importType(file, node));
        const name = referenceIn(node);
        if (name !== null) this.#importFromPackage(declaration, name.name);
        const target = name === null ? null : this.#files.resolve(file, name.name);
        if (name === null || target === null) return;
        if (parameters.has(name.name))
          throw new Error(`${file.path}: the type parameter ${name.name} hides a declaration`);
        references.push({ start: name.start, end: name.end, target });
      });
    }
    return references;
  }

  /** Notes that the layer of a declaration imports a name, if it is one of a package. */
  #importFromPackage(declaration: Declaration, name: string): void {
    const binding = declaration.file.imports.get(name);
    if (binding === undefined || !this.#packages.includes(binding.from)) return;
    const layer = this.#layerOf(declaration);
    const line = `import type { ${specifierOf(binding.name, name)} } from "${binding.from}";`;
    this.#packageImports.set(layer, (this.#packageImports.get(layer) ?? new Set()).add(line));
  }

  /** `import("../x.ts").Name`, which the compiler writes for inferred types. */
  #importType(file: DeclarationFile, node: Node): Reference {
    const qualifier = "qualifier" in node ? node.qualifier : null;
    const address = "source" in node ? literalIn(node.source) : null;
    if (address === null || !isIdentifier(qualifier)) throw file.notUnderstood(node);
    const target = this.#exportedBy(this.#files.at(file.addressOf(address)), qualifier.name);
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

  /**
   * The folder of the module below lib/src: `core`, `durable`. Types that name those of an optional package have a layer
   * of their own, because users of other entry points do not have the package: React and OpenTelemetry.
   */
  #layerOf({ file }: Declaration): string {
    const folders = dirname(relative(this.#folder, file.path)).split("/");
    const [floor = "", folder = ""] = folders;
    return folder === "react" || folder === "otel" ? folder : floor;
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
    // `await using` is newer than the `lib` of many programs.
    const usesDispose = texts.some((text) => text.includes("Symbol.asyncDispose"));
    const directives = usesDispose ? ['/// <reference lib="esnext.disposable" />'] : [];
    return `${[...directives, ...packageLines, ...importLines, ...texts].join("\n")}\nexport { ${names.join(", ")} };\n`;
  }

  /** The text of a declaration without `export`, with its final name and those of what it refers to. */
  #textOf(declaration: Declaration): string {
    const { file, statements } = declaration;
    const ownName = this.#nameOf(declaration);
    const scope = this.#scopeOf(this.#layerOf(declaration));
    const texts = statements.map((statement) => {
      const start = file.docBefore(statement.start)?.start ?? statement.start;
      const edits: Edit[] = (this.#reached.get(declaration) ?? [])
        .filter((reference) => reference.start >= statement.start && reference.end <= statement.end)
        .map((reference) => ({ ...reference, text: scope.add(reference.target) }));
      const [declared] = declaredIdentifiers(innerDeclaration(statement));
      if (declared !== undefined && ownName !== declaration.name) edits.push({ ...declared, text: ownName });
      const exportWord =
        /^export (?=declare|type|interface|abstract)/.exec(file.text.slice(statement.start, statement.end))?.[0] ?? "";
      const wordEnd = statement.start + exportWord.length;
      return file.text.slice(start, statement.start) + edited(file.text, wordEnd, statement.end, edits);
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
    if (name === undefined) throw new Error(`${declaration.file.path}: ${declaration.name} has no name in the bundle`);
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

/**
 * The identifier by which a node refers to a declaration, or `null`. Property names and parameters are no references.
 */
function referenceIn(node: Node): Identifier | null {
  if (node.type === "TSTypeReference" && "typeName" in node) return firstIdentifier(node.typeName);
  if (node.type === "TSTypeQuery" && "exprName" in node) return firstIdentifier(node.exprName);
  if ((node.type === "TSInterfaceHeritage" || node.type === "TSClassImplements") && "expression" in node) {
    return firstIdentifier(node.expression);
  }
  if (node.type === "ClassDeclaration" && "superClass" in node) return firstIdentifier(node.superClass);
  if ("computed" in node && node.computed === true && "key" in node) return firstIdentifier(node.key);
  return null;
}

function typeParametersIn(statement: Node): ReadonlySet<string> {
  const names = new Set<string>();
  walk(statement, (node) => {
    if (node.type === "TSTypeParameter" && "name" in node && isIdentifier(node.name)) names.add(node.name.name);
    if (node.type === "TSMappedType" && "key" in node && isIdentifier(node.key)) names.add(node.key.name);
  });
  return names;
}

function literalIn(value: unknown): string | null {
  if (!isNode(value)) return null;
  if ("literal" in value) return literalIn(value.literal);
  return "value" in value && typeof value.value === "string" ? value.value : null;
}
