// `npm run size`: the bytes of the small programs of budgets.ts by source file, from the sources.
// `npm run size -- turn` shows one of them.
//
// The first column is the minified size of what is left of the file, the second how much the compressed program shrinks
// without it.

import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { minify } from "rolldown/utils";

import { bundle, programs } from "./budgets.ts";
import { root } from "./entry-files.ts";

for (const name of selected()) {
  const { first } = await bundle(programs[name], join(root, "lib"), false, {
    conditions: ["source"],
    minify: false,
  });
  const files = await Promise.all(
    first.flatMap(({ modules }) =>
      Object.entries(modules).map(async ([path, { code }]) => {
        const short = await minify(path, code ?? "", { module: false, mangle: { toplevel: false }, compress: false });
        return { path: path.replace(`${root}/`, ""), code: short.code };
      }),
    ),
  );
  const whole = compressed(files);
  const rows = files
    .map((file) => ({ ...file, saved: whole - compressed(files.filter((other) => other !== file)) }))
    .toSorted((left, right) => right.saved - left.saved);
  console.log(`${name}: ${files.length} files, about ${whole} bytes`);
  for (const { path, code, saved } of rows) {
    console.log(`${String(code.length).padStart(7)} ${String(saved).padStart(6)}  ${path}`);
  }
}

function compressed(files: readonly { readonly code: string }[]): number {
  return gzipSync(files.map(({ code }) => code).join("\n")).length;
}

function selected(): readonly (keyof typeof programs)[] {
  const names: readonly (keyof typeof programs)[] = ["hello", "machine", "turn", "kernel"];
  const given = process.argv.slice(2);
  return given.length === 0 ? names : names.filter((name) => given.includes(name));
}
