// Reads API keys from a `.env` file, for adapters with the option `dotenv`.

import { parseDotenv } from "../engine/internal.ts";

/**
 * Returns a function that reads the variables of a `.env` file (`true`: the one in the working directory). A missing or
 * unreadable file has no variables. It needs `process.getBuiltinModule` (Node); a platform without it has no variables.
 */
export function readDotenv(path: true | string): () => Promise<{ readonly [name: string]: string }> {
  return async () => {
    try {
      // Not `import("node:fs/promises")`: bundlers for browsers and workers fail to resolve it, even if it is never
      // called.
      const { readFile } = process.getBuiltinModule("node:fs/promises");
      return parseDotenv(await readFile(path === true ? ".env" : path, "utf8"));
    } catch {
      return {};
    }
  };
}
