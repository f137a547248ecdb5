// Executes the slash commands of the chat. slash-commands.ts declares and parses them; this file acts on the
// conversation.
//
// A command prints its result and returns to the prompt. Commands that start a turn (`/continue`) pass its handle to
// `chat.follow`, and the loop of the conversation shows it. An error that a command throws is printed by the
// conversation and does not end the chat.

import type { Conversation } from "./conversation.ts";
import type { CommandName } from "./slash-commands.ts";

import { writeFileSync } from "node:fs";
import { resolve } from "node:path";

import { inspection } from "everturn/http";

import { ambiguousText, findSession } from "../commands/id-prefix.ts";
import { statusText } from "../commands/pending-call.ts";
import { age, brief, plural, spent, table } from "../commands/text.ts";
import { frameLines } from "./frame-lines.ts";
import { commandNames, commands } from "./slash-commands.ts";
import { renderTranscript, toMarkdown } from "./transcript.ts";

/** How many sessions `/sessions` lists, those that changed last first. */
const sessionsShown = 12;

/** What each command does. `quit`: the chat exits. */
const handlers: {
  readonly [Name in CommandName]: (chat: Conversation, argument: string) => Promise<void> | "quit" | void;
} = {
  quit: () => "quit",
  help,
  new: (chat) => {
    chat.id = null;
    chat.say("The next message starts a new session.", "dim");
  },
  sessions,
  resume,
  fork,
  continue: continueSession,
  show,
  model,
  tools,
  usage,
  export: exportTo,
};

/** Executes a command. Returns `quit` if the chat should exit. */
export async function runCommand(chat: Conversation, name: CommandName, argument: string): Promise<"quit" | "done"> {
  return (await handlers[name](chat, argument)) ?? "done";
}

/** Prints rows as a table that fits the terminal. */
function lines(chat: Conversation, rows: readonly (readonly string[])[]): void {
  chat.context.screen.print(
    table(rows, chat.context.screen.width)
      .map((row) => `${row}\n`)
      .join(""),
  );
}

function help(chat: Conversation): void {
  const { bold, dim } = chat.context.colours;
  lines(
    chat,
    commandNames.map((name) => {
      const { argument, summary } = commands[name];
      return [`  ${bold(`/${name}`)}${argument === "" ? "" : ` ${dim(argument)}`}`, summary];
    }),
  );
  chat.context.screen.print("\n");
  lines(chat, [
    ["  Ctrl-C", "cancel the turn; again: exit"],
    ["  Ctrl-D", "exit; an open turn is not lost"],
    ["  Alt-Enter", "new line (also Ctrl-J, or a backslash before Enter)"],
    ["  Up, Down", "earlier input"],
    ["  Tab", "complete a command"],
  ]);
  chat.say(
    "\nA message that you send while a turn runs is added to that turn. Begin a message with a space to send a slash as text.",
    "dim",
  );
}

/** The id of the session; prints a hint if there is none. */
function current(chat: Conversation): string | null {
  if (chat.id === null) chat.say("There is no session yet: send a message first, or /resume one.", "yellow");
  return chat.id;
}

async function sessions(chat: Conversation): Promise<void> {
  const { items, next } = await chat.context.sessions.list({ limit: sessionsShown });
  if (items.length === 0) return chat.say("There are no sessions yet.", "dim");
  const now = chat.context.now();
  lines(
    chat,
    items.map(({ id, changedAt, length, ...item }) => [
      `${id === chat.id ? "›" : " "} ${brief(id, 40)}`,
      `${age(now - changedAt)} ago`,
      plural(length, "message"),
      statusText(item),
    ]),
  );
  if (next !== null) chat.say("There are more sessions: everturn sessions lists them.", "dim");
}

/** `/resume ID`: switches to another session. The beginning of an id is enough. */
async function resume(chat: Conversation, argument: string): Promise<void> {
  if (argument === "") return chat.say("Which session? /resume ID; /sessions lists them.", "yellow");
  const match = await findSession(chat.context.sessions, argument);
  if (match.type === "none") return chat.say(`There is no session ${brief(argument)}; /sessions lists them.`, "yellow");
  if (match.type === "ambiguous") return chat.say(`${ambiguousText("sessions", argument, match.ids)}.`, "yellow");
  await chat.resume(match.id);
}

/** `/fork`: copies the session and continues with the copy. The original is not changed. */
async function fork(chat: Conversation): Promise<void> {
  const id = current(chat);
  if (id === null) return;
  chat.id = await chat.context.sessions.fork(id);
  chat.say(`The session is now ${chat.id}, a copy of ${id}.`, "dim");
}

/** `/continue`: runs the model again without a new message, after a limit, a cancel, a failure or a parked turn. */
async function continueSession(chat: Conversation): Promise<void> {
  const id = current(chat);
  if (id === null) return;
  const { sessions } = chat.context;
  const view = await sessions.get(id, { messages: 1 });
  // A failed session and a parked turn are recovered first.
  const wasParked = view?.openTurn?.status === "parked";
  if (wasParked || view?.session.status === "error") await sessions.recover(id);
  const last = view?.session.thread.messages.at(-1);
  if (!wasParked && view?.session.status === "completed" && last?.role === "assistant" && last.toolCalls.length === 0)
    return chat.say("The model has answered; there is nothing to continue.", "yellow");
  chat.follow(await sessions.continue(id, null, chat.options));
}

async function show(chat: Conversation, argument: string): Promise<void> {
  const id = current(chat);
  if (id === null) return;
  if (argument !== "" && !/^\d{1,6}$/.test(argument)) return chat.say("/show takes a number of messages.", "yellow");
  const view = await chat.context.sessions.get(id, { messages: argument === "" ? "all" : Number(argument) });
  const { screen, colours, sessions } = chat.context;
  const messages = view?.session.thread.messages ?? [];
  const notes = await frameLines(sessions, id, (view?.length ?? 0) - messages.length);
  screen.print(renderTranscript(messages, { width: screen.width, colours, notes }));
}

/**
 * `/model`: prints or sets the model of the following turns. The name is checked by the provider; only its form is
 * checked here.
 */
function model(chat: Conversation, argument: string): void {
  const { settings, model: initial, engineName } = chat.workspace;
  if (argument === "") {
    const { value, source } = settings.model;
    const initialSource = value === initial ? `${source.from}: ${source.name}` : `of the engine ${engineName}`;
    return chat.say(`${chat.model ?? initial} (${chat.model === null ? initialSource : "set with /model"})`);
  }
  if (!/^[\w-]+:\S+$/.test(argument))
    return chat.say("Use PROVIDER:MODEL, for example /model anthropic:claude-opus-5", "yellow");
  chat.model = argument === initial ? null : argument;
  chat.say(`The model is now ${argument}.`, "dim");
}

function tools(chat: Conversation): void {
  const { bold, dim } = chat.context.colours;
  const engineTools = chat.workspace.engine.tools;
  if (engineTools.length === 0) return chat.say("There are no tools. everturn chat --tools FILE loads some.", "dim");
  lines(
    chat,
    engineTools.map(({ name, description, needsApproval, manual }) => {
      const notes = [...(needsApproval ? ["needs approval"] : []), ...(manual ? ["manual"] : [])];
      return [
        `  ${bold(name)}`,
        `${brief(description, 200)}${notes.length === 0 ? "" : dim(` (${notes.join(", ")})`)}`,
      ];
    }),
  );
}

async function usage(chat: Conversation): Promise<void> {
  const id = current(chat);
  if (id === null) return;
  const { total, lines: usageLines } = await chat.context.sessions.usage(id);
  chat.say(spent(total) === "" ? "The provider reported no usage." : spent(total));
  lines(
    chat,
    usageLines.map(({ source, model, usage: lineUsage }) => [
      `  ${source.replaceAll("_", " ")}`,
      brief(model ?? "", 40),
      spent(lineUsage),
    ]),
  );
}

/**
 * `/export FILE`: a `.md` file gets the conversation, any other the record of the newest turn. The file is created for
 * its owner only (mode 600).
 */
async function exportTo(chat: Conversation, argument: string): Promise<void> {
  const id = current(chat);
  if (id === null) return;
  if (argument === "") return chat.say("Which file? /export talk.md or /export turn.json", "yellow");
  const path = resolve(chat.workspace.settings.folder, argument);
  const { sessions } = chat.context;
  const record = argument.endsWith(".md") ? null : await inspection(sessions.source).export(id);
  const turnId = record?.data.turnId ?? (await sessions.get(id, { messages: 0 }))?.session.lastRun?.turnId ?? "";
  await sessions.exported(id, turnId);
  const text =
    record === null
      ? toMarkdown((await sessions.get(id))?.session.thread.messages ?? [])
      : `${JSON.stringify(record, null, 2)}\n`;
  try {
    writeFileSync(path, text, { flag: "wx", mode: 0o600 });
  } catch (error) {
    const exists = error instanceof Error && "code" in error && error.code === "EEXIST";
    throw exists ? new Error(`${path} already exists; choose another file`) : error;
  }
  chat.say(`Written to ${path}${argument.endsWith(".md") ? "" : "; everturn replay replays it"}.`, "dim");
}
