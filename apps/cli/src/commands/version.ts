// The version of the package `everturn`, from its package.json. The package finds itself by name, from the sources and
// from the bundle.

import { createRequire } from "node:module";

export function packageVersion(): string {
  const { version }: { readonly version: string } = createRequire(import.meta.url)("everturn/package.json");
  return version;
}
