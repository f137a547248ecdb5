// Declares the commands about a project and its settings: init, trust, doctor, completion.

import type { Declaration } from "./declare.ts";

import { Argument, Option } from "commander";

import { exitCodes } from "../commands/exit-codes.ts";
import { templates } from "../commands/templates.ts";
import { flag, value } from "./declare.ts";

const init: Declaration = {
  name: "init",
  summary: "create a project: an agent with a tool, a test, a server and a page",
  description:
    "Create a small project in a folder: an agent with one tool that needs an approval, a test with a scripted model, a configuration file, and a chat page. Existing files are not overwritten.",
  examples: ["everturn init my-app", "everturn init my-app --template react", "npm create everturn my-app"],
  declare: (command) =>
    command
      .argument("[folder]", "the folder of the project; default: this folder", ".")
      .addOption(
        new Option(
          "--template <name>",
          "what serves the page: the command (app: plain JavaScript; react: React with Vite and the AI SDK), or a program of your own with the page in React (hono, next)",
        )
          .choices(templates)
          .default("app"),
      )
      .option("--everturn <version>", "the version or file of everturn that package.json names; default: this version"),
  run: async (context, command) => {
    const [folder = "."] = command.args;
    const { init } = await import("../commands/init.ts");
    const template = templates.find((name) => name === value(command, "template")) ?? "app";
    return init(context, { folder, template, everturn: value(command, "everturn") });
  },
};

const trust: Declaration = {
  name: "trust",
  summary: "trust the configuration file of this folder",
  description:
    "Trust everturn.config.* of this folder, and the local files that it names, as they are now. Until then no command reads or runs it. After a change, trust it again. A file named by --config needs no trust.",
  examples: ["everturn trust", "everturn trust --remove"],
  declare: (command) => command.option("--remove", "trust this folder no more"),
  run: async (context, command) => {
    const { trust } = await import("../commands/trust.ts");
    return trust(context, { remove: flag(command, "remove") });
  },
};

const doctor: Declaration = {
  name: "doctor",
  summary: "check the settings and report problems",
  description:
    "List all settings with their sources and the API keys that are set (names only), and check database, tools and model. No model is called.",
  examples: ["everturn doctor", "everturn doctor --tools ./tools.mjs"],
  declare: (command) => command.option("--json", "print the report as one JSON object"),
  run: async (context, command) => {
    const { doctor } = await import("../commands/doctor.ts");
    return doctor(context, { json: flag(command, "json") });
  },
};

const completion: Declaration = {
  name: "completion",
  summary: "print a completion script for your shell",
  description: "Print a completion script for bash, zsh or fish.",
  examples: [
    'eval "$(everturn completion bash)"            # in ~/.bashrc',
    'eval "$(everturn completion zsh)"             # in ~/.zshrc, after compinit',
    "everturn completion fish > ~/.config/fish/completions/everturn.fish",
  ],
  declare: (command) => command.addArgument(new Argument("<shell>", "the shell").choices(["bash", "zsh", "fish"])),
  run: async (context, command) => {
    const [shell = ""] = command.args;
    const { completion } = await import("../commands/completion.ts");
    context.io.stdout.write(completion(command.parent ?? command, shell));
    return exitCodes.ok;
  },
};

export const projectCommands: readonly Declaration[] = [init, trust, doctor, completion];
