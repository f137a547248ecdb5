// Counts the concepts of the library and the lines of its code, from the code itself: tables, run options, members of
// `Runtime`, HTTP operations, concurrency primitives, entry points, public names, lines by floor, and the longest
// functions. Functions that exceed their limits are listed, and fail the command.
//
// Everything is read from syntax trees, so nothing has to be built or loaded. Declarations are found by their names and
// not by their paths, so the counts do not depend on the folders below lib/src. What is not understood, or not found,
// throws: a count of 0 would mean that the code has another form than this file expects.

import type { Module } from "./public-names.ts";
import type { Expression, ObjectExpression, Statement, TSSignature, TSType } from "oxc-parser";

import { existsSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";

import { Visitor } from "oxc-parser";

import { docBefore, entryPoints, exportedNames, moduleOf, targetOf, exportedName } from "./public-names.ts";

export type Counts = {
  /** How many there are of each concept. */
  readonly concepts: readonly { readonly name: string; readonly count: number }[];
  readonly primitives: readonly Primitive[];
  readonly floors: readonly Floor[];
  /** By lines, the longest first. */
  readonly longestFunctions: readonly CountedFunction[];
  /** The functions that exceed their limits. */
  readonly exceeding: readonly CountedFunction[];
};

/**
 * A class or function that limits or queues a shared resource, and the resource: the text after `@primitive` in its doc
 * comment.
 */
type Primitive = { readonly name: string; readonly shares: string };

/** A folder of the repository. Lines are counted without comments and blank lines, files without tests. */
type Floor = { readonly name: string; readonly files: number; readonly lines: number };

/** `parameters`: the positional ones. */
type CountedFunction = {
  readonly name: string;
  readonly place: string;
  readonly lines: number;
  readonly parameters: number;
};

/** A counted file, by its absolute path. */
type Source = { readonly file: string; readonly floor: string };

/** How many functions are listed. */
const listedFunctions = 5;

type FunctionLimits = { readonly lines: number; readonly parameters: number };

/** What a function or constructor of these floors may have at most: a longer one does several things. */
const limitedFloors: ReadonlySet<string> = new Set(["lib/src/core", "lib/src/durable"]);
const functionLimits: FunctionLimits = { lines: 120, parameters: 6 };

/** Functions through which everything passes have narrower limits, by their file and name. */
export const narrowLimits: { readonly [fileAndName: string]: FunctionLimits } = {
  "lib/src/core/run/run.ts startRun": { ...functionLimits, lines: 80 },
  "lib/src/durable/accept/accept.ts acceptTurn": { ...functionLimits, parameters: 4 },
  "lib/src/durable/work/work.ts work": { ...functionLimits, lines: 40 },
  "lib/src/serve/http/routes/turn-answer.ts driveTurn": { ...functionLimits, lines: 15 },
};

/** Whether a function has more lines or parameters than it may. */
function exceeds({ name, place, lines, parameters, floor }: CountedFunction & { readonly floor: string }): boolean {
  const [file = ""] = place.split(":");
  const limits = narrowLimits[`${file} ${name}`] ?? (limitedFloors.has(floor) ? functionLimits : null);
  return limits !== null && (lines > limits.lines || parameters > limits.parameters);
}

/** Counts a repository: the library in `lib`, the applications in `apps/*` that have a folder `src`, and `tools`. */
export function countRepository(root: string): Counts {
  const sources = sourcesOf(root);
  const entries = entryPoints(join(root, "lib"));
  const publicNames = new Map([...entries.values()].flatMap((file) => [...exportedNames(file)]));
  const primitives = sources.flatMap(({ file }) => primitivesIn(file));
  const functions = sources.flatMap(({ file, floor }) => functionsIn(file, root).map((one) => ({ ...one, floor })));
  const concepts = [
    { name: "tables", count: objectKeys(...declaredAs("storageTables")).length },
    { name: "run options", count: objectKeys(fileThatDeclares("runOptionTable"), "runOptionTable").length },
    { name: "members of Runtime", count: typeMembers(...declaredAs("Runtime")).size },
    { name: "HTTP operations", count: new Set(sources.flatMap(({ file }) => operationsIn(file))).size },
    { name: "concurrency primitives", count: primitives.length },
    { name: "entry points", count: entries.size },
    { name: "public names", count: publicNames.size },
  ];
  const missing = concepts.filter(({ count }) => count === 0).map(({ name }) => name);
  if (missing.length > 0) {
    throw new Error(`${root}: found no ${missing.join(", no ")}; adapt tools/counts/counts.ts to the code`);
  }
  return {
    concepts,
    primitives: primitives.toSorted((left, right) => (left.name < right.name ? -1 : 1)),
    floors: floorsOf(sources),
    longestFunctions: functions.toSorted((left, right) => right.lines - left.lines).slice(0, listedFunctions),
    exceeding: functions.filter(exceeds),
  };

  /** The file and the name by which a public name is declared. */
  function declaredAs(name: string): readonly [file: string, name: string] {
    const declared = publicNames.get(name);
    if (declared === undefined) throw new Error(`${root}: no entry point exports ${name}`);
    return [declared.file, declared.name];
  }

  function fileThatDeclares(name: string): string {
    const files = sources.filter(({ file }) => variableOf(file, name) !== null).map(({ file }) => file);
    const [first] = files;
    if (first === undefined || files.length > 1) {
      throw new Error(`${root}: ${name} is declared in ${files.length} files, not in one`);
    }
    return first;
  }
}

/** The counts as a table. */
export function formatCounts({ concepts, primitives, floors, longestFunctions, exceeding }: Counts): string {
  const all = {
    name: "all",
    files: sum(floors.map(({ files }) => files)),
    lines: sum(floors.map(({ lines }) => lines)),
  };
  return [
    ...aligned(concepts.map(({ name, count }) => [name, number(count)])),
    "",
    "concurrency primitives",
    ...aligned(primitives.map(({ name, shares }) => [name, shares])),
    "",
    "lines of code, without comments, blank lines and tests",
    ...aligned([...floors, all].map(({ name, files, lines }) => [name, number(lines), `${number(files)} files`])),
    "",
    "longest functions, in the same lines",
    ...aligned(longestFunctions.map(({ name, place, lines }) => [name, number(lines), place])),
    ...(exceeding.length === 0
      ? []
      : [
          "",
          `functions over ${functionLimits.lines} lines, ${functionLimits.parameters} parameters, or their narrower limits`,
        ]),
    ...aligned(exceeding.map(({ name, place, lines, parameters }) => [name, number(lines), number(parameters), place])),
  ].join("\n");
}

/** Pads the cells of each column. Numbers are aligned at their end. */
function aligned(rows: readonly (readonly string[])[]): readonly string[] {
  const width = (column: number): number => Math.max(...rows.map((row) => row[column]?.length ?? 0));
  return rows.map((row) =>
    row
      .map((cell, column) => (/^\d/.test(cell) ? cell.padStart(width(column)) : cell.padEnd(width(column))))
      .join("  ")
      .replace(/^/, "  ")
      .trimEnd(),
  );
}

function number(value: number): string {
  return value.toLocaleString("en");
}

function sourcesOf(root: string): readonly Source[] {
  const library = filesBelow(join(root, "lib/src")).map((file) => {
    const [first = "", ...rest] = relative(join(root, "lib/src"), file).split("/");
    return { file, floor: rest.length === 0 ? "lib/src/*.ts" : `lib/src/${first}` };
  });
  // An application without a folder `src` is a launcher of a few lines.
  const applications = readdirSync(join(root, "apps"))
    .toSorted()
    .filter((app) => existsSync(join(root, "apps", app, "src")))
    .flatMap((app) => filesBelow(join(root, "apps", app, "src")).map((file) => ({ file, floor: `apps/${app}` })));
  const tools = filesBelow(join(root, "tools")).map((file) => ({ file, floor: "tools" }));
  return [...library, ...applications, ...tools];
}

function filesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { withFileTypes: true })
    .toSorted((left, right) => (left.name < right.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return entry.name === "node_modules" ? [] : filesBelow(path);
      return /\.[cm]?[jt]sx?$/.test(entry.name) && !/\.(?:test|types)\.tsx?$/.test(entry.name) ? [path] : [];
    });
}

function floorsOf(sources: readonly Source[]): readonly Floor[] {
  const floors = new Map<string, Floor>();
  for (const { file, floor: name } of sources) {
    const { files, lines } = floors.get(name) ?? { files: 0, lines: 0 };
    floors.set(name, { name, files: files + 1, lines: lines + linesOf(withoutComments(moduleOf(file))) });
  }
  return [...floors.values()];
}

/**
 * The text with spaces in the place of comments and of the braces around a comment in JSX. Positions and line breaks
 * stay.
 */
function withoutComments({ text, program, comments }: Module): string {
  const ranges: { readonly start: number; readonly end: number }[] = [...comments];
  new Visitor({
    JSXExpressionContainer(node) {
      if (node.expression.type === "JSXEmptyExpression") ranges.push(node);
    },
  }).visit(program);
  let code = "";
  let position = 0;
  for (const { start, end } of ranges.toSorted((left, right) => left.start - right.start)) {
    if (start < position) continue;
    code += text.slice(position, start) + text.slice(start, end).replaceAll(/[^\n]/g, " ");
    position = end;
  }
  return code + text.slice(position);
}

function linesOf(code: string): number {
  return code.split("\n").filter((line) => line.trim() !== "").length;
}

/**
 * The functions of a file. One without a name of its own has the name of the variable, property or method that it is
 * the value of.
 */
function functionsIn(file: string, root: string): readonly CountedFunction[] {
  const parsed = moduleOf(file);
  const code = withoutComments(parsed);
  const found: CountedFunction[] = [];
  const names = new Map<object, string>();
  const classes: string[] = [];
  const add = (
    node: { readonly start: number; readonly end: number; readonly params: readonly unknown[] },
    own: string | undefined,
  ): void => {
    const line = parsed.text.slice(0, node.start).split("\n").length;
    const name = own ?? names.get(node) ?? "(anonymous)";
    const lines = linesOf(code.slice(node.start, node.end));
    found.push({ name, place: `${relative(root, file)}:${line}`, lines, parameters: node.params.length });
  };
  const nameValue = (key: { readonly start: number; readonly end: number }, value: object | null): void => {
    if (value !== null) names.set(value, parsed.text.slice(key.start, key.end));
  };
  const enterClass = ({ id }: { readonly id: { readonly name: string } | null }): void => {
    classes.push(id?.name ?? "(anonymous)");
  };
  const leaveClass = (): void => void classes.pop();
  new Visitor({
    ClassDeclaration: enterClass,
    "ClassDeclaration:exit": leaveClass,
    ClassExpression: enterClass,
    "ClassExpression:exit": leaveClass,
    MethodDefinition({ key, value }) {
      names.set(value, `${classes.at(-1) ?? ""}.${parsed.text.slice(key.start, key.end)}`);
    },
    PropertyDefinition: ({ key, value }) => nameValue(key, value),
    Property: ({ key, value }) => nameValue(key, value),
    VariableDeclarator: ({ id, init }) => nameValue(id, init),
    FunctionDeclaration: (node) => add(node, node.id?.name),
    FunctionExpression: (node) => add(node, node.id?.name),
    ArrowFunctionExpression: (node) => add(node, undefined),
  }).visit(parsed.program);
  return found;
}

/**
 * The declarations of a file whose doc comment has the tag `@primitive`. Throws for a tag that is not before a
 * declaration or has no text.
 */
function primitivesIn(file: string): readonly Primitive[] {
  const { program, comments } = moduleOf(file);
  const tags = comments.filter(({ value }) => /^[\s*]*@primitive\b/m.test(value)).length;
  if (tags === 0) return [];
  const found = program.body.flatMap((statement) => {
    const declaration = declarationOf(statement);
    if (declaration?.type !== "ClassDeclaration" && declaration?.type !== "FunctionDeclaration") return [];
    const shares = /^@primitive (.+)$/m.exec(docBefore(file, statement.start) ?? "")?.[1];
    return shares === undefined ? [] : [{ name: declaration.id?.name ?? "(anonymous)", shares }];
  });
  if (found.length !== tags) {
    throw new Error(`${file}: write "@primitive <what it shares>" in the doc comment of a class or function`);
  }
  return found;
}

/**
 * The operations that a file declares: rows `name: get("/path", { summary, … })`, and object literals with `method`,
 * `path` and `operationId`.
 */
function operationsIn(file: string): readonly string[] {
  const ids: string[] = [];
  new Visitor({
    Property({ key, value }) {
      if (key.type !== "Identifier" || value.type !== "CallExpression") return;
      const [path, row] = value.arguments;
      const isPath = path?.type === "Literal" && typeof path.value === "string" && path.value.startsWith("/");
      if (isPath && row?.type === "ObjectExpression" && fieldsOf(row).has("summary")) ids.push(key.name);
    },
    ObjectExpression(node) {
      const fields = fieldsOf(node);
      const id = fields.get("operationId");
      if (id?.type !== "Literal" || typeof id.value !== "string" || !fields.has("method") || !fields.has("path"))
        return;
      ids.push(id.value);
    },
  }).visit(moduleOf(file).program);
  return ids;
}

function fieldsOf({ properties }: ObjectExpression): ReadonlyMap<string, Expression> {
  return new Map(
    properties.flatMap((property) =>
      property.type === "Property" && property.key.type === "Identifier" ? [[property.key.name, property.value]] : [],
    ),
  );
}

/** The keys of a constant that is an object literal, with those of the constants of its module that it spreads. */
function objectKeys(file: string, name: string): readonly string[] {
  const value = variableOf(file, name);
  if (value?.type !== "ObjectExpression") throw new Error(`${file}: ${name} is not an object literal`);
  const spread = value.properties.flatMap((property) =>
    property.type === "SpreadElement" && property.argument.type === "Identifier" ? [property.argument.name] : [],
  );
  const fields = [...fieldsOf(value).keys()];
  if (fields.length + spread.length !== value.properties.length) {
    throw new Error(`${file}: ${name} has keys that are not identifiers`);
  }
  return [...new Set([...fields, ...spread.flatMap((other) => objectKeys(file, other))])];
}

/** The value of a variable of a module, without `as` and `satisfies`; `null`: the module has no such variable. */
function variableOf(file: string, name: string): Expression | null {
  for (const statement of moduleOf(file).program.body) {
    const declaration = declarationOf(statement);
    if (declaration?.type !== "VariableDeclaration") continue;
    const found = declaration.declarations.find(({ id }) => id.type === "Identifier" && id.name === name);
    let value = found?.init ?? null;
    while (value?.type === "TSAsExpression" || value?.type === "TSSatisfiesExpression") value = value.expression;
    if (value !== null) return value;
  }
  return null;
}

/** The names of the members of an object type, an interface or an intersection of them. Overloads count once. */
function typeMembers(file: string, name: string): ReadonlySet<string> {
  for (const statement of moduleOf(file).program.body) {
    const declaration = declarationOf(statement);
    if (declaration?.type === "TSTypeAliasDeclaration" && declaration.id.name === name) {
      return membersOf(file, declaration.typeAnnotation);
    }
    if (declaration?.type === "TSInterfaceDeclaration" && declaration.id.name === name) {
      const inherited = declaration.extends.flatMap(({ expression }) =>
        expression.type === "Identifier" ? [...typeMembers(file, expression.name)] : [],
      );
      return new Set([...inherited, ...memberNames(file, declaration.body.body)]);
    }
    if (statement.type === "ImportDeclaration") {
      const imported = statement.specifiers.find(({ local }) => local.name === name);
      if (imported?.type !== "ImportSpecifier") continue;
      const target = targetOf(file, statement.source.value);
      const declared = exportedNames(target).get(exportedName(imported.imported));
      if (declared !== undefined) return typeMembers(declared.file, declared.name);
    }
  }
  throw new Error(`${file}: the type ${name} is not found`);
}

function membersOf(file: string, type: TSType): ReadonlySet<string> {
  if (type.type === "TSTypeLiteral") return memberNames(file, type.members);
  if (type.type === "TSParenthesizedType") return membersOf(file, type.typeAnnotation);
  if (type.type === "TSIntersectionType") return new Set(type.types.flatMap((part) => [...membersOf(file, part)]));
  if (type.type === "TSTypeReference" && type.typeName.type === "Identifier" && type.typeArguments === null) {
    return typeMembers(file, type.typeName.name);
  }
  throw new Error(`${file}: the members of a ${type.type} are not understood`);
}

function memberNames(file: string, members: readonly TSSignature[]): ReadonlySet<string> {
  return new Set(
    members.map((member) => {
      if ("key" in member) return moduleOf(file).text.slice(member.key.start, member.key.end);
      throw new Error(`${file}: a member of type ${member.type} is not understood`);
    }),
  );
}

/** The declaration that a statement is or exports. */
function declarationOf(statement: Statement): Statement | null {
  return statement.type === "ExportNamedDeclaration" ? statement.declaration : statement;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
