// Declaration files (`.d.ts`) as `tsc -b` emits them, with inferred types written out. The bundler of declarations and
// the generator of docs/reference read them.
//
// TypeScript 7 has no compiler API, and a tool that brings its own TypeScript would check the sources with another
// compiler than the one that builds them. Declaration files need no checker: every type is written out in them, and doc
// comments are kept. So this module works on the syntax trees of oxc-parser. It follows `import` and `export … from`
// between files and understands the forms that lib/src uses. Others throw: a namespace, a default export, an import of
// a whole module.

import type { Node } from "./syntax-nodes.ts";
import type { Comment, ModuleExportName, Program } from "oxc-parser";

import { readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

import { parseSync } from "oxc-parser";

import { withInferredTypes } from "./inferred-types.ts";
import { declaredIdentifiers, innerDeclaration } from "./syntax-nodes.ts";

/**
 * A top-level declaration: all statements that declare one name in one file (the overloads of a function, a type and a
 * value of one name).
 */
export type Declaration = {
  readonly file: DeclarationFile;
  readonly name: string;
  readonly statements: readonly Node[];
};

/** A name imported from another file, or from a package. */
type Binding = { readonly from: string; readonly name: string };

/** The parsed files. `isPackage`: whether the names of an imported package are left out. */
export class DeclarationFiles {
  readonly #files = new Map<string, DeclarationFile>();
  readonly #isPackage: (address: string) => boolean;
  readonly #folder: string;

  /** `folder`: a file elsewhere is refused. */
  constructor(folder: string, isPackage: (address: string) => boolean) {
    this.#folder = folder;
    this.#isPackage = isPackage;
  }

  at(path: string): DeclarationFile {
    if (!path.startsWith(this.#folder))
      throw new Error(`the public types refer to "${path}", which is not part of the package`);
    const file = this.#files.get(path) ?? new DeclarationFile(path);
    this.#files.set(path, file);
    return file;
  }

  /** All names that a file exports. */
  exportedNames(file: DeclarationFile): ReadonlySet<string> {
    const reexported = file.reexportedFiles.flatMap((path) => [...this.exportedNames(this.at(path))]);
    return new Set([...reexported, ...file.exports.keys()]);
  }

  /**
   * The declaration of a name that a file declares, imports or exports. `null` for globals, type parameters and names
   * of packages.
   */
  resolve(file: DeclarationFile, name: string): Declaration | null {
    const declaration = file.declarations.get(name);
    if (declaration !== undefined) return declaration;
    const binding = file.exports.get(name) ?? file.imports.get(name);
    if (typeof binding === "string") return binding === name ? null : this.resolve(file, binding);
    if (binding !== undefined) {
      return this.#isPackage(binding.from) ? null : this.resolve(this.at(binding.from), binding.name);
    }
    for (const path of file.reexportedFiles) {
      const found = this.resolve(this.at(path), name);
      if (found !== null) return found;
    }
    return null;
  }
}

/** A parsed declaration file: what it declares, and where its imported and re-exported names come from. */
export class DeclarationFile {
  readonly path: string;
  readonly text: string;
  readonly comments: readonly Comment[];
  readonly declarations = new Map<string, Declaration & { readonly statements: Node[] }>();
  readonly imports = new Map<string, Binding>();
  /** By exported name: the local name, or where it comes from. */
  readonly exports = new Map<string, string | Binding>();
  /** The files of `export * from`. */
  readonly reexportedFiles: string[] = [];

  constructor(path: string) {
    this.path = path;
    this.text = withInferredTypes(readFileSync(path, "utf8"), path);
    const { program, comments, errors } = parseSync(path, this.text);
    if (errors[0] !== undefined) throw new Error(`${path}: ${errors[0].message}`);
    this.comments = comments;
    for (const statement of program.body) this.#read(statement);
  }

  /** The doc comment that ends directly before `position`, or `null`. The `|` of a union may stand between the two. */
  docBefore(position: number): Comment | null {
    const comment = this.comments.findLast(({ end }) => end <= position);
    if (comment?.type !== "Block" || !comment.value.startsWith("*")) return null;
    return /^[\s|]*$/.test(this.text.slice(comment.end, position)) ? comment : null;
  }

  /** The declaration file that a relative specifier names; the specifier of a package is returned as it is. */
  addressOf(specifier: string): string {
    return specifier.startsWith(".") ? resolve(dirname(this.path), specifier.replace(/\.tsx?$/, ".d.ts")) : specifier;
  }

  notUnderstood(node: Node): Error {
    return new Error(`${this.path}: ${node.type} is not understood: ${this.text.slice(node.start, node.end)}`);
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
      const name = this.#declare(statement);
      this.exports.set(name, name);
    } else if (statement.type === "ExportNamedDeclaration") {
      for (const { local, exported } of statement.specifiers) {
        const from = statement.source === null ? null : this.addressOf(statement.source.value);
        const name = nameIn(local);
        this.exports.set(nameIn(exported), from === null ? name : { from, name });
      }
    } else if (statement.type.startsWith("Export")) {
      throw this.notUnderstood(statement);
    } else {
      this.#declare(statement);
    }
  }

  #declare(statement: Node): string {
    const [identifier, ...others] = declaredIdentifiers(innerDeclaration(statement));
    if (identifier === undefined || others.length > 0) throw this.notUnderstood(statement);
    const { name } = identifier;
    const declaration = this.declarations.get(name) ?? { file: this, name, statements: [] };
    declaration.statements.push(statement);
    this.declarations.set(name, declaration);
    return name;
  }
}

/** The declaration file that `tsc -b` writes into `folder` for a file of `sources`. */
export function declarationFileOf(source: string, sources: string, folder: string): string {
  return join(folder, relative(sources, source)).replace(/\.tsx?$/, ".d.ts");
}

function nameIn(name: ModuleExportName): string {
  return name.type === "Literal" ? name.value : name.name;
}
