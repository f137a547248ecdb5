// Declares the commands about a project and its settings: init, trust, doctor, completion.

import type { Io } from "../commands/io.ts";
import type { Done } from "./declare.ts";
import type { Command } from "commander";

import { Argument } from "commander";

import { commandContext, examples, flag, value } from "./declare.ts";

export function addInit(program: Command, io: Io, done: Done): void {
  program
    .command("init")
    .summary("create a project: an agent with a tool, a test, a server and a page")
    .description(
      "Create a small project in a folder: an agent with one tool that needs an approval, a test with a scripted model, a configuration file, and a chat page. Existing files are not overwritten.",
    )
    .argument("[folder]", "the folder of the project; default: this folder", ".")
    .option("--everturn <version>", "the version or file of everturn that package.json names; default: this version")
    .addHelpText("after", examples(["everturn init my-app", "npm create everturn my-app"]))
    .action(async (folder: string, _, command: Command) => {
      const { init } = await import("../commands/init.ts");
      done(await init(commandContext(command, io), { folder, everturn: value(command, "everturn") }));
    });
}

export function addTrust(program: Command, io: Io, done: Done): void {
  program
    .command("trust")
    .summary("trust the configuration file of this folder")
    .description(
      "Trust everturn.config.* of this folder, and the local files that it names, as they are now. Until then no command reads or runs it. After a change, trust it again. A file named by --config needs no trust.",
    )
    .option("--remove", "trust this folder no more")
    .addHelpText("after", examples(["everturn trust", "everturn trust --remove"]))
    .action(async (_, command: Command) => {
      const { trust } = await import("../commands/trust.ts");
      done(await trust(commandContext(command, io), { remove: flag(command, "remove") }));
    });
}

export function addDoctor(program: Command, io: Io, done: Done): void {
  program
    .command("doctor")
    .summary("check the settings and report problems")
    .description(
      "List all settings with their sources and the API keys that are set (names only), and check database, tools and model. No model is called.",
    )
    .option("--json", "print the report as one JSON object")
    .addHelpText("after", examples(["everturn doctor", "everturn doctor --tools ./tools.mjs"]))
    .action(async (_, command: Command) => {
      const { doctor } = await import("../commands/doctor.ts");
      done(await doctor(commandContext(command, io), { json: flag(command, "json") }));
    });
}

export function addCompletion(program: Command, io: Io, done: Done): void {
  program
    .command("completion")
    .summary("print a completion script for your shell")
    .description("Print a completion script for bash, zsh or fish.")
    .addArgument(new Argument("<shell>", "the shell").choices(["bash", "zsh", "fish"]))
    .addHelpText(
      "after",
      examples([
        'eval "$(everturn completion bash)"            # in ~/.bashrc',
        'eval "$(everturn completion zsh)"             # in ~/.zshrc, after compinit',
        "everturn completion fish > ~/.config/fish/completions/everturn.fish",
      ]),
    )
    .action(async (shell: string) => {
      const { completion } = await import("../commands/completion.ts");
      io.stdout.write(completion(program, shell));
      done(0);
    });
}
