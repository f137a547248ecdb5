// Which sessions can be chosen for a comparison: first those that are related to the other side by forks, then the
// others, newest first.

import type { SessionSummary } from "../data/types.ts";

/** The sessions to choose from. */
export type Choices = { readonly related: readonly SessionSummary[]; readonly others: readonly SessionSummary[] };

/** The choices for one side. `other`: the id of the session on the other side; empty: none is chosen. */
export function choicesFor(sessions: readonly SessionSummary[], other: string): Choices {
  const origins = new Map(sessions.map(({ id, forkedFrom }) => [id, forkedFrom?.sessionId ?? null]));
  const root = rootOf(origins, other);
  const candidates = sessions.filter(({ id }) => id !== other);
  const isRelated = ({ id }: SessionSummary): boolean => other !== "" && rootOf(origins, id) === root;
  return { related: candidates.filter(isRelated), others: candidates.filter((session) => !isRelated(session)) };
}

/** The session at the beginning of a chain of forks, as far as it is known. */
function rootOf(origins: ReadonlyMap<string, string | null>, id: string): string {
  const passed = new Set<string>();
  for (let at: string | null = id; at !== null; at = origins.get(at) ?? null) {
    // Metadata is written by programs: a chain may be a circle, which has no beginning.
    if (passed.has(at)) return [...passed].toSorted()[0] ?? id;
    passed.add(at);
  }
  return [...passed].at(-1) ?? id;
}
