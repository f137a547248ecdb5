// The branches of a chat. History is append-only, so a regenerated or edited message does not change the session: the
// session is forked before that message, and the chat continues in the fork.
//
// Naming. The first branch is the session with the id of the chat. The n-th fork is `<chat id>~branch-<n>`
// (durable/sessions/branches.ts); its metadata names the session that it was forked from. The branch with the highest
// number is the current one.
//
// Cost. A chat without forks costs one more read of a session row. Forks are numbered without gaps, so the current one
// of n is found with 2 log n reads (galloping search).
//
// Concurrency. Two requests that fork at once choose the same id: the storage accepts one of them, and the other is a
// conflict. A chat that is deleted while it is forked: the deletion removes the fork if it finds it, and else the fork
// finds that the chat is gone, and removes itself.

import type { Message, Page } from "../../../core/model/internal.ts";
import type { SessionView } from "../../../durable/internal.ts";
import type { CallerSessions } from "../../http/internal.ts";

import { RuntimeError } from "../../../core/model/internal.ts";
import { branchId, isForkOfChat } from "../../../durable/internal.ts";

/** A branch of a chat. */
export type Branch = {
  readonly chatId: string;
  /** 0: the session with the id of the chat. */
  readonly number: number;
  /** The id of the session that holds the branch. */
  readonly sessionId: string;
  /** The session, without messages. */
  readonly view: SessionView;
};

/**
 * Reads a branch; `null` if it does not exist. A session of that id which is not a fork of this chat, or has another
 * owner than the chat, is not a branch: any caller can start a session with that id and that metadata.
 */
async function readBranch(
  sessions: CallerSessions,
  chatId: string,
  number: number,
  owner?: string | null,
): Promise<Branch | null> {
  const sessionId = branchId(chatId, number);
  const view = await sessions.get(sessionId, { messages: 0 });
  if (view === null || (owner !== undefined && view.owner !== owner)) return null;
  const isBranch = number === 0 || isForkOfChat(chatId, view.forkedFrom?.sessionId ?? null);
  return isBranch ? { chatId, number, sessionId, view } : null;
}

/** The current branch of a chat; `null` if there is no such chat. */
export async function currentBranch(sessions: CallerSessions, chatId: string): Promise<Branch | null> {
  let newest = await readBranch(sessions, chatId, 0);
  if (newest === null) return null;
  let missing = 1;
  const { owner } = newest.view;
  for (;;) {
    const branch = await readBranch(sessions, chatId, missing, owner);
    if (branch === null) break;
    newest = branch;
    missing *= 2;
  }
  while (missing - newest.number > 1) {
    const middle = Math.floor((newest.number + missing) / 2);
    const branch = await readBranch(sessions, chatId, middle, owner);
    if (branch === null) missing = middle;
    else newest = branch;
  }
  return newest;
}

/** The error for a chat that does not exist in the caller's tenant. */
export function noChat(chatId: string): RuntimeError {
  return new RuntimeError("not_found", { message: `there is no chat ${JSON.stringify(chatId)}` });
}

/** How many messages are read at a time to find one, and their length in characters. */
const searched = { limit: 64, maxLength: 1_048_576 };

/**
 * Forks the current branch before a user message. Returns the id of the fork and the stored message; `null` if it is
 * not stored.
 */
export async function forkBefore(
  sessions: CallerSessions,
  { chatId, number, sessionId, view }: Branch,
  messageId: string,
  copiedLengthPerHour: number | undefined,
): Promise<{ readonly sessionId: string; readonly message: Message } | null> {
  if (view.openTurn !== null) {
    throw new RuntimeError("conflict", {
      message: "a turn of the chat is running; stop it before you regenerate or edit a message",
    });
  }
  for (let before: number | null = view.length; before !== null;) {
    const page: Page<Message> = await sessions.messages(sessionId, { before, ...searched });
    const first: number = before - page.items.length;
    const index = page.items.findLastIndex(
      ({ role, id }, place) => role === "user" && (id ?? `message-${first + place}`) === messageId,
    );
    const message = page.items[index];
    if (message !== undefined) {
      const quota = copiedLengthPerHour === undefined ? {} : { copiedLengthPerHour };
      const target = { id: branchId(chatId, number + 1), at: first + index, ...quota };
      const forkId = await sessions.fork(sessionId, target);
      if ((await sessions.get(chatId, { messages: 0 })) !== null) return { sessionId: forkId, message };
      await sessions.delete(forkId);
      throw noChat(chatId);
    }
    before = page.next === null ? null : first;
  }
  return null;
}
