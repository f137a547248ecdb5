// Source maps of the published code. They contain our own sources, which are not published as files, so that stack traces and debuggers show TypeScript.

/** The fields of a source map that are used here (ECMA-426). */
export type SourceMap = {
  readonly sources: readonly string[];
  readonly sourcesContent: readonly (string | null)[];
  readonly mappings: string;
  readonly [field: string]: unknown;
};

/** The text of a map without the content of bundled packages: users can read it in the packages themselves. */
export function withOwnSources(map: SourceMap): string {
  const { sources, sourcesContent } = map;
  return JSON.stringify({
    ...map,
    sourcesContent: sourcesContent.map((text, index) =>
      sources[index]?.includes("node_modules/") === true ? null : text,
    ),
  });
}
