// The command line as commander knows it: what there is to say, and which code answers. Each command's code is imported when it is used, so that
// `--help` is quick. Completion scripts are made from this same description.

import type { CommandContext } from "./commands/context.ts";
import type { Io } from "./commands/io.ts";
import type { GivenFlags } from "@everturn/server";

import { Argument, Command, InvalidArgumentError, Option } from "commander";

import { createContext } from "./commands/context.ts";
import { exitCodeHelp } from "./commands/exit-codes.ts";
import { packageVersion } from "./commands/version.ts";

/** The program. `done` gets the exit code of the command that ran. */
export function createProgram(io: Io, done: (code: number) => void): Command {
  const program = new Command("everturn")
    .description("LLM turns that survive anything.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .option("-m, --model <provider:model>", "the model; offline:demo needs no key (EVERTURN_MODEL)")
    .option("-d, --database <file>", "the SQLite file sessions are kept in (EVERTURN_DATABASE)")
    .option("-t, --tools <file>", "a module that exports tools; may be repeated (EVERTURN_TOOLS)", collect)
    .option("-i, --instructions <text>", "what the model is told first; @FILE reads a file (EVERTURN_INSTRUCTIONS)")
    .option("--max-turns <n>", "model calls a turn may take (EVERTURN_MAX_TURNS)")
    .option("-c, --config <file>", "the configuration file; everturn.config.{json,js,mjs,ts} is found by itself")
    .option("--no-color", "no colours (NO_COLOR; FORCE_COLOR for the opposite)")
    .option("--verbose", "when something fails, also say what lay behind it")
    .addHelpText("after", `\n${rootExamples}\n${exitCodeHelp}`)
    .showHelpAfterError("(everturn --help says more)")
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
  addChat(program, io, done);
  addRun(program, io, done);
  addServe(program, io, done);
  addDemo(program, io, done);
  addSessions(program, io, done);
  addShow(program, io, done);
  addReplay(program, io, done);
  addDoctor(program, io, done);
  addCompletion(program, io, done);
  return program;
}

const rootExamples = `Examples:
  everturn demo                                a turn that is killed and goes on; no key needed
  everturn chat                                talk; goes on where you were with --session ID
  everturn run "What time is it? Use clock."   one turn; the answer on standard output
  git diff | everturn run "Review this"        the same, with something piped in
  everturn serve                               HTTP on this machine
  everturn doctor                              what is set, and what is broken

Settings: flags over environment over configuration file. Without a key in the environment the offline model answers.`;

type Done = (code: number) => void;

function addChat(program: Command, io: Io, done: Done): void {
  program
    .command("chat")
    .summary("talk with the model at the terminal")
    .description(
      "Talk with the model at the terminal. Ctrl-C cancels the turn, a second one leaves; the session stays.",
    )
    .option("-s, --session <id>", "the session to go on with")
    .option("--continue", "go on with the session that changed last")
    .addHelpText(
      "after",
      examples(["everturn chat", "everturn chat --continue", "everturn chat --model ollama:llama3.3"]),
    )
    .action(async (_, command: Command) => {
      const { chat } = await import("./commands/chat.ts");
      const newest = flag(command, "continue");
      done(await chat(contextOf(command, io), { session: value(command, "session"), newest }));
    });
}

function addRun(program: Command, io: Io, done: Done): void {
  program
    .command("run")
    .summary("one turn; the answer on standard output")
    .description(
      "One turn. The answer goes to standard output as it comes, everything else to standard error. What is piped in stands behind the prompt, after an empty line, or is the prompt.",
    )
    .argument("[prompt...]", "what to say")
    .option("-s, --session <id>", "the session to go on with, or to begin under that name")
    .option("--schema <file>", "a JSON Schema: the answer is checked and printed as JSON")
    .option("--repair <n>", "how often the model may try again when its answer does not fit", wholeNumber, 1)
    .option("--json", "print what the turn came to as one JSON object")
    .addOption(
      new Option("--events", 'print every event as a line of JSON, and the end as {"end": …}').conflicts("json"),
    )
    .option("--approve", "consent to the calls the session waits with")
    .addOption(new Option("--deny [reason]", "refuse them").conflicts("approve"))
    .option("-q, --quiet", "nothing on standard error but failures")
    .option("--no-stdin", "do not read standard input")
    .addHelpText(
      "after",
      examples([
        'everturn run "Say hello"',
        'cat notes.txt | everturn run "Summarise:"',
        'everturn run "Invent a person" --schema person.json',
        'everturn run --session trip "And tomorrow?"',
        "everturn run --session trip --approve",
      ]) + exitCodeHelp,
    )
    .action(async (words: readonly string[], _, command: Command) => {
      const { run } = await import("./commands/run.ts");
      const form = flag(command, "events") ? "events" : flag(command, "json") ? "json" : "text";
      const denied = command.getOptionValue("deny") !== undefined;
      const deny = { type: "deny", reason: value(command, "deny") } as const;
      done(
        await run(contextOf(command, io), {
          words,
          form,
          session: value(command, "session"),
          schema: value(command, "schema"),
          repair: Number(command.getOptionValue("repair")),
          quiet: flag(command, "quiet"),
          readsStdin: flag(command, "stdin"),
          decision: flag(command, "approve") ? { type: "approve" } : denied ? deny : null,
        }),
      );
    });
}

function addServe(program: Command, io: Io, done: Done): void {
  program
    .command("serve")
    .summary("HTTP: sessions, turns, events")
    .description("Serve sessions over HTTP. On this machine only, unless a token is set.")
    .option("--host <address>", "where to listen; 127.0.0.1 unless said otherwise (EVERTURN_HOST)")
    .option("-p, --port <port>", "on which port; 0: any that is free (EVERTURN_PORT)")
    .option(
      "--token <[tenant:]token>",
      "what clients have to show; may be repeated. Others on this machine see flags: EVERTURN_TOKEN is safer",
      collect,
    )
    .option("--cors <origin>", "a web page that may call; may be repeated (EVERTURN_CORS)", collect)
    .addHelpText(
      "after",
      examples(["everturn serve", "everturn serve --port 0", "EVERTURN_TOKEN=… everturn serve --host 0.0.0.0"]),
    )
    .action(async (_, command: Command) => {
      const { serve } = await import("./commands/serve.ts");
      done(await serve(contextOf(command, io)));
    });
}

function addDemo(program: Command, io: Io, done: Done): void {
  program
    .command("demo")
    .summary("a turn that is killed and goes on; no key needed")
    .description(
      "A scripted turn with tools, an approval, a question, a killed process and its recovery. Takes a few seconds.",
    )
    .addHelpText(
      "after",
      examples([
        "everturn demo",
        "everturn demo --model anthropic:claude-sonnet-5-5",
        "everturn demo --database demo.db",
      ]),
    )
    .action(async (_, command: Command) => {
      const { demo } = await import("./commands/demo.ts");
      done(await demo(contextOf(command, io)));
    });
}

function addSessions(program: Command, io: Io, done: Done): void {
  const sessions = program
    .command("sessions")
    .summary("the sessions in the database")
    .description("The sessions in the database, those that changed last first.")
    .addHelpText(
      "after",
      examples([
        "everturn sessions",
        "everturn sessions --limit 5 --json",
        "everturn sessions delete session-1a2b3c",
        "everturn sessions fork session-1a2b3c --at 4",
      ]),
    );
  sessions
    .command("list", { isDefault: true })
    .description("List sessions.")
    .option("-n, --limit <n>", "how many", wholeNumber, 20)
    .option("--after <cursor>", "from where the page before ended")
    .option("--json", "print them as one JSON object")
    .action(async (_, command: Command) => {
      const { listSessions } = await import("./commands/sessions.ts");
      const limit = Number(command.getOptionValue("limit"));
      const asked = { limit, after: value(command, "after"), json: flag(command, "json") };
      done(await listSessions(contextOf(command, io), asked));
    });
  sessions
    .command("delete")
    .description("Delete sessions, with everything that was said in them.")
    .argument("<id...>", "which")
    .action(async (ids: readonly string[], _, command: Command) => {
      const { deleteSessions } = await import("./commands/sessions.ts");
      done(await deleteSessions(contextOf(command, io), ids));
    });
  sessions
    .command("fork")
    .description("Begin a session that starts like another one, and print its id.")
    .argument("<id>", "which")
    .option("--id <id>", "what to call it")
    .option("--at <n>", "with the first so many messages", wholeNumber)
    .action(async (id: string, _, command: Command) => {
      const { forkSession } = await import("./commands/sessions.ts");
      const at: unknown = command.getOptionValue("at");
      const asked = { id, as: value(command, "id"), at: typeof at === "number" ? at : null };
      done(await forkSession(contextOf(command, io), asked));
    });
}

function addShow(program: Command, io: Io, done: Done): void {
  program
    .command("show")
    .summary("a turn as a timeline: steps, calls, tools, tokens")
    .description(
      "A turn as a timeline: model calls with their tokens, tools side by side, retries, waits, cost. The newest, unless one is named.",
    )
    .argument("<session>", "the session's id")
    .option("--turn <id>", "which turn")
    .addOption(new Option("--all", "every turn of the session").conflicts("turn"))
    .option("--json", "print session, turns and cost as one JSON object")
    .option("--export <file>", "write the turn's record to a file, for replay; - is standard output")
    .addHelpText(
      "after",
      examples([
        "everturn show session-1a2b3c",
        "everturn show session-1a2b3c --all",
        "everturn show session-1a2b3c --export turn.json",
      ]),
    )
    .action(async (id: string, _, command: Command) => {
      const { show } = await import("./commands/show.ts");
      done(
        await show(contextOf(command, io), {
          id,
          turn: value(command, "turn"),
          all: flag(command, "all"),
          json: flag(command, "json"),
          exportTo: value(command, "export"),
        }),
      );
    });
}

function addReplay(program: Command, io: Io, done: Done): void {
  program
    .command("replay")
    .summary("run a recorded turn again, offline")
    .description(
      "Run a recorded turn again: no model is called, no tool is run. Exits with 1 where it goes another way than its record.",
    )
    .argument("<file-or-session>", "a record that show --export wrote, - for standard input, or a session's id")
    .option("--turn <id>", "which turn of the session; the newest unless said otherwise")
    .option("--engine", "compare with the model, instructions and tools as they are set now")
    .option("--json", "print what it came to as one JSON object")
    .addHelpText(
      "after",
      examples([
        "everturn replay turn.json",
        "everturn replay session-1a2b3c --engine",
        "cat turn.json | everturn replay -",
      ]),
    )
    .action(async (source: string, _, command: Command) => {
      const { replay } = await import("./commands/replay.ts");
      done(
        await replay(contextOf(command, io), {
          source,
          turn: value(command, "turn"),
          engine: flag(command, "engine"),
          json: flag(command, "json"),
        }),
      );
    });
}

function addDoctor(program: Command, io: Io, done: Done): void {
  program
    .command("doctor")
    .summary("what is set, and what is broken")
    .description(
      "What is set and by whom, which keys are found (names only), and whether database, tools and model can be used.",
    )
    .option("--json", "print it as one JSON object")
    .addHelpText("after", examples(["everturn doctor", "everturn doctor --tools ./tools.mjs"]))
    .action(async (_, command: Command) => {
      const { doctor } = await import("./commands/doctor.ts");
      done(await doctor(contextOf(command, io), { json: flag(command, "json") }));
    });
}

function addCompletion(program: Command, io: Io, done: Done): void {
  program
    .command("completion")
    .summary("a completion script for your shell")
    .description("Print a completion script.")
    .addArgument(new Argument("<shell>", "which shell").choices(["bash", "zsh", "fish"]))
    .addHelpText(
      "after",
      examples([
        'eval "$(everturn completion bash)"            # in ~/.bashrc',
        'eval "$(everturn completion zsh)"             # in ~/.zshrc, behind compinit',
        "everturn completion fish > ~/.config/fish/completions/everturn.fish",
      ]),
    )
    .action(async (shell: string) => {
      const { completion } = await import("./commands/completion.ts");
      io.stdout.write(completion(program, shell));
      done(0);
    });
}

function examples(lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  ${line}`).join("\n")}\n`;
}

function collect(one: string, before: readonly string[] = []): readonly string[] {
  return [...before, one];
}

function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It has to be a whole number.");
}

/** The text of an option; `null` when it was not given. */
function value(command: Command, name: string): string | null {
  const found: unknown = command.getOptionValue(name);
  return typeof found === "string" ? found : null;
}

function flag(command: Command, name: string): boolean {
  return command.getOptionValue(name) === true;
}

/** What the flags that belong to settings say. */
function contextOf(command: Command, io: Io): CommandContext {
  const all: { readonly [name: string]: unknown } = command.optsWithGlobals();
  const one = (name: string) => (typeof all[name] === "string" ? all[name] : undefined);
  const many = (name: string) => (Array.isArray(all[name]) ? all[name].map(String) : undefined);
  const said = {
    model: one("model"),
    database: one("database"),
    instructions: one("instructions"),
    maxTurns: one("maxTurns"),
    host: one("host"),
    port: one("port"),
    tools: many("tools"),
    tokens: many("token"),
    cors: many("cors"),
  };
  const flags: GivenFlags = Object.fromEntries(Object.entries(said).filter(([, given]) => given !== undefined));
  return createContext(io, { flags, config: one("config") ?? null, color: all["color"] !== false });
}
