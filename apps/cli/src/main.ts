// The command. It ends by itself when all has been written: nothing here calls `process.exit`.

import { Console } from "node:console";

import { runCli } from "./cli.ts";
import { exitCodes } from "./commands/exit-codes.ts";
import { processIo } from "./commands/io.ts";

// Standard output is for the answer: what the user's tools print while they run goes where everything else goes.
globalThis.console = new Console(process.stderr);

// Node ends with this code, and without a word, where something is awaited that nothing can bring about any more.
const unsettled = 13;
process.once("exit", () => {
  if (process.exitCode !== unsettled) return;
  process.stderr.write(
    "everturn: a module of tools, or the configuration, never comes to an end: see what it awaits\n",
  );
  process.exitCode = exitCodes.usage;
});

process.exitCode = await runCli(process.argv.slice(2), processIo());
