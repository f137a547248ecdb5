// `everturn sessions`: lists, deletes and forks the sessions of the database. Lists are paginated by cursor.

import type { CommandContext } from "./context.ts";
import type { Message } from "everturn";
import type { Runtime, SessionSummary } from "everturn/runtime";

import { messageText } from "everturn/model";

import { safeJson } from "../terminal/safe-text.ts";
import { withSessions } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { statusText } from "./pending-call.ts";
import { age, brief, table, shellQuote } from "./text.ts";

export type ListRequest = { readonly limit: number; readonly after: string | null; readonly json: boolean };

export async function listSessions(context: CommandContext, { limit, after, json }: ListRequest): Promise<number> {
  const { io, out, say, note } = context;
  return withSessions(context, async (sessions) => {
    const page = await sessions.list({ limit, ...(after === null ? {} : { after }) });
    const rows = await Promise.all(
      page.items.map(async (item) => ({ ...item, firstWords: await firstWords(sessions, item.id) })),
    );
    if (json) {
      say(safeJson({ items: rows, next: page.next }));
      return exitCodes.ok;
    }
    if (rows.length === 0) {
      note(after === null ? "no sessions yet: everturn run or everturn chat starts one" : "no more sessions");
      return exitCodes.ok;
    }
    const now = Date.now();
    const [head = "", ...lines] = table(
      [["ID", "STATUS", "MESSAGES", "AGE", "FIRST WORDS"], ...rows.map((row) => cells(row, row.firstWords, now))],
      io.stdout.columns,
    );
    say(out.dim(head));
    for (const line of lines) say(line);
    if (page.next !== null) note(`next page: everturn sessions --limit ${limit} --after ${shellQuote(page.next)}`);
    return exitCodes.ok;
  });
}

function cells(item: SessionSummary, words: string, now: number): readonly string[] {
  return [
    brief(item.id, 200),
    item.limitWait === null ? statusText(item) : `queued (${item.limitWait.limit} limit)`,
    String(item.length),
    age(now - item.changedAt),
    brief(words, 60),
  ];
}

/** The beginning of the first user message. */
async function firstWords(sessions: Runtime, id: string): Promise<string> {
  const { items } = await sessions.messages(id, { limit: 4 });
  const userMessage = items.find((message: Message) => message.role === "user");
  return userMessage === undefined ? "" : brief(messageText(userMessage), 200);
}

export async function deleteSessions(context: CommandContext, ids: readonly string[]): Promise<number> {
  return withSessions(context, async (sessions) => {
    for (const id of ids) {
      await sessions.delete(id);
      context.note(`deleted ${id}`);
    }
    return exitCodes.ok;
  });
}

export type ForkRequest = { readonly id: string; readonly as: string | null; readonly at: number | null };

export async function forkSession(context: CommandContext, { id, as, at }: ForkRequest): Promise<number> {
  return withSessions(context, async (sessions) => {
    context.say(await sessions.fork(id, { ...(as === null ? {} : { id: as }), ...(at === null ? {} : { at }) }));
    return exitCodes.ok;
  });
}
