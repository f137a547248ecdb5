// Source maps of the published code. Those of the library and the command contain our own sources, which are not
// published as files, so that stack traces and debuggers show TypeScript.
//
// The package has at most 12 MB, and complete maps do not fit (docs/decisions/0053). A map has no sources of bundled
// packages and no segments that lead to them: users see the published code there. It has no columns of the sources: a
// segment that continues a line of the sources is left out. The map of minified code, the page of the studio, has
// names, files and lines of its sources, and not their text: a stack trace of the page can be read, and an application
// that serves the page does not debug it. There the library is a bundled package, whose sources are in the maps of the
// library.

import type { SourceMapSegment } from "@jridgewell/sourcemap-codec";

import { relative, resolve, sep } from "node:path";

import { decode, encode } from "@jridgewell/sourcemap-codec";

import { library, root } from "./entry-files.ts";

/** The fields of a source map that are used here (ECMA-426). */
type SourceMap = {
  readonly file?: string;
  readonly names: readonly string[];
  readonly sources: readonly string[];
  readonly sourcesContent: readonly (string | null)[];
  readonly mappings: string;
};

/**
 * The text of a map as it is published. `isMinified`: the names of the code are not those of the sources.
 */
export function publishedMap(map: SourceMap, isMinified: boolean): string {
  const isBundled = (source: string): boolean =>
    source.includes("node_modules/") || (isMinified && source.startsWith("../src/"));
  const kept = map.sources.flatMap((source, index) => (isBundled(source) ? [] : [index]));
  const numbers = new Map(kept.map((index, number) => [index, number]));
  const names = new Map<number, number>();
  const nameNumber = (index: number): number => {
    const number = names.get(index) ?? names.size;
    names.set(index, number);
    return number;
  };
  const published = (segment: SourceMapSegment): SourceMapSegment => {
    const source = segment.length === 1 ? undefined : numbers.get(segment[1]);
    if (segment.length === 1 || source === undefined) return [segment[0]];
    const [column, , line, sourceColumn] = segment;
    return segment.length === 5 && isMinified
      ? [column, source, line, sourceColumn, nameNumber(segment[4])]
      : [column, source, line, sourceColumn];
  };
  const lines = decode(map.mappings).map((line) => {
    const segments: SourceMapSegment[] = [];
    for (const segment of line.map(published)) if (isNeeded(segment, segments.at(-1))) segments.push(segment);
    return segments;
  });
  return JSON.stringify({
    version: 3,
    file: map.file,
    names: [...names.keys()].map((index) => map.names[index]),
    sources: kept.map((index) => map.sources[index]),
    ...(isMinified ? {} : { sourcesContent: kept.map((index) => map.sourcesContent[index] ?? null) }),
    mappings: encode(lines),
  });
}

/**
 * Whether a segment changes what the one before it in the line says. A segment of length 1 ends the range of the one
 * before it: code without a source. One of length 5 has a name.
 */
function isNeeded(segment: SourceMapSegment, previous: SourceMapSegment | undefined): boolean {
  if (segment.length === 1) return previous !== undefined && previous.length !== 1;
  if (previous === undefined || previous.length === 1 || segment.length === 5) return true;
  return segment[1] !== previous[1] || segment[2] !== previous[2];
}

/**
 * The address of a source in a map, relative to the folder of the map. Sources of the library are in `src` of the
 * package, others (the command, the studio, bundled packages) where they are in the repository. They are not published
 * as files: a map contains them.
 */
export function publishedSource(source: string, map: string): string {
  const path = resolve(map, "..", source);
  const base = path.startsWith(library + sep) ? library : root;
  return `../${relative(base, path).replaceAll(sep, "/")}`;
}
