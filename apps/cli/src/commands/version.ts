// The version of the package, from its own file: one level up from both `src` and `dist`.

import { createRequire } from "node:module";

export function packageVersion(): string {
  const { version }: { readonly version: string } = createRequire(import.meta.url)("../../package.json");
  return version;
}
