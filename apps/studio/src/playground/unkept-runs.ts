// Runs of the playground that were neither kept nor deleted, remembered in this browser. They are sessions like all
// others, so nothing deletes them without a click: the next visit of the playground lists them with one button to
// delete them.

import { shownTenant } from "../route.ts";
import { readStored, writeStored } from "../shell/stored.ts";

/** Each tenant has a list of its own. */
function storedKey(): string {
  const tenant = shownTenant();
  return tenant === null ? "everturn-playground-runs" : `everturn-playground-runs:${tenant}`;
}
const maxRuns = 200;

/** Reads the stored list. A text that is no list of ids is an empty list. */
export function parseRuns(text: string | null): readonly string[] {
  try {
    const list: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(list) ? list.filter((id) => typeof id === "string").slice(-maxRuns) : [];
  } catch {
    return [];
  }
}

/** The ids of the sessions of these runs, oldest first. */
export function unkeptRuns(): readonly string[] {
  return parseRuns(readStored(storedKey()));
}

/** Remembers a run that has begun. */
export function rememberRun(sessionId: string): void {
  write([...unkeptRuns().filter((id) => id !== sessionId), sessionId]);
}

/** Forgets runs that were kept or deleted. */
export function forgetRuns(sessionIds: readonly string[]): void {
  write(unkeptRuns().filter((id) => !sessionIds.includes(id)));
}

function write(runs: readonly string[]): void {
  writeStored(storedKey(), JSON.stringify(runs.slice(-maxRuns)));
}
