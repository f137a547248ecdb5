// The entry point of the command `everturn`. It sets `process.exitCode` and lets Node end when all output is written;
// `process.exit` would truncate output to a pipe.

import { Console } from "node:console";

import { runCli } from "./cli.ts";
import { exitCodes } from "./commands/exit-codes.ts";
import { processIo } from "./commands/io.ts";

// Standard output is reserved for the answer. `console` output of the user's tools goes to standard error.
globalThis.console = new Console(process.stderr);

// Node's exit code for an unsettled top-level await: the event loop is empty, and Node prints nothing.
const unsettledTopLevelAwait = 13;
process.once("exit", () => {
  if (process.exitCode !== unsettledTopLevelAwait) return;
  process.stderr.write(
    "everturn: a tools module or the configuration module waits for a promise that never settles (top-level await)\n",
  );
  process.exitCode = exitCodes.usage;
});

process.exitCode = await runCli(process.argv.slice(2), processIo());
