// What the commands of the chat do.

import type { Conversation } from "./conversation.ts";
import type { CommandName } from "./slash.ts";

import { writeFileSync } from "node:fs";
import { resolve } from "node:path";

import { age, brief, plural, spent, table } from "../commands/text.ts";
import { commandNames, commands } from "./slash.ts";
import { renderTranscript, toMarkdown } from "./transcript.ts";

const sessionsShown = 12;

export async function runCommand(chat: Conversation, name: CommandName, argument: string): Promise<"quit" | "done"> {
  switch (name) {
    case "quit":
      return "quit";
    case "help":
      help(chat);
      break;
    case "new":
      chat.id = null;
      chat.say("A new session begins with what you say next.", "dim");
      break;
    case "sessions":
      await sessions(chat);
      break;
    case "resume":
      await resume(chat, argument);
      break;
    case "fork":
      await fork(chat);
      break;
    case "continue":
      await goOn(chat);
      break;
    case "show":
      await show(chat, argument);
      break;
    case "model":
      model(chat, argument);
      break;
    case "tools":
      tools(chat);
      break;
    case "usage":
      await usage(chat);
      break;
    case "export":
      await exportTo(chat, argument);
      break;
  }
  return "done";
}

function lines(chat: Conversation, rows: readonly (readonly string[])[]): void {
  chat.desk.screen.print(
    table(rows, chat.desk.screen.width)
      .map((row) => `${row}\n`)
      .join(""),
  );
}

function help(chat: Conversation): void {
  const { bold, dim } = chat.desk.colours;
  lines(
    chat,
    commandNames.map((name) => {
      const { argument, summary } = commands[name];
      return [`  ${bold(`/${name}`)}${argument === "" ? "" : ` ${dim(argument)}`}`, summary];
    }),
  );
  chat.desk.screen.print("\n");
  lines(chat, [
    ["  Ctrl-C", "cancels the turn that runs; a second one leaves"],
    ["  Ctrl-D", "leaves; a turn that runs is not lost"],
    ["  Alt-Enter", "a new line; so do Ctrl-J and a backslash before Enter"],
    ["  Up, Down", "what you said before"],
    ["  Tab", "completes a command"],
  ]);
  chat.say(
    "\nWhat you type and send while a turn runs is said to it. A space before a slash makes it a message.",
    "dim",
  );
}

/** The session, where a command needs one. */
function current(chat: Conversation): string | null {
  if (chat.id === null) chat.say("There is no session yet: say something first, or /resume one.", "yellow");
  return chat.id;
}

async function sessions(chat: Conversation): Promise<void> {
  const { items, next } = await chat.desk.sessions.list({ limit: sessionsShown });
  if (items.length === 0) return chat.say("There are no sessions yet.", "dim");
  const now = chat.desk.now();
  lines(
    chat,
    items.map(({ id, changedAt, length, status, turnId }) => [
      `${id === chat.id ? "›" : " "} ${brief(id, 40)}`,
      `${age(now - changedAt)} ago`,
      plural(length, "message"),
      turnId === null ? status.replaceAll("_", " ") : "running",
    ]),
  );
  if (next !== null) chat.say("There are more: everturn sessions lists them.", "dim");
}

async function resume(chat: Conversation, argument: string): Promise<void> {
  if (argument === "") return chat.say("Which one? /sessions lists them.", "yellow");
  if (await chat.resume(argument)) return;
  const { items } = await chat.desk.sessions.list({ limit: 100 });
  const [found, ...others] = items.filter(({ id }) => id.startsWith(argument));
  if (found === undefined) return chat.say(`There is no session ${brief(argument)}; /sessions lists them.`, "yellow");
  if (others.length > 0)
    return chat.say(`${others.length + 1} sessions begin with ${brief(argument)}: say more of it.`, "yellow");
  await chat.resume(found.id);
}

async function fork(chat: Conversation): Promise<void> {
  const id = current(chat);
  if (id === null) return;
  chat.id = await chat.desk.sessions.fork(id);
  chat.say(`This is ${chat.id} now, a copy of ${id}.`, "dim");
}

async function goOn(chat: Conversation): Promise<void> {
  const id = current(chat);
  if (id === null) return;
  const { sessions } = chat.desk;
  const view = await sessions.get(id, { messages: 1 });
  // A session that failed, or whose turn is parked, is brought back first.
  const wasParked = view?.openTurn?.status === "parked";
  if (wasParked || view?.session.status === "error") await sessions.recover(id);
  const last = view?.session.thread.messages.at(-1);
  if (!wasParked && view?.session.status === "completed" && last?.role === "assistant" && last.toolCalls.length === 0)
    return chat.say("The model has answered; there is nothing to go on with.", "yellow");
  chat.follow(await sessions.continue(id, null, chat.options));
}

async function show(chat: Conversation, argument: string): Promise<void> {
  const id = current(chat);
  if (id === null) return;
  if (argument !== "" && !/^\d{1,6}$/.test(argument)) return chat.say("/show takes a number of messages.", "yellow");
  const view = await chat.desk.sessions.get(id, { messages: argument === "" ? "all" : Number(argument) });
  const { screen, colours } = chat.desk;
  screen.print(renderTranscript(view?.session.thread.messages ?? [], { width: screen.width, colours }));
}

function model(chat: Conversation, argument: string): void {
  const set = chat.workspace.settings.model;
  if (argument === "") {
    const source = chat.model === null ? `${set.source.from}: ${set.source.name}` : "said here";
    return chat.say(`${chat.model ?? set.value} (${source})`);
  }
  if (!/^[\w-]+:\S+$/.test(argument))
    return chat.say("Name the model with its provider: /model anthropic:claude-opus-5", "yellow");
  chat.model = argument === set.value ? null : argument;
  chat.say(`${argument} answers from now on.`, "dim");
}

function tools(chat: Conversation): void {
  const { bold, dim } = chat.desk.colours;
  const known = chat.workspace.engine.tools;
  if (known.length === 0) return chat.say("There are none. everturn chat --tools FILE loads some.", "dim");
  lines(
    chat,
    known.map(({ name, description, needsApproval, manual }) => {
      const notes = [...(needsApproval ? ["asks first"] : []), ...(manual ? ["yours to run"] : [])];
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
  const { total, lines: paid } = await chat.desk.sessions.usage(id);
  chat.say(spent(total) === "" ? "Nothing is known of what it cost." : spent(total));
  lines(
    chat,
    paid.map(({ source, model, usage: one }) => [
      `  ${source.replaceAll("_", " ")}`,
      brief(model ?? "", 40),
      spent(one),
    ]),
  );
}

async function exportTo(chat: Conversation, argument: string): Promise<void> {
  const id = current(chat);
  if (id === null) return;
  if (argument === "") return chat.say("Which file? /export talk.md or /export turn.json", "yellow");
  const path = resolve(chat.workspace.settings.folder, argument);
  const text = argument.endsWith(".md")
    ? toMarkdown((await chat.desk.sessions.get(id))?.session.thread.messages ?? [])
    : `${JSON.stringify(await chat.desk.sessions.export(id), null, 2)}\n`;
  try {
    writeFileSync(path, text, { flag: "wx", mode: 0o600 });
  } catch (error) {
    const isThere = error instanceof Error && "code" in error && error.code === "EEXIST";
    throw isThere ? new Error(`${path} is there already; name another file`) : error;
  }
  chat.say(`Written to ${path}${argument.endsWith(".md") ? "" : "; everturn replay runs it again"}.`, "dim");
}
