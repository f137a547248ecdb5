// The version of the package, from its package.json. The relative path is valid from both `src/commands` and `dist/commands`.

import { createRequire } from "node:module";

export function packageVersion(): string {
  const { version }: { readonly version: string } = createRequire(import.meta.url)("../../package.json");
  return version;
}
