// Finds the declaration of every name that an entry point of the package exports, by following `export … from` through
// the sources. TypeScript 7 has no API for programs, so this works on the syntax trees of oxc-parser and understands
// the forms of export that lib/src uses; any other form throws.

import type { Comment, ExportNamedDeclaration, ModuleExportName, Program } from "oxc-parser";

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

import { parseSync } from "oxc-parser";

/**
 * Where a name is declared. `file` is an absolute path; `doc` is the text of the doc comment directly before the
 * declaration, or `null`.
 */
export type Declared = { readonly file: string; readonly name: string; readonly doc: string | null };

/** A parsed source file. */
export type Module = { readonly text: string; readonly program: Program; readonly comments: readonly Comment[] };

const repository = join(import.meta.dirname, "../..");
const sources = join(repository, "lib/src");
const modules = new Map<string, Module>();
const exportsByFile = new Map<string, ReadonlyMap<string, Declared>>();

/** The source file of each entry point in `exports` of the package.json of a library, by the name of the subpath. */
export function entryPoints(library = join(repository, "lib")): ReadonlyMap<string, string> {
  const { exports }: { readonly exports: { readonly [path: string]: { readonly source: string } | string } } =
    JSON.parse(readFileSync(join(library, "package.json"), "utf8"));
  return new Map(
    Object.entries(exports).flatMap(([path, target]) =>
      typeof target === "string" ? [] : [[path, join(library, target.source)]],
    ),
  );
}

/** The names a file exports and their declarations. */
export function exportedNames(file: string): ReadonlyMap<string, Declared> {
  const cached = exportsByFile.get(file);
  if (cached !== undefined) return cached;
  const names = new Map<string, Declared>();
  for (const statement of moduleOf(file).program.body) {
    if (statement.type === "ExportAllDeclaration") {
      for (const [name, declared] of exportedNames(targetOf(file, statement.source.value))) names.set(name, declared);
    } else if (statement.type === "ExportDefaultDeclaration") {
      throw new Error(`${file}: default exports are not understood`);
    } else if (statement.type === "ExportNamedDeclaration") {
      for (const [name, declared] of exportedNamesIn(file, statement)) {
        // Overloads, and a type beside a value of the same name: the first declaration has the doc comment.
        if (!names.has(name)) names.set(name, declared);
      }
    }
  }
  exportsByFile.set(file, names);
  return names;
}

/** The TypeScript files below lib/src, by their path from there. */
export function sourceFiles(): readonly string[] {
  return readdirSync(sources, { recursive: true, encoding: "utf8" }).filter((file) => /\.tsx?$/.test(file));
}

/** The files a file of lib/src imports or re-exports from, by their paths from lib/src. */
export function importedFiles(file: string): readonly string[] {
  const from = join(sources, file);
  return moduleOf(from).program.body.flatMap((statement) => {
    if (!("source" in statement) || statement.source === null || !statement.source.value.startsWith(".")) return [];
    return [relative(sources, targetOf(from, statement.source.value))];
  });
}

function exportedNamesIn(file: string, statement: ExportNamedDeclaration): readonly (readonly [string, Declared])[] {
  const { declaration, source, specifiers } = statement;
  if (source !== null) {
    const target = targetOf(file, source.value);
    return specifiers.map(({ local, exported }) => {
      const declared = exportedNames(target).get(exportedName(local));
      if (declared === undefined) throw new Error(`${file}: ${exportedName(local)} is not exported by ${target}`);
      return [exportedName(exported), declared];
    });
  }
  if (declaration === null) throw new Error(`${file}: export lists without "from" are not understood`);
  const doc = docBefore(file, statement.start);
  if (declaration.type === "VariableDeclaration") {
    return declaration.declarations.map(({ id }) => {
      if (id.type !== "Identifier") throw new Error(`${file}: exported patterns are not understood`);
      return [id.name, { file, name: id.name, doc }];
    });
  }
  if (!("id" in declaration) || declaration.id === null || !("name" in declaration.id)) {
    throw new Error(`${file}: an exported ${declaration.type} is not understood`);
  }
  const { name } = declaration.id;
  return [[name, { file, name, doc }]];
}

/** The text of the doc comment directly before a position of a file, without the asterisks, or `null`. */
export function docBefore(file: string, start: number): string | null {
  const { text, comments } = moduleOf(file);
  const comment = comments.findLast(({ end }) => end <= start);
  if (comment?.type !== "Block" || !comment.value.startsWith("*")) return null;
  if (text.slice(comment.end, start).trim() !== "") return null;
  return comment.value.replaceAll(/^[ \t]*\*+ ?/gm, "").trim();
}

/** Reads and parses a source file, once in a process. Throws if it has a syntax error. */
export function moduleOf(file: string): Module {
  const cached = modules.get(file);
  if (cached !== undefined) return cached;
  const text = readFileSync(file, "utf8");
  const { program, comments, errors } = parseSync(file, text);
  if (errors[0] !== undefined) throw new Error(`${file}: ${errors[0].message}`);
  const parsed = { text, program, comments };
  modules.set(file, parsed);
  return parsed;
}

/** The file that a relative import names. */
export function targetOf(file: string, specifier: string): string {
  if (!specifier.startsWith(".")) throw new Error(`${file}: exports of the package ${specifier} are not understood`);
  return resolve(dirname(file), specifier);
}

/** The text of a name in a list of imports or exports. */
export function exportedName(name: ModuleExportName): string {
  return name.type === "Literal" ? name.value : name.name;
}
