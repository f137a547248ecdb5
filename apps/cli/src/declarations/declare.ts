// Declarations of commands, readers of their options, and the context in which a command runs.
//
// Flags that set a setting are text here. apps/server finds them by the names of the settings, and validates them with
// the values of other sources, so that an invalid value gets one message whichever source it comes from.

import type { CommandContext } from "../commands/context.ts";
import type { Io } from "../commands/io.ts";
import type { Command } from "commander";

import { InvalidArgumentError } from "commander";

import { createContext } from "../commands/context.ts";

/** Receives the exit code of the command that ran. */
export type Done = (code: number) => void;

/** A command: its help texts, its arguments and options, and what runs it. */
export type Declaration = {
  readonly name: string;
  /** One line for the list of commands. Default: the description. */
  readonly summary?: string;
  readonly description: string;
  readonly examples?: readonly string[];
  /** The end of the help text. Default: none. */
  readonly help?: string;
  /** Adds arguments and options. */
  readonly declare?: (command: Command) => Command;
  /** Runs the command and returns its exit code. Imports its implementation, so that `--help` is fast. */
  readonly run?: (context: CommandContext, command: Command) => Promise<number>;
  readonly commands?: readonly Declaration[];
  /** The command runs if the one around it is called without a command. Default: false. */
  readonly isDefault?: boolean;
};

/** Adds a command to the program, or to the command around it. */
export function addCommand(parent: Command, declaration: Declaration, io: Io, done: Done): void {
  const { name, summary = "", description, examples = [], help = "", declare, run, commands = [] } = declaration;
  const command = parent.command(name, { isDefault: declaration.isDefault ?? false });
  command.summary(summary).description(description);
  declare?.(command);
  if (examples.length > 0) {
    command.addHelpText("after", `\nExamples:\n${examples.map((line) => `  ${line}`).join("\n")}\n${help}`);
  }
  for (const subcommand of commands) addCommand(command, subcommand, io, done);
  if (run !== undefined) command.action(async () => done(await run(commandContext(command, io), command)));
}

/**
 * Collects the values of an option that may be repeated. `false`: its negation (`--no-…`) came before, and the later
 * one counts.
 */
export function collect(item: string, previous: readonly string[] | false = []): readonly string[] {
  return previous === false ? [item] : [...previous, item];
}

/** A whole number of 0 or more. */
export function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("A whole number is needed.");
}

/** A whole number of 1 or more. */
export function positiveNumber(text: string): number {
  if (wholeNumber(text) > 0) return Number(text);
  throw new InvalidArgumentError("A whole number of 1 or more is needed.");
}

/** The text of an option; `null`: not given. */
export function value(command: Command, name: string): string | null {
  const optionValue: unknown = command.getOptionValue(name);
  return typeof optionValue === "string" ? optionValue : null;
}

/** Whether an option without a value is given. */
export function flag(command: Command, name: string): boolean {
  return command.getOptionValue(name) === true;
}

/** Builds the context of a command from the flags that set settings. */
function commandContext(command: Command, io: Io): CommandContext {
  const options: { readonly [name: string]: unknown } = command.optsWithGlobals();
  const { config } = options;
  const configFile = config === false ? false : typeof config === "string" ? config : null;
  return createContext(io, { options, config: configFile, color: options["color"] !== false });
}
