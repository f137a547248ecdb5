// `everturn demo`: runs the demo with the process's streams. Only flags are used, no environment variables of settings
// and no configuration file that is not named, so that the demo is the same on every machine.

import type { CommandContext } from "./context.ts";

import { resolve } from "node:path";

export async function demo({ io, out, options, config }: CommandContext): Promise<number> {
  const { runDemo } = await import("../demo/index.ts");
  const { model, database } = options;
  return runDemo({
    model: typeof model === "string" ? model : null,
    config: typeof config === "string" ? resolve(io.folder, config) : null,
    database: typeof database === "string" ? resolve(io.folder, database) : null,
    interactive: process.stdin.isTTY && io.stdout.isTerminal,
    colour: out.enabled,
    input: process.stdin,
    out: process.stdout,
    errors: process.stderr,
    columns: () => (Number.isFinite(io.stdout.columns) ? io.stdout.columns : 80),
    environment: io.environment,
  });
}
