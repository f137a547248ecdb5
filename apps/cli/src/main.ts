// The command. It ends by itself when all has been written: nothing here calls `process.exit`.

import { runCli } from "./cli.ts";
import { processIo } from "./commands/io.ts";

process.exitCode = await runCli(process.argv.slice(2), processIo());
