// The command line: commands, arguments, options and help texts, declared with commander. The code of a command is imported when the command runs, so
// that `--help` is fast. Completion scripts are generated from the same declarations (commands/completion.ts).
//
// Conventions
//   - Flags that set a setting are text here. `contextOf` passes them on, and apps/server validates them with the values of other sources, so that an
//     invalid value gets one message whichever source it comes from.
//   - Commander never ends the process (`exitOverride`): its errors are thrown, and `runCli` converts them to exit codes.
//   - Each command imports its implementation in its action, and reports its exit code to `done`.

import type { CommandContext } from "./commands/context.ts";
import type { Io } from "./commands/io.ts";
import type { GivenFlags } from "@everturn/server";

import { Argument, Command, InvalidArgumentError, Option } from "commander";

import { createContext, UsageError } from "./commands/context.ts";
import { exitCodeHelp } from "./commands/exit-codes.ts";
import { packageVersion } from "./commands/version.ts";

/** Builds the program. `done` receives the exit code of the command that ran. */
export function createProgram(io: Io, done: (code: number) => void): Command {
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
  addChat(program, io, done);
  addRun(program, io, done);
  addServe(program, io, done);
  addWork(program, io, done);
  addDemo(program, io, done);
  addSessions(program, io, done);
  addShow(program, io, done);
  addReplay(program, io, done);
  addInit(program, io, done);
  addTrust(program, io, done);
  addDoctor(program, io, done);
  addStats(program, io, done);
  addMigrate(program, io, done);
  addCopy(program, io, done);
  addCompletion(program, io, done);
  return program;
}

const rootExamples = `Examples:
  everturn demo                                kill a process, watch it recover
  everturn chat                                chat in the terminal
  everturn run "What time is it? Use clock."   run one turn
  git diff | everturn run "Review this"        run one turn with piped input
  everturn serve                               serve the HTTP API
  everturn init my-app                         create a project
  everturn doctor                              check the settings

Settings: flags override environment variables, which override the
configuration file. Without an API key, a scripted offline model answers.`;

type Done = (code: number) => void;

const engineHelp = "an engine of the configuration file; default: default (EVERTURN_ENGINE)";
const policies = "(steer, queue, interrupt or reject; EVERTURN_WHEN_BUSY)";

function addChat(program: Command, io: Io, done: Done): void {
  program
    .command("chat")
    .summary("chat with the model in the terminal")
    .description(
      "Chat with the model in the terminal. Ctrl-C cancels the turn, a second Ctrl-C exits. The session is stored.",
    )
    .option("-s, --session <id>", "continue this session; the beginning of its id is enough")
    .option("--continue", "continue the session that changed last")
    .option("-e, --engine <name>", engineHelp)
    .option("--when-busy <policy>", `what happens to a line that is sent while a turn runs; default: steer ${policies}`)
    .addHelpText(
      "after",
      examples([
        "everturn chat",
        "everturn chat --continue",
        "everturn chat --when-busy queue",
        "everturn chat --model ollama:llama3.3",
      ]),
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
    .summary("run one turn; the answer goes to standard output")
    .description(
      "Run one turn. The answer is streamed to standard output; everything else goes to standard error. Piped input is appended to the prompt after an empty line, or is the prompt if none is given.",
    )
    .argument("[prompt...]", "the user message")
    .option("-s, --session <id>", "continue this session, or create it with this id")
    .option("-e, --engine <name>", engineHelp)
    .option("--schema <file>", "a JSON Schema: the answer is validated and printed as JSON")
    .option(
      "--repair <n>",
      "how many times the model may correct an answer that does not match the schema",
      wholeNumber,
      1,
    )
    .option("--json", "print the result of the turn as one JSON object")
    .addOption(
      new Option("--events", 'print every event as a line of JSON, and the result as {"end": …}').conflicts("json"),
    )
    .option("--approve", "approve the tool calls that the session waits for")
    .addOption(new Option("--deny [reason]", "deny them; the model sees the reason").conflicts("approve"))
    .option("-q, --quiet", "print only errors to standard error")
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

const limitHelp =
  "a limit of turns over all processes, for example tenant.concurrency=20 or engine:default.rate=600/1m; may be repeated (EVERTURN_LIMITS)";

function addServe(program: Command, io: Io, done: Done): void {
  program
    .command("serve")
    .summary("serve the HTTP API: sessions, turns, events")
    .description(
      "Serve sessions over HTTP, and drive queued and abandoned turns. Listens on loopback only, unless a token is set.",
    )
    .option("--host <address>", "the address to listen on; default: 127.0.0.1 (EVERTURN_HOST)")
    .option("-p, --port <port>", "the port; 0: any free port; default: 4242 (EVERTURN_PORT)")
    .option(
      "--token <[tenant:]token>",
      "a bearer token for clients; may be repeated. Other users of this machine can see flags: EVERTURN_TOKEN is safer",
      collect,
    )
    .option("--cors <origin>", "an origin of web pages that may call; may be repeated (EVERTURN_CORS)", collect)
    .option("--when-busy <policy>", `what happens to a message that arrives while a turn is open ${policies}`)
    .option("--limit <limit>", limitHelp, collect)
    .option("--static <folder>", "serve the files of this folder, for example a chat page (EVERTURN_STATIC)")
    .option("--completions <on|off>", "serve OpenAI's chat completions at /v1; default: on (EVERTURN_COMPLETIONS)")
    .option("--request-log <on|off>", "write a line for each request; default: on (EVERTURN_REQUEST_LOG)")
    .option("--drive <here|restate>", "who drives turns: this process, or Restate; default: here (EVERTURN_DRIVE)")
    .option("--restate-ingress <url>", "Restate's ingress; default: http://127.0.0.1:8080 (EVERTURN_RESTATE_INGRESS)")
    .option(
      "--restate-listen <[host:]port>",
      "where Restate calls this process; default: 127.0.0.1:9080 (EVERTURN_RESTATE_LISTEN)",
    )
    .option("--restate-admin <url>", "register this process at Restate's admin API (EVERTURN_RESTATE_ADMIN)")
    .option("--restate-uri <url>", "the URL to register; default: that of this process (EVERTURN_RESTATE_URI)")
    .option(
      "--restate-key <key>",
      "a public key of Restate, which signs its requests; may be repeated (EVERTURN_RESTATE_KEYS)",
      collect,
    )
    .addHelpText(
      "after",
      examples([
        "everturn serve",
        "everturn serve --port 0",
        "EVERTURN_TOKEN=… everturn serve --host 0.0.0.0",
        "everturn serve --drive restate --restate-admin http://127.0.0.1:9070",
      ]),
    )
    .action(async (_, command: Command) => {
      const { serve } = await import("./commands/serve.ts");
      done(await serve(contextOf(command, io)));
    });
}

function addWork(program: Command, io: Io, done: Done): void {
  program
    .command("work")
    .summary("drive queued and abandoned turns, without HTTP")
    .description(
      "Drive queued turns and turns whose process has died, until SIGINT or SIGTERM; then hand the running turns over. Several workers may share a database.",
    )
    .option("--concurrency <n>", "how many turns to drive at once", wholeNumber, 16)
    .option("--limit <limit>", limitHelp, collect)
    .addHelpText(
      "after",
      examples(["everturn work", "everturn work --database postgres://app@db.example/app --concurrency 64"]),
    )
    .action(async (_, command: Command) => {
      const { work } = await import("./commands/work.ts");
      const concurrency = Number(command.getOptionValue("concurrency"));
      done(await work(contextOf(command, io), { concurrency }));
    });
}

function addStats(program: Command, io: Io, done: Done): void {
  program
    .command("stats")
    .summary("count open, waiting and parked turns; sizes of the tables")
    .description(
      "Count open, due, parked and waiting turns of all tenants, and print the sizes of the tables. Reads at most 10,000 rows of an index and the 1,000 sessions that changed last; a number that reached its limit is a lower bound.",
    )
    .option("--json", "print the result as one JSON object")
    .addHelpText(
      "after",
      examples(["everturn stats", "everturn stats --json --database postgres://app@db.example/app"]),
    )
    .action(async (_, command: Command) => {
      const { stats } = await import("./commands/stats.ts");
      done(await stats(contextOf(command, io), { json: flag(command, "json") }));
    });
}

function addMigrate(program: Command, io: Io, done: Done): void {
  program
    .command("migrate")
    .summary("create or migrate the tables of the database")
    .description(
      "Create or migrate the tables of the database, and print their version. Other commands do so when they open the database; use this one if they may not create tables.",
    )
    .option("--json", "print the result as one JSON object")
    .addHelpText("after", examples(["everturn migrate --database postgres://owner@db.example/app"]))
    .action(async (_, command: Command) => {
      const { migrate } = await import("./commands/migrate.ts");
      done(await migrate(contextOf(command, io), { json: flag(command, "json") }));
    });
}

function addCopy(program: Command, io: Io, done: Done): void {
  program
    .command("copy")
    .summary("copy all sessions of a database into another one")
    .description(
      "Copy all rows of a database into another one, and compare both by digest. A copy that was interrupted is resumed. Stop everything that writes to either of them first.",
    )
    .argument("<from>", "a SQLite file or a Postgres URL")
    .argument("<to>", "a SQLite file or a Postgres URL")
    .option("--json", "print the result as one JSON object")
    .addHelpText("after", examples(["everturn copy sessions.db postgres://app@db.example/app"]))
    .action(async (from: string, to: string, _, command: Command) => {
      const { copy } = await import("./commands/copy.ts");
      done(await copy(contextOf(command, io), { from, to, json: flag(command, "json") }));
    });
}

function addDemo(program: Command, io: Io, done: Done): void {
  program
    .command("demo")
    .summary("kill a process during a turn and watch it recover; no API key needed")
    .description(
      "A scripted conversation with tools, a question and an approval. The worker process is killed in the middle of a reply, and another process completes the turn. Takes about ten seconds.",
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
    .summary("list, delete and fork sessions")
    .description("List, delete and fork the sessions in the database.")
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
    .description("List sessions, those that changed last first.")
    .option("-n, --limit <n>", "the largest number of sessions", wholeNumber, 20)
    .option("--after <cursor>", "continue after this cursor, printed by the previous page")
    .option("--json", "print the page as one JSON object")
    .action(async (_, command: Command) => {
      const { listSessions } = await import("./commands/sessions.ts");
      const limit = Number(command.getOptionValue("limit"));
      const request = { limit, after: value(command, "after"), json: flag(command, "json") };
      done(await listSessions(contextOf(command, io), request));
    });
  sessions
    .command("delete")
    .description("Delete sessions with all their messages and turns.")
    .argument("<id...>", "ids of sessions")
    .action(async (ids: readonly string[], _, command: Command) => {
      const { deleteSessions } = await import("./commands/sessions.ts");
      done(await deleteSessions(contextOf(command, io), ids));
    });
  sessions
    .command("fork")
    .description("Copy a session, or its first messages, into a new session, and print the new id.")
    .argument("<id>", "the id of the session to copy")
    .option("--id <id>", "the id of the new session; default: a random id")
    .option("--at <n>", "copy only the first n messages", wholeNumber)
    .action(async (id: string, _, command: Command) => {
      const { forkSession } = await import("./commands/sessions.ts");
      const at: unknown = command.getOptionValue("at");
      const request = { id, as: value(command, "id"), at: typeof at === "number" ? at : null };
      done(await forkSession(contextOf(command, io), request));
    });
}

function addShow(program: Command, io: Io, done: Done): void {
  program
    .command("show")
    .summary("show a turn as a timeline: model calls, tools, tokens")
    .description(
      "Show a turn as a timeline: model calls with their tokens, parallel tool calls, retries, waits and cost. Default: the newest turn.",
    )
    .argument("<session>", "the id of the session, or its beginning")
    .option("--turn <id>", "show this turn; the beginning of its id is enough")
    .addOption(new Option("--all", "show every turn of the session").conflicts("turn"))
    .option("--json", "print session, turns and usage as one JSON object")
    .option("--export <file>", "write the record of the turn to a file, for everturn replay; - is standard output")
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
    .summary("replay a recorded turn, or all open turns, without a model or tools")
    .description(
      "Replay a recorded turn: no model is called and no tool is run. Exits with 1 if the replay differs from the record. With --open: replay every open turn of the database against the current engines, before a deploy; nothing is written. Exits with 1 if a turn could not be continued.",
    )
    .argument(
      "[file-or-session]",
      "a file written by show --export, - for standard input, or the id of a session or its beginning",
    )
    .option("--turn <id>", "the turn of the session; default: the newest")
    .option("--engine", "replay with the current model, instructions and tools, and list what has changed")
    .addOption(
      new Option("--open", "replay all open turns of the database against the current engines").conflicts([
        "turn",
        "engine",
      ]),
    )
    .option("--json", "print the result as one JSON object")
    .addHelpText(
      "after",
      examples([
        "everturn replay turn.json",
        "everturn replay session-1a2b3c --engine",
        "everturn replay --open --config everturn.config.ts",
        "cat turn.json | everturn replay -",
      ]),
    )
    .action(async (source: string | undefined, _, command: Command) => {
      if (flag(command, "open")) {
        if (source !== undefined) throw new UsageError("--open replays all open turns; omit the file or session");
        const { replayOpen } = await import("./commands/replay-open.ts");
        return done(await replayOpen(contextOf(command, io), { json: flag(command, "json") }));
      }
      if (source === undefined) throw new UsageError("name a file or a session, or use --open");
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

function addInit(program: Command, io: Io, done: Done): void {
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
      const { init } = await import("./commands/init.ts");
      done(await init(contextOf(command, io), { folder, everturn: value(command, "everturn") }));
    });
}

function addTrust(program: Command, io: Io, done: Done): void {
  program
    .command("trust")
    .summary("trust the configuration file of this folder")
    .description(
      "Trust everturn.config.* of this folder, and the local files that it names, as they are now. Until then no command reads or runs it. After a change, trust it again. A file named by --config needs no trust.",
    )
    .option("--remove", "trust this folder no more")
    .addHelpText("after", examples(["everturn trust", "everturn trust --remove"]))
    .action(async (_, command: Command) => {
      const { trust } = await import("./commands/trust.ts");
      done(await trust(contextOf(command, io), { remove: flag(command, "remove") }));
    });
}

function addDoctor(program: Command, io: Io, done: Done): void {
  program
    .command("doctor")
    .summary("check the settings and report problems")
    .description(
      "List all settings with their sources and the API keys that are set (names only), and check database, tools and model. No model is called.",
    )
    .option("--json", "print the report as one JSON object")
    .addHelpText("after", examples(["everturn doctor", "everturn doctor --tools ./tools.mjs"]))
    .action(async (_, command: Command) => {
      const { doctor } = await import("./commands/doctor.ts");
      done(await doctor(contextOf(command, io), { json: flag(command, "json") }));
    });
}

function addCompletion(program: Command, io: Io, done: Done): void {
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
      const { completion } = await import("./commands/completion.ts");
      io.stdout.write(completion(program, shell));
      done(0);
    });
}

function examples(lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  ${line}`).join("\n")}\n`;
}

/** Collects the values of an option that may be repeated. */
function collect(item: string, previous: readonly string[] = []): readonly string[] {
  return [...previous, item];
}

function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("A whole number is needed.");
}

/** The text of an option; `null`: not given. */
function value(command: Command, name: string): string | null {
  const optionValue: unknown = command.getOptionValue(name);
  return typeof optionValue === "string" ? optionValue : null;
}

function flag(command: Command, name: string): boolean {
  return command.getOptionValue(name) === true;
}

/** Builds the context of a command from the flags that set settings. */
function contextOf(command: Command, io: Io): CommandContext {
  const options: { readonly [name: string]: unknown } = command.optsWithGlobals();
  const text = (name: string) => (typeof options[name] === "string" ? options[name] : undefined);
  const list = (name: string) => (Array.isArray(options[name]) ? options[name].map(String) : undefined);
  const settingFlags = {
    model: text("model"),
    database: text("database"),
    instructions: text("instructions"),
    maxTurns: text("maxTurns"),
    whenBusy: text("whenBusy"),
    limits: list("limit"),
    host: text("host"),
    port: text("port"),
    tools: list("tools"),
    tokens: list("token"),
    cors: list("cors"),
    completions: text("completions"),
    requestLog: text("requestLog"),
    drive: text("drive"),
    restateIngress: text("restateIngress"),
    restateListen: text("restateListen"),
    restateAdmin: text("restateAdmin"),
    restateUri: text("restateUri"),
    restateKeys: list("restateKey"),
    engine: text("engine"),
    static: text("static"),
  };
  const flags: GivenFlags = Object.fromEntries(
    Object.entries(settingFlags).filter(([, flagValue]) => flagValue !== undefined),
  );
  const config = options["config"] === false ? false : (text("config") ?? null);
  return createContext(io, { flags, config, color: options["color"] !== false });
}
