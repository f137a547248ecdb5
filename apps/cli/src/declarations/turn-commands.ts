// Declares the commands that run turns: chat, run, serve, work, demo.

import type { RunRequest } from "../commands/run.ts";
import type { Declaration } from "./declare.ts";

import { Option } from "commander";

import { exitCodeHelp } from "../commands/exit-codes.ts";
import { collect, flag, positiveNumber, value, wholeNumber } from "./declare.ts";

const engineHelp = "an engine of the configuration file; default: default (EVERTURN_ENGINE)";
const policies = "(steer, queue, interrupt or reject; EVERTURN_WHEN_BUSY)";
const limitHelp =
  "a limit of turns over all processes, for example tenant.concurrency=20 or engine:default.rate=600/1m; may be repeated (EVERTURN_LIMITS)";

const chat: Declaration = {
  name: "chat",
  summary: "chat with the model in the terminal",
  description:
    "Chat with the model in the terminal. Ctrl-C cancels the turn, a second Ctrl-C exits. The session is stored.",
  examples: [
    "everturn chat",
    "everturn chat --continue",
    "everturn chat --when-busy queue",
    "everturn chat --model ollama:llama3.3",
  ],
  declare: (command) =>
    command
      .option("-s, --session <id>", "continue this session; the beginning of its id is enough")
      .option("--continue", "continue the session that changed last")
      .option("--tenant <name>", "the tenant of the session; default: the one without a name")
      .option("-e, --engine <name>", engineHelp)
      .option(
        "--when-busy <policy>",
        `what happens to a line that is sent while a turn runs; default: steer ${policies}`,
      ),
  run: async (context, command) => {
    const { chat } = await import("../commands/chat.ts");
    const newest = flag(command, "continue");
    return chat(context, { session: value(command, "session"), newest });
  },
};

const run: Declaration = {
  name: "run",
  summary: "run one turn; the answer goes to standard output",
  description:
    "Run one turn. The answer is streamed to standard output; everything else goes to standard error. Piped input is appended to the prompt after an empty line, or is the prompt if none is given.",
  examples: [
    'everturn run "Say hello"',
    'cat notes.txt | everturn run "Summarise:"',
    'everturn run "Invent a person" --schema person.json',
    'everturn run --session trip "And tomorrow?"',
    "everturn run --session trip --approve",
    'everturn run --session trip --deny "too expensive"',
  ],
  help: exitCodeHelp,
  declare: (command) =>
    command
      .argument("[prompt...]", "the user message")
      .option("-s, --session <id>", "continue this session, or create it with this id")
      .option("--tenant <name>", "the tenant of the session; default: the one without a name")
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
      .option(
        "--approve [digest]",
        "approve the tool call that was printed with this digest; may be repeated. Without a digest: show the calls that wait, and ask at the terminal",
        collectDigests,
      )
      .addOption(
        new Option("--deny [reason]", "deny all calls that wait; the model sees the reason").conflicts("approve"),
      )
      .option("-q, --quiet", "print only errors to standard error")
      .option("--no-stdin", "do not read standard input"),
  run: async (context, command) => {
    const { run } = await import("../commands/run.ts");
    const form = flag(command, "events") ? "events" : flag(command, "json") ? "json" : "text";
    const approve = approvalOf(command.getOptionValue("approve"));
    const denied = command.getOptionValue("deny") !== undefined;
    const deny = { type: "deny", reason: value(command, "deny") } as const;
    return run(context, {
      words: command.args,
      form,
      session: value(command, "session"),
      schema: value(command, "schema"),
      repair: Number(command.getOptionValue("repair")),
      quiet: flag(command, "quiet"),
      readsStdin: flag(command, "stdin"),
      decision: approve ?? (denied ? deny : null),
    });
  },
};

/** Collects the digests of `--approve`. Without a digest the value is `true`. */
function collectDigests(digest: string, previous: unknown): readonly string[] {
  return [...(Array.isArray(previous) ? previous.map(String) : []), digest];
}

function approvalOf(option: unknown): Extract<RunRequest["decision"], { readonly type: "approve" }> | null {
  if (option === undefined) return null;
  return { type: "approve", digests: Array.isArray(option) ? option.map(String) : [] };
}

const serve: Declaration = {
  name: "serve",
  summary: "serve the studio and the HTTP API: sessions, turns, events",
  description:
    "Serve sessions over HTTP, and drive queued and abandoned turns. Listens on loopback only, unless a token is set. Without one, a token is created in the configuration folder of the user, and a link is printed that logs in to the studio once.",
  examples: [
    "everturn serve",
    "everturn serve --port 0 --open",
    "EVERTURN_TOKEN=… everturn serve --host 0.0.0.0",
    "everturn serve --drive restate --restate-admin http://127.0.0.1:9070",
  ],
  declare: (command) =>
    command
      .option("--host <address>", "the address to listen on; default: 127.0.0.1 (EVERTURN_HOST)")
      .option("-p, --port <port>", "the port; 0: any free port; default: 4242 (EVERTURN_PORT)")
      .option(
        "--token <[tenant:]token>",
        "a bearer token for clients; may be repeated. Other users of this machine can see flags: EVERTURN_TOKEN is safer",
        collect,
      )
      .option(
        "--no-token",
        "requests need no token: every user and program of this machine can read all sessions and approve calls (EVERTURN_TOKEN=off)",
      )
      .option("--open", "open the studio in the browser, if this is a terminal with a display; --no-open: do not")
      .addOption(new Option("--no-open").hideHelp())
      .option(
        "--trusted-proxy <address>",
        "a proxy whose X-Forwarded-For names the client: an address, a network such as 10.0.0.0/8, or loopback; may be repeated (EVERTURN_TRUSTED_PROXIES)",
        collect,
      )
      .option("--cors <origin>", "an origin of web pages that may call; may be repeated (EVERTURN_CORS)", collect)
      .option("--when-busy <policy>", `what happens to a message that arrives while a turn is open ${policies}`)
      .option("--limit <limit>", limitHelp, collect)
      .option("--static <folder>", "serve the files of this folder, for example a chat page (EVERTURN_STATIC)")
      .option("--no-studio", "do not serve the studio at /studio/; default: it is served (EVERTURN_STUDIO=off)")
      .option("--search <on|off>", "index messages for GET /search; default: on (EVERTURN_SEARCH)")
      .option("--completions <on|off>", "serve OpenAI's chat completions at /v1; default: off (EVERTURN_COMPLETIONS)")
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
      ),
  run: async (context, command) => {
    const { serve } = await import("../commands/serve.ts");
    return serve(context, { open: flag(command, "open") });
  },
};

const studio: Declaration = {
  name: "studio",
  summary: "print a link that logs in to the studio of the local server",
  description:
    "Print a link that logs in to the studio of a server that runs on this machine. The link works once, within ten minutes. The server has to have been started without a token of its own, by the same user.",
  examples: ["everturn studio", "everturn studio --port 8080 --open"],
  declare: (command) =>
    command
      .option("--host <address>", "the address of the server; default: 127.0.0.1 (EVERTURN_HOST)")
      .option("-p, --port <port>", "the port of the server; default: 4242 (EVERTURN_PORT)")
      .option("--open", "open the link in the browser"),
  run: async (context, command) => {
    const { studio } = await import("../commands/studio.ts");
    return studio(context, { open: flag(command, "open") });
  },
};

const work: Declaration = {
  name: "work",
  summary: "drive queued and abandoned turns, without HTTP",
  description:
    "Drive queued turns and turns whose process has died, until SIGINT or SIGTERM; then hand the running turns over. Several workers may share a database.",
  examples: ["everturn work", "everturn work --database postgres://app@db.example/app --concurrency 64"],
  declare: (command) =>
    command
      .option("--concurrency <n>", "how many turns to drive at once", positiveNumber, 16)
      .option("--limit <limit>", limitHelp, collect),
  run: async (context, command) => {
    const { work } = await import("../commands/work.ts");
    const concurrency = Number(command.getOptionValue("concurrency"));
    return work(context, { concurrency });
  },
};

const demo: Declaration = {
  name: "demo",
  summary: "kill a process during a turn and watch it recover; no API key needed",
  description:
    "A scripted conversation with tools, a question and an approval. The worker process is killed in the middle of a reply, and another process completes the turn. Takes about ten seconds.",
  examples: ["everturn demo", "everturn demo --model anthropic:claude-sonnet-5-5", "everturn demo --database demo.db"],
  run: async (context) => {
    const { demo } = await import("../commands/demo.ts");
    return demo(context);
  },
};

export const turnCommands: readonly Declaration[] = [chat, run, serve, studio, work, demo];
