// `everturn audit`: reads and exports the audit log of the database.

import type { CommandContext } from "./context.ts";
import type { AuditEntry } from "everturn/runtime";

import { resolve } from "node:path";

import { writePrivateFile } from "../private-file.ts";
import { safeJson } from "../terminal/safe-text.ts";
import { tenantOf, withSessions } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { brief, plural, table } from "./text.ts";

export type AuditRequest = {
  readonly limit: number;
  readonly session: string | null;
  readonly actor: string | null;
  readonly action: string | null;
  readonly json: boolean;
  /** The file for all rows, as lines of JSON; `-`: standard output; `null`: a page is printed. */
  readonly exportTo: string | null;
};

export async function audit(context: CommandContext, request: AuditRequest): Promise<number> {
  const { io, out, say, note } = context;
  const { session, actor, action, exportTo } = request;
  const tenant = tenantOf(context);
  const filter = {
    ...(tenant === null ? {} : { tenant }),
    ...(session === null ? {} : { session }),
    ...(actor === null ? {} : { actor }),
    ...(action === null ? {} : { action }),
  };
  return withSessions(context, async (sessions) => {
    const limit = exportTo === null ? request.limit : Number.POSITIVE_INFINITY;
    const items: AuditEntry[] = [];
    for (let after: string | null = null; items.length < limit;) {
      const page: Awaited<ReturnType<typeof sessions.audit>> = await sessions.audit({
        ...filter,
        limit: Math.min(200, limit - items.length),
        ...(after === null ? {} : { after }),
      });
      items.push(...page.items);
      if (page.next === null) break;
      after = page.next;
    }
    if (exportTo !== null) {
      const lines = items.toReversed().map((entry) => safeJson(entry));
      if (exportTo === "-") for (const line of lines) say(line);
      else writePrivateFile(resolve(io.folder, exportTo), lines.map((line) => `${line}\n`).join(""));
      note(`exported ${plural(items.length, "row")}`);
    } else if (request.json) say(safeJson({ items }));
    else if (items.length === 0) note("the audit log has no such rows");
    else {
      const rows = items.map((entry) => [
        new Date(entry.at).toISOString(),
        brief(entry.action, 20),
        brief(entry.actor ?? "-", 40),
        brief(entry.tenant, 40),
        brief(entry.sessionId ?? "-", 60),
        brief(entry.target ?? "-", 60),
        brief(entry.digest ?? "-", 16),
      ]);
      const titles = ["TIME", "ACTION", "ACTOR", "TENANT", "SESSION", "TARGET", "DIGEST"];
      const [head = "", ...lines] = table([titles, ...rows], io.stdout.columns);
      say(out.dim(head));
      for (const line of lines) say(line);
    }
    return exitCodes.ok;
  });
}
