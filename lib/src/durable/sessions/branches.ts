// The names of the branches of a chat. History is append-only, so a message that is regenerated or edited continues the
// chat in a fork (serve/dialects/ai-sdk-chat/branches.ts). The n-th fork of a chat is the session
// `<chat id>~branch-<n>`. A branch belongs to its chat and is deleted with it; other forks are sessions of their own.

import type { VerbContext } from "../drive/context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Row } from "../rows/storage.ts";

import { readableHead } from "./browse.ts";
import { forkOriginOf } from "./fork-origin.ts";

const infix = "~branch-";

/** How many rows are read at a time. */
const pageSize = 64;

/** The id of the session that holds a branch of a chat. 0: the session with the id of the chat. */
export function branchId(chatId: string, number: number): string {
  return number === 0 ? chatId : `${chatId}${infix}${number}`;
}

/**
 * Whether a fork of this session, which has the name of a branch of the chat, is one: it was forked from the chat or
 * from another branch.
 */
export function isForkOfChat(chatId: string, forkedFrom: string | null): boolean {
  return forkedFrom !== null && (forkedFrom === chatId || forkedFrom.startsWith(`${chatId}${infix}`));
}

/**
 * The ids of the branches of a chat, without the session of the chat itself. Numbers may be missing: a branch can be
 * deleted alone.
 */
export async function branchesOf(
  { storage }: VerbContext,
  { tenant, session }: SessionKey,
): Promise<readonly string[]> {
  const ids: string[] = [];
  let after = `${session}${infix}`;
  // The colon follows the digits in the order of characters.
  const before = `${after}:`;
  for (;;) {
    const [rows = []] = await storage.read([{ table: "sessions", prefix: [tenant], after, before, limit: pageSize }]);
    ids.push(...rows.filter((row) => isBranch(session, row)).map(idOf));
    const last = rows.at(-1);
    if (last === undefined || rows.length < pageSize) return ids;
    after = idOf(last);
  }
}

function idOf(row: Row): string {
  return String(row.key[1]);
}

/**
 * Whether a session row is that of a branch. One that cannot be read has the name of a branch only, and nothing in it
 * can be used.
 */
function isBranch(chatId: string, row: Row): boolean {
  if (!/^\d+$/.test(idOf(row).slice(chatId.length + infix.length))) return false;
  const head = readableHead(row);
  if (head === null) return true;
  return !head.deleted && isForkOfChat(chatId, forkOriginOf(head.session.metadata)?.sessionId ?? null);
}
