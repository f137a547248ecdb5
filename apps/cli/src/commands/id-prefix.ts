// Finds a session or a turn by its id or by the beginning of its id, as Git finds a commit. Only commands that read use
// it: `sessions delete` takes whole ids, because a prefix that fits today may fit another session tomorrow.

import type { Runtime } from "everturn/runtime";

import { safeLine } from "../terminal/safe-text.ts";
import { UsageError } from "./context.ts";

/** How many candidates an error lists. */
const candidatesShown = 10;
/** The size of a page when ids are searched. */
const pageSize = 100;

/** The result of a search: the id, or the ids that begin with the text, which may be none. */
export type Match =
  | { readonly type: "found"; readonly id: string }
  | { readonly type: "ambiguous"; readonly ids: readonly string[] }
  | { readonly type: "none" };

/**
 * Finds a session. An id that exists is found also if other ids begin with it, with one read. A prefix reads the list
 * of sessions page by page; the cost is linear in their number.
 */
export async function findSession(sessions: Runtime, text: string): Promise<Match> {
  if (text === "") return { type: "none" };
  if ((await sessions.get(text, { messages: 0 })) !== null) return { type: "found", id: text };
  const ids: string[] = [];
  for (let after: string | null = null; ;) {
    const page: Awaited<ReturnType<Runtime["list"]>> = await sessions.list({
      limit: pageSize,
      ...(after === null ? {} : { after }),
    });
    ids.push(...page.items.map(({ id }) => id).filter((id) => id.startsWith(text)));
    if (page.next === null) break;
    after = page.next;
  }
  // A session that changes during the search may be on two pages.
  return matchOf([...new Set(ids)]);
}

/** Finds an id in a list. */
export function findId(ids: readonly string[], text: string): Match {
  if (text === "") return { type: "none" };
  if (ids.includes(text)) return { type: "found", id: text };
  return matchOf(ids.filter((id) => id.startsWith(text)));
}

function matchOf(ids: readonly string[]): Match {
  const [id, ...others] = ids;
  if (id === undefined) return { type: "none" };
  return others.length === 0 ? { type: "found", id } : { type: "ambiguous", ids };
}

/** The sentence for an ambiguous prefix, with the candidates: `what` is `sessions` or `turns`. */
export function ambiguousText(what: string, text: string, ids: readonly string[]): string {
  const shown = ids.slice(0, candidatesShown).map(safeLine).join(", ");
  const others = ids.length > candidatesShown ? `, and ${ids.length - candidatesShown} more` : "";
  return `${ids.length} ${what} begin with ${JSON.stringify(text)}: ${shown}${others}; type more of the id`;
}

/** As `findSession`. Throws `UsageError` if there is no such session or the prefix is ambiguous. */
export async function sessionNamed(sessions: Runtime, text: string): Promise<string> {
  const match = await findSession(sessions, text);
  if (match.type === "found") return match.id;
  if (match.type === "ambiguous") throw new UsageError(ambiguousText("sessions", text, match.ids));
  throw new UsageError(`there is no session ${JSON.stringify(text)}; everturn sessions lists them`);
}
