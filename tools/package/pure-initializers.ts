// Marks the initial values of module constants as free of side effects, so that bundlers of users drop the constants that a program does not use.
//
// package.json says `sideEffects: false`, which lets a bundler drop a file of which nothing is used. A published file contains many modules: there a bundler
// decides by statement, and it keeps every constant whose initial value contains a call, a spread or a property read, because each of them could run code.
// In this library they build tables and parsers from other constants.
//
//   const shape = object({ a: string })            →  const shape = /* @__PURE__ */ object({ a: string })
//   const shape = object({ ...shared, a: string }) →  const shape = /* @__PURE__ */ initial(() => object({ ...shared, a: string }))
//   class A extends errorClass(b) {}               →  class A extends /* @__PURE__ */ errorClass(b) {}
//
// `initial` calls its argument. A function expression that is called in place would do the same, but minifiers replace it by its content. Statements that
// are run for their effect are left alone. No line is added or removed.

import type { Plugin } from "rolldown";

import { parseSync } from "oxc-parser";

type Node = { readonly type: string; readonly start: number; readonly end: number };

type Insertion = { readonly at: number; readonly text: string };

const annotation = "/* @__PURE__ */ ";
const helper = "everturn:initial";
const name = "initial_";
const call = `${annotation}${name}(() => (`;

/** The plugin for the TypeScript modules in `folder`. */
export function pureInitializers(folder: string): Plugin {
  return {
    name: "pure-initializers",
    resolveId: (id) => (id === helper ? helper : null),
    load: (id) => (id === helper ? "export function initial(value) { return value(); }" : null),
    transform: {
      filter: { id: { include: [`${folder}**/*.ts`] } },
      handler: (code, id) => ({ code: withPureInitializers(code, id), map: null }),
    },
  };
}

/** The source text of a module with annotations. */
export function withPureInitializers(code: string, path: string): string {
  const { program, errors } = parseSync(path, code);
  if (errors.length > 0) throw new Error(`${path} cannot be parsed: ${errors[0]?.message}`);
  const insertions = program.body.flatMap((statement) => insertionsIn(statement));
  let result = code;
  for (const { at, text } of insertions.toSorted((a, b) => b.at - a.at))
    result = result.slice(0, at) + text + result.slice(at);
  return result.includes(call) ? `${result}\nimport { initial as ${name} } from "${helper}";` : result;
}

function insertionsIn(statement: Node): readonly Insertion[] {
  if (statement.type === "ExportNamedDeclaration" && "declaration" in statement && isNode(statement.declaration)) {
    return insertionsIn(statement.declaration);
  }
  if (
    statement.type === "VariableDeclaration" &&
    "declarations" in statement &&
    Array.isArray(statement.declarations)
  ) {
    return statement.declarations.flatMap(({ init }: { readonly init: unknown }) => (isNode(init) ? around(init) : []));
  }
  if (statement.type === "ClassDeclaration" && "superClass" in statement && isNode(statement.superClass)) {
    return annotated(statement.superClass) ?? [];
  }
  return [];
}

/** The insertions that make an initial value pure: at each of its calls, or, if that does not suffice, around it. */
function around(value: Node): readonly Insertion[] {
  const inner = annotated(value);
  if (inner !== null) return inner;
  if (contains(value, "AwaitExpression")) return [];
  return [
    { at: value.start, text: call },
    { at: value.end, text: "))" },
  ];
}

/** The insertions at the calls of an expression that is pure otherwise; `null` if it is not. */
function annotated(value: unknown): readonly Insertion[] | null {
  if (value === null) return [];
  if (!isNode(value)) return null;
  switch (value.type) {
    case "Literal":
    case "Identifier":
    case "ArrowFunctionExpression":
    case "FunctionExpression":
      return [];
    case "TSAsExpression":
    case "TSSatisfiesExpression":
    case "ParenthesizedExpression":
    case "UnaryExpression":
      return "argument" in value
        ? annotated(value.argument)
        : "expression" in value
          ? annotated(value.expression)
          : null;
    case "ArrayExpression":
      return "elements" in value && Array.isArray(value.elements) ? all(value.elements) : null;
    case "ObjectExpression":
      return "properties" in value && Array.isArray(value.properties) ? all(value.properties) : null;
    case "Property":
      return "value" in value && "computed" in value && value.computed === false ? annotated(value.value) : null;
    case "NewExpression":
    case "CallExpression": {
      const callee: unknown = "callee" in value ? value.callee : null;
      const given: unknown = "arguments" in value ? value.arguments : null;
      const inner = isNode(callee) && callee.type === "Identifier" && Array.isArray(given) ? all(given) : null;
      return inner === null ? null : [{ at: value.start, text: annotation }, ...inner];
    }
    default:
      return null;
  }
}

function all(values: readonly unknown[]): readonly Insertion[] | null {
  const insertions = values.map(annotated);
  return insertions.includes(null) ? null : insertions.flatMap((list) => list ?? []);
}

function contains(node: Node, type: string): boolean {
  if (node.type === type) return true;
  return Object.values(node)
    .flatMap((value: unknown) => (Array.isArray(value) ? value : [value]))
    .some((value: unknown) => isNode(value) && contains(value, type));
}

function isNode(value: unknown): value is Node {
  return (
    typeof value === "object" && value !== null && "type" in value && typeof value.type === "string" && "start" in value
  );
}
