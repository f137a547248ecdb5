// Entry point of the interactive chat (`everturn chat`). Standard input and output must be a terminal; `everturn run`
// is for pipes.

import type { Workspace } from "../workspace.ts";

import { databaseName } from "@everturn/server";

import { actorName, UsageError } from "../commands/context.ts";
import { exitCodes } from "../commands/exit-codes.ts";
import { sessionNamed } from "../commands/id-prefix.ts";
import { sessionFlags } from "../commands/pending-call.ts";
import { shellQuote } from "../commands/text.ts";
import { wrapRuns } from "../terminal/flow.ts";
import { safeLine } from "../terminal/safe-text.ts";
import { Screen } from "../terminal/screen.ts";
import { colours, wantsColours } from "../terminal/style.ts";
import { openTerminal } from "../terminal/terminal.ts";
import { Conversation } from "./conversation.ts";

export type ChatOptions = {
  /** The id of the session to continue, or its beginning; `null`: a new one. */
  readonly session: string | null;
  /** Whether to continue the session that changed last if `session` is `null`. */
  readonly newest: boolean;
  /** The tenant of the sessions, for the command that continues one; `null`: the one without a name. */
  readonly tenant: string | null;
  /** Default: as the environment decides (`NO_COLOR`, `FORCE_COLOR`). */
  readonly colours?: boolean;
};

/** Runs the chat until the user exits. Returns the exit code. The caller closes the workspace. */
export async function runChat(workspace: Workspace, options: ChatOptions): Promise<number> {
  const { stdin, stdout, env } = process;
  if (!stdin.isTTY || !stdout.isTTY || env["TERM"] === "dumb") {
    throw new UsageError("chat needs a terminal for input and output; use everturn run with pipes");
  }
  const named = options.session === null ? null : await sessionNamed(workspace.sessions, options.session);
  const session = named ?? (options.newest ? await newestSession(workspace) : null);
  const terminal = openTerminal(stdin, stdout);
  const screen = new Screen(terminal);
  const context = {
    sessions: workspace.sessions.actedBy(actorName()),
    screen,
    colours: colours(options.colours ?? wantsColours(env, true)),
    now: () => Date.now(),
  };
  try {
    const chat = new Conversation(context, workspace);
    const banner = [
      { text: "everturn chat", style: { bold: true } as const },
      { text: ` · ${safeLine(workspace.model)} · /help`, style: { dim: true } as const },
    ];
    screen.print(`${wrapRuns(banner, { width: screen.width, colours: context.colours.enabled })}\n`);
    if (session !== null) await chat.resume(session);
    const { leftOpen } = await chat.run();
    if (leftOpen) chat.say("The turn is not lost: it continues when the session is opened again.", "yellow");
    if (chat.id !== null) chat.say(`Continue with: ${resumeCommand(workspace, chat.id, options.tenant)}`, "dim");
    return leftOpen ? exitCodes.interrupted : exitCodes.ok;
  } finally {
    terminal.close();
  }
}

async function newestSession({ sessions }: Workspace): Promise<string | null> {
  const { items } = await sessions.list({ limit: 1 });
  return items[0]?.id ?? null;
}

/** The command that continues the session, with the tenant, and with the database if a flag set it. */
function resumeCommand({ settings: { database } }: Workspace, id: string, tenant: string | null): string {
  const isFromFlag = database.source.from === "flag";
  // The URL of a Postgres database may hold a password, so the command shows it without.
  const name = shellQuote(databaseName(database.value));
  return `everturn chat ${sessionFlags(id, tenant)}${isFromFlag ? ` --database ${name}` : ""}`;
}
