// Renders the reference pages: one Markdown page for each entry point, and an index.
//
// A name that several entry points export is documented once, on the page of the first of them in lib/package.json, so
// names of `everturn` itself are on its page. The other pages link to it. Types that a public declaration mentions but
// no entry point exports are listed at the end of the page of the declaration under "Supporting types", because a
// reader needs their fields too.

import type { Declaration, EntryPoint } from "./declarations.ts";

import { exportedNames, membersOf, referencedNames, resolveName, signatureOf, sourceOf } from "./declarations.ts";

/** What one page contains, for the report of the check. */
type Counts = {
  readonly names: number;
  readonly undocumented: readonly string[];
  readonly fields: number;
  readonly undocumentedFields: readonly string[];
};

export type Page = {
  readonly file: string;
  readonly entry: EntryPoint;
  readonly text: string;
  readonly counts: Counts;
};

/**
 * A documented declaration: the page it is on, the name of its heading, and the heading's anchor, which `setAnchors`
 * fills in.
 */
type Place = { readonly page: string; readonly heading: string; anchor: string };

const kinds = [
  ["function", "Functions"],
  ["class", "Classes"],
  ["constant", "Constants"],
  ["type", "Types"],
] as const;

type Name = { readonly name: string; readonly declarations: readonly Declaration[] };

type Outline = {
  readonly entry: EntryPoint;
  readonly own: readonly Name[];
  readonly supporting: readonly Declaration[];
};

export async function renderReference(
  entries: readonly EntryPoint[],
): Promise<{ readonly pages: readonly Page[]; readonly index: string }> {
  const places = placesOf(entries);
  const supporting = supportingTypes(entries, places);
  const outlines = entries.map((entry): Outline => {
    const own = entryNames(entry).filter(
      ({ declarations }) => declaredPlace(places, declarations).page === pageFile(entry),
    );
    return { entry, own, supporting: supporting.get(pageFile(entry)) ?? [] };
  });
  for (const outline of outlines) setAnchors(outline, places);
  const pages = await Promise.all(outlines.map((outline) => renderPage(outline, places)));
  return { pages, index: renderIndex(pages, places) };
}

/** The index: every entry point with its purpose and a line for each name. */
function renderIndex(pages: readonly Page[], places: ReadonlyMap<string, Place>): string {
  const lines = [
    "# API reference",
    "",
    "Every public name of the package, generated from the doc comments by `npm run docs:reference`. The [guides](../guide/README.md) explain how the",
    "names work together.",
    "",
    table(
      ["entry point", "what it is for", "names"],
      pages.map(({ entry, file, counts }) => [`[\`${entry.name}\`](${file})`, entry.purpose, String(counts.names)]),
    ),
  ];
  for (const { entry, file } of pages) {
    if (exportedNames(entry).length === 0) continue;
    lines.push("", `## [\`${entry.name}\`](${file})`, "", entry.purpose, "", nameTable(entry, places, ""));
  }
  return `${lines.join("\n")}\n`;
}

async function renderPage({ entry, own, supporting }: Outline, places: ReadonlyMap<string, Place>): Promise<Page> {
  const page = pageFile(entry);
  const names = entryNames(entry);
  const lines = [`# \`${entry.name}\``, "", entry.purpose];
  lines.push("", names.length === 0 ? "This entry point exports no names." : nameTable(entry, places, page));
  for (const [kind, title] of kinds) {
    const ofKind = own.filter(({ declarations }) => declarations[0]?.kind === kind);
    if (ofKind.length > 0) lines.push("", `## ${title}`);
    for (const { name, declarations } of ofKind)
      lines.push("", ...(await renderName(name, declarations, places, page)));
  }
  if (supporting.length > 0) {
    lines.push("", "## Supporting types", "");
    lines.push("The declarations above use these types. They are not exported by name.");
  }
  for (const declaration of supporting) {
    lines.push("", ...(await renderName(declaration.name, [declaration], places, page)));
  }
  return { file: page, entry, text: `${lines.join("\n")}\n`, counts: countsOf(names, own) };
}

/**
 * Gives every heading of a page its anchor as GitHub does: in lower case, and numbered from the second of the same text
 * on.
 */
function setAnchors({ own, supporting }: Outline, places: ReadonlyMap<string, Place>): void {
  const uses = new Map<string, number>();
  const anchorOf = (heading: string): string => {
    const slug = heading.toLowerCase().replaceAll(" ", "-");
    const count = uses.get(slug) ?? 0;
    uses.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  };
  for (const [kind, title] of kinds) {
    const ofKind = own.filter(({ declarations }) => declarations[0]?.kind === kind);
    if (ofKind.length > 0) anchorOf(title);
    for (const { name, declarations } of ofKind) declaredPlace(places, declarations).anchor = anchorOf(name);
  }
  if (supporting.length > 0) anchorOf("Supporting types");
  for (const declaration of supporting) declaredPlace(places, [declaration]).anchor = anchorOf(declaration.name);
}

function entryNames(entry: EntryPoint): readonly Name[] {
  return [...exportedNames(entry)].sort(byName).map((name) => ({ name, declarations: find(entry, name) }));
}

async function renderName(
  name: string,
  declarations: readonly Declaration[],
  places: ReadonlyMap<string, Place>,
  page: string,
): Promise<readonly string[]> {
  const doc = declarations.find((declaration) => declaration.doc !== null)?.doc ?? "";
  const [description = "", ...examples] = doc.split(/^@example$/m).map((part) => part.trim());
  const first = declarations[0];
  const lines = [`### ${name}`, ""];
  const link = (text: string) => withLinks(text, first, places, page);
  if (description !== "") lines.push(link(description), "");
  const signatures = await Promise.all(declarations.map(signatureOf));
  lines.push("```ts", ...signatures.map((text) => text.replace(first?.name ?? name, name)), "```");
  const fields = declarations.flatMap(membersOf).filter((member) => member.doc !== null);
  if (fields.length > 0) {
    const rows = fields.map(({ path, doc }) => [
      `\`${path.join(" › ").replaceAll("`", "")}\``,
      link(oneLine(doc ?? "")),
    ]);
    lines.push("", table(["field", "description"], rows));
  }
  for (const example of examples) lines.push("", "Example:", "", example);
  const related = relatedNames(declarations, places, page, name);
  if (related.length > 0) lines.push("", `See also: ${related.join(", ")}.`);
  if (first !== undefined) lines.push("", `Declared in [${sourceOf(first)}](../../${sourceOf(first)}).`);
  return lines;
}

function nameTable(entry: EntryPoint, places: ReadonlyMap<string, Place>, page: string): string {
  const rows = [...exportedNames(entry)].sort(byName).map((name) => {
    const declarations = find(entry, name);
    const place = declaredPlace(places, declarations);
    const doc = declarations.find((declaration) => declaration.doc !== null)?.doc ?? "";
    return [
      `[\`${name}\`](${address(place, page)})`,
      declarations[0]?.kind ?? "",
      withLinks(firstSentence(doc), declarations[0], places, page),
    ];
  });
  return table(["name", "kind", "description"], rows);
}

/** Where each declaration that an entry point exports is documented, by `sortKey`. */
function placesOf(entries: readonly EntryPoint[]): Map<string, Place> {
  const places = new Map<string, Place>();
  for (const entry of entries) {
    for (const name of exportedNames(entry)) {
      const key = sortKey(find(entry, name)[0]);
      if (!places.has(key)) places.set(key, { page: pageFile(entry), heading: name, anchor: "" });
    }
  }
  return places;
}

/** Finds types that documented declarations mention and no entry point exports, transitively, and adds their places. */
function supportingTypes(
  entries: readonly EntryPoint[],
  places: Map<string, Place>,
): ReadonlyMap<string, Declaration[]> {
  const byPage = new Map<string, Declaration[]>();
  for (const entry of entries) {
    const page = pageFile(entry);
    const queue = exportedNames(entry)
      .flatMap((name) => find(entry, name))
      .filter((declaration) => places.get(sortKey(declaration))?.page === page);
    const supporting: Declaration[] = [];
    for (let declaration = queue.shift(); declaration !== undefined; declaration = queue.shift()) {
      for (const name of referencedNames(declaration)) {
        const target = resolveName(declaration.file, name)?.[0];
        if (target === undefined || target.kind !== "type" || places.has(sortKey(target))) continue;
        places.set(sortKey(target), { page, heading: target.name, anchor: "" });
        supporting.push(target);
        queue.push(target);
      }
    }
    byPage.set(
      page,
      supporting.sort((a, b) => byName(a.name, b.name)),
    );
  }
  return byPage;
}

function relatedNames(
  declarations: readonly Declaration[],
  places: ReadonlyMap<string, Place>,
  page: string,
  self: string,
): readonly string[] {
  const links = new Map<string, string>();
  for (const declaration of declarations) {
    for (const name of referencedNames(declaration)) {
      const place = places.get(sortKey(resolveName(declaration.file, name)?.[0]));
      if (place !== undefined && place.heading !== self) {
        links.set(place.heading, `[\`${place.heading}\`](${address(place, page)})`);
      }
    }
  }
  return [...links].sort(([a], [b]) => byName(a, b)).map(([, text]) => text);
}

function countsOf(names: readonly Name[], own: readonly Name[]): Counts {
  const fields = own.flatMap(({ name, declarations }) =>
    declarations.flatMap(membersOf).map(({ path, doc }) => ({ path: [name, ...path].join(" › "), doc })),
  );
  return {
    names: names.length,
    undocumented: names
      .filter(({ declarations }) => declarations.every(({ doc }) => doc === null || doc.length < 20))
      .map(({ name }) => name),
    fields: fields.length,
    undocumentedFields: fields.filter(({ doc }) => doc === null).map(({ path }) => path),
  };
}

/** Replaces `{@link name}` by a Markdown link. */
function withLinks(
  text: string,
  from: Declaration | undefined,
  places: ReadonlyMap<string, Place>,
  page: string,
): string {
  return text.replaceAll(/\{@link (\w+)(?:[ |]([^}]+))?\}/g, (_, name: string, label: string | undefined) => {
    const place =
      places.get(sortKey(from === undefined ? undefined : resolveName(from.file, name)?.[0])) ??
      [...places.values()].find((p) => p.heading === name);
    const shown = `\`${label ?? name}\``;
    return place === undefined ? shown : `[${shown}](${address(place, page)})`;
  });
}

function find(entry: EntryPoint, name: string): readonly Declaration[] {
  const declarations = resolveName(entry.file, name);
  if (declarations === null) throw new Error(`${entry.name}: ${name} has no declaration`);
  return declarations;
}

function declaredPlace(places: ReadonlyMap<string, Place>, declarations: readonly Declaration[]): Place {
  const place = places.get(sortKey(declarations[0]));
  if (place === undefined) throw new Error(`${declarations[0]?.name ?? "a name"} has no page`);
  return place;
}

function sortKey(declaration: Declaration | undefined): string {
  return declaration === undefined ? "" : `${declaration.file.path} ${declaration.name}`;
}

function pageFile({ name }: EntryPoint): string {
  return `${name.replaceAll("/", "-")}.md`;
}

function address({ page, anchor }: Place, from: string): string {
  return `${page === from ? "" : page}#${anchor}`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const escaped = rows.map((row) => row.map((cell) => cell.replaceAll("|", "\\|")));
  return [head, head.map(() => "---"), ...escaped].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

function oneLine(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, " ");
}

function firstSentence(doc: string): string {
  const text = oneLine(doc.split(/^@example$/m)[0] ?? "").trim();
  return /^.*?[.:](?= |$)/.exec(text.replaceAll(/\be\.g\. /g, "e.g.\u00a0"))?.[0]?.replace(/:$/, ".") ?? text;
}

function byName(a: string, b: string): number {
  return a.toLowerCase() < b.toLowerCase() ? -1 : a.toLowerCase() > b.toLowerCase() ? 1 : a < b ? -1 : 1;
}
