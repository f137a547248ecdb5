import { parseDotenv } from "../engine/internal.ts";

/** Reads a `.env` file when it is asked for a key; a file that is not there holds none. Only where there are files. */
export function readDotenv(path: true | string): () => Promise<{ readonly [name: string]: string }> {
  return async () => {
    try {
      // Asked for by name: an import, even a late one, would be something that bundlers for elsewhere cannot find.
      const { readFile } = process.getBuiltinModule("node:fs/promises");
      return parseDotenv(await readFile(path === true ? ".env" : path, "utf8"));
    } catch {
      return {};
    }
  };
}
