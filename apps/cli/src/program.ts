// The command line: the program with its global options and its commands, declared with commander. The commands are
// declared in `declarations/`, by subject; their code is imported when the command runs, so that `--help` is fast.
// Completion scripts are generated from the same declarations (commands/completion.ts).
//
// Conventions
//   - Commander never ends the process (`exitOverride`): its errors are thrown, and `runCli` converts them to exit
//     codes.
//   - Each command imports its implementation when it runs, and its exit code is reported to `done`.

import type { Io } from "./commands/io.ts";
import type { Done } from "./declarations/declare.ts";

import { Command } from "commander";

import { exitCodeHelp } from "./commands/exit-codes.ts";
import { packageVersion } from "./commands/version.ts";
import { databaseCommands, sessionCommands } from "./declarations/database-commands.ts";
import { addCommand, collect } from "./declarations/declare.ts";
import { projectCommands } from "./declarations/project-commands.ts";
import { turnCommands } from "./declarations/turn-commands.ts";

/** Builds the program. `done` receives the exit code of the command that ran. */
export function createProgram(io: Io, done: Done): Command {
  const program = new Command("everturn")
    .description("Durable LLM turns: a turn survives crashes and deploys, and continues in another process.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .option("-m, --model <provider:model>", "the model; offline:demo needs no API key (EVERTURN_MODEL)")
    .option("-d, --database <file|url>", "the SQLite file or the Postgres URL that stores sessions (EVERTURN_DATABASE)")
    .option("-t, --tools <file>", "a module that exports tools; may be repeated (EVERTURN_TOOLS)", collect)
    .option("-i, --instructions <text>", "the system prompt; @FILE reads it from a file (EVERTURN_INSTRUCTIONS)")
    .option("--max-turns <n>", "the largest number of model calls in one turn (EVERTURN_MAX_TURNS)")
    .option(
      "-c, --config <file>",
      "the configuration file; default: everturn.config.{ts,mjs,js,json} in this folder, once it is trusted (EVERTURN_CONFIG)",
    )
    .option("--no-config", "ignore the configuration file of this folder")
    .option("--no-color", "disable colours (also NO_COLOR; FORCE_COLOR enables them)")
    .option("--verbose", "print the causes of an error")
    .addHelpText("after", `\n${rootExamples}\n${exitCodeHelp}`)
    .showHelpAfterError("(see everturn --help)")
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      getOutHelpWidth: () => (Number.isFinite(io.stdout.columns) ? io.stdout.columns : 100),
      getErrHelpWidth: () => (Number.isFinite(io.stderr.columns) ? io.stderr.columns : 100),
      getOutHasColors: () => io.stdout.isTerminal,
      getErrHasColors: () => io.stderr.isTerminal,
    })
    .exitOverride();
  for (const declaration of [...turnCommands, ...sessionCommands, ...projectCommands, ...databaseCommands]) {
    addCommand(program, declaration, io, done);
  }
  return program;
}

const rootExamples = `Examples:
  everturn demo                                kill a process, watch it recover
  everturn chat                                chat in the terminal
  everturn run "What time is it? Use clock."   run one turn
  git diff | everturn run "Review this"        run one turn with piped input
  everturn serve                               serve the studio and the HTTP API
  everturn init my-app                         create a project
  everturn doctor                              check the settings

Settings: flags override environment variables, which override the
configuration file. Without an API key, a scripted offline model answers.`;
