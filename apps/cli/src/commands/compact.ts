// `everturn compact`: requests a compaction of a session, or undoes the newest one.

import type { CommandContext } from "./context.ts";

import { tenantOf, withSessions } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { locateSession } from "./id-prefix.ts";
import { tenantFlag } from "./pending-call.ts";
import { plural, shellQuote } from "./text.ts";

export type CompactRequest = {
  readonly id: string;
  /** What the summary has to keep; `null`: nothing more than the context policy says. */
  readonly keep: string | null;
  readonly undo: boolean;
};

export async function compact(context: CommandContext, { id: text, keep, undo }: CompactRequest): Promise<number> {
  return withSessions(context, async (all) => {
    const { sessions, id, tenant } = await locateSession(all, text, tenantOf(context));
    const named = `${shellQuote(id)}${tenantFlag(tenant)}`;
    if (undo) {
      const { frame } = await sessions.undoCompaction(id);
      const rest = frame === null ? "all messages" : `the summary of the first ${plural(frame.to, "message")}`;
      context.note(`undone: the next request has ${rest} of session ${id}`);
      return exitCodes.ok;
    }
    await sessions.compact(id, keep === null ? {} : { instructions: keep });
    context.note(`the next turn of session ${id} begins with a summary; everturn compact ${named} --undo withdraws it`);
    return exitCodes.ok;
  });
}
