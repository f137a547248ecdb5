// The door of the interactive chat: `everturn chat`. It needs a terminal on both sides; for anything else there is `everturn run`.

import type { Workspace } from "../workspace.ts";

import { UsageError } from "../commands/context.ts";
import { exitCodes } from "../commands/exit-codes.ts";
import { wrapRuns } from "../terminal/flow.ts";
import { safeLine } from "../terminal/safe-text.ts";
import { Screen } from "../terminal/screen.ts";
import { colours, wantsColours } from "../terminal/style.ts";
import { openTerminal } from "../terminal/terminal.ts";
import { Conversation } from "./conversation.ts";

export type ChatOptions = {
  /** The session to go on with; `null`: a new one. */
  readonly session: string | null;
  /** Go on with the session that changed last, if no session is named. */
  readonly newest: boolean;
  /** Where it is not said, the environment decides. */
  readonly colours?: boolean;
};

/** Talks with a person at a terminal until they leave. Gives back the exit code; the workspace stays open and is closed by whoever opened it. */
export async function runChat(workspace: Workspace, options: ChatOptions): Promise<number> {
  const { stdin, stdout, env } = process;
  if (!stdin.isTTY || !stdout.isTTY || env["TERM"] === "dumb") {
    throw new UsageError("chat needs a terminal to read from and to write to; everturn run takes what is piped in");
  }
  const session = options.session ?? (options.newest ? await newestSession(workspace) : null);
  if (options.session !== null && (await workspace.sessions.get(options.session, { messages: 0 })) === null) {
    throw new UsageError(`there is no session ${JSON.stringify(options.session)}; everturn sessions lists them`);
  }
  const terminal = openTerminal(stdin, stdout);
  const screen = new Screen(terminal);
  const desk = {
    sessions: workspace.sessions,
    screen,
    colours: colours(options.colours ?? wantsColours(env, true)),
    now: () => Date.now(),
  };
  try {
    const chat = new Conversation(desk, workspace);
    const banner = [
      { text: "everturn chat", style: { bold: true } as const },
      { text: ` · ${safeLine(workspace.settings.model.value)} · /help`, style: { dim: true } as const },
    ];
    screen.print(`${wrapRuns(banner, { width: screen.width, colours: desk.colours.enabled })}\n`);
    if (session !== null) await chat.resume(session);
    const { leftOpen } = await chat.talk();
    if (leftOpen) chat.say("The turn is not lost: it goes on when somebody comes back to it.", "yellow");
    if (chat.id !== null) chat.say(`Go on with: ${resumeCommand(workspace, chat.id)}`, "dim");
    return leftOpen ? exitCodes.interrupted : exitCodes.ok;
  } finally {
    terminal.close();
  }
}

async function newestSession({ sessions }: Workspace): Promise<string | null> {
  const { items } = await sessions.list({ limit: 1 });
  return items[0]?.id ?? null;
}

/** What to type to come back; with the database, where it is not the usual one. */
function resumeCommand({ settings: { database } }: Workspace, id: string): string {
  const isNamed = database.source.from === "flag";
  return `everturn chat --session ${quoted(id)}${isNamed ? ` --database ${quoted(database.value)}` : ""}`;
}

function quoted(word: string): string {
  return /^[\w./:@-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
