// Runs one command line and returns the exit code. An error is printed as one line without a stack trace; `--verbose`
// adds the chain of causes.

import type { Io } from "./commands/io.ts";

import { CommanderError } from "commander";
import { isEverturnError, MisuseError } from "everturn";

import { UsageError } from "./commands/context.ts";
import { exitCodes } from "./commands/exit-codes.ts";
import { createProgram } from "./program.ts";
import { safeText } from "./terminal/safe-text.ts";
import { colours, wantsColours } from "./terminal/style.ts";

/** Runs a command line (without `node` and the script path). Never rejects. */
export async function runCli(argv: readonly string[], io: Io): Promise<number> {
  let code: number = exitCodes.ok;
  const program = createProgram(io, (commandCode) => (code = commandCode));
  if (argv.length === 0) {
    program.outputHelp();
    return exitCodes.ok;
  }
  try {
    await program.parseAsync(argv, { from: "user" });
    return code;
  } catch (error) {
    // Commander has already printed its error, or the requested help.
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
    report(error, io, argv.includes("--verbose"), !argv.includes("--no-color"));
    return isUsage(error) ? exitCodes.usage : exitCodes.failed;
  }
}

/** Returns whether the user can correct the error on the command line or in the configuration. */
function isUsage(error: unknown): boolean {
  if (error instanceof UsageError || error instanceof MisuseError) return true;
  if (isEverturnError(error)) return error.reason === "not_found";
  return error instanceof Error && error.name === "SettingsError";
}

function report(error: unknown, io: Io, isVerbose: boolean, allowsColour: boolean): void {
  const { red, dim } = colours(allowsColour && wantsColours(io.environment, io.stderr.isTerminal));
  io.stderr.write(`${red(`everturn: ${errorMessage(error)}`)}\n`);
  if (!isVerbose) return;
  const seen = new Set<unknown>([error]);
  for (let cause = causeOf(error); cause !== undefined && !seen.has(cause); cause = causeOf(cause)) {
    seen.add(cause);
    io.stderr.write(`${dim(`  caused by: ${errorMessage(cause)}`)}\n`);
  }
}

function errorMessage(error: unknown): string {
  return safeText(error instanceof Error ? error.message : String(error));
}

function causeOf(error: unknown): unknown {
  return error instanceof Error ? error.cause : undefined;
}
