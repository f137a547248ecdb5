// The type-checking time of a user program: the same five tools, loop and typed answer with this library and with the
// AI SDK.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const wanted = ["Files", "Instantiations", "Check time", "Total time"];

export function benchTypes(): void {
  console.log("\ntype-checking a program with five tools, a loop and a typed answer");
  const work = mkdtempSync(join(root, "bench", ".types-"));
  try {
    for (const name of ["everturn", "ai-sdk"]) {
      const config = {
        compilerOptions: {
          strict: true,
          skipLibCheck: true,
          noEmit: true,
          target: "ES2023",
          module: "NodeNext",
          moduleResolution: "NodeNext",
          types: ["node"],
        },
        files: [join(root, "bench/types", `${name}.ts`)],
      };
      const path = join(work, `${name}.json`);
      writeFileSync(path, JSON.stringify(config));
      const tsc = join(root, "node_modules/typescript/bin/tsc");
      const output = execFileSync(process.execPath, [tsc, "-p", path, "--extendedDiagnostics"], { encoding: "utf8" });
      const found = wanted.map((what) => `${what} ${new RegExp(`^${what}:\\s+(\\S+)`, "m").exec(output)?.[1] ?? "?"}`);
      console.log(`  ${name.padEnd(10)} ${found.join("   ")}`);
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
