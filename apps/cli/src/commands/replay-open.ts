// `everturn replay --open`: the check before a deploy. Replays every open turn of the database against the engines of the current code, and reports the turns that
// this code could not continue. Performs nothing, and only reads the database: it neither creates nor migrates tables.

import type { CommandContext } from "./context.ts";
import type { OpenTurnReplay } from "everturn/runtime";

import { createEngines } from "@everturn/server";
import { replayOpenTurns } from "everturn/runtime";

import { safeLine, safeJson } from "../terminal/safe-text.ts";
import { openReadOnly } from "../workspace.ts";
import { exitCodes } from "./exit-codes.ts";
import { plural } from "./text.ts";

export async function replayOpen(context: CommandContext, { json }: { readonly json: boolean }): Promise<number> {
  const { say, out, io } = context;
  const settings = await context.settings();
  const { engines } = await createEngines(settings, io.environment);
  const database = await openReadOnly(settings);
  const problems: OpenTurnReplay[] = [];
  let turns = 0;
  try {
    for await (const report of replayOpenTurns({ host: database.storage, engines })) {
      turns += 1;
      if (report.status === "same") continue;
      problems.push(report);
      if (!json) say(`${out.red("✗")} ${safeLine(problemLine(report))}`);
    }
  } finally {
    await database.close();
  }
  if (json) say(safeJson({ database: database.name, turns, same: turns - problems.length, problems }));
  else if (problems.length === 0) {
    const found =
      turns === 0 ? "there are no open turns" : `${plural(turns, "open turn")} can be continued by this code`;
    say(`${out.green("✓")} ${database.name}: ${found}`);
  } else
    say(`${problems.length} of ${plural(turns, "open turn")} in ${database.name} cannot be continued by this code`);
  return problems.length === 0 ? exitCodes.ok : exitCodes.failed;
}

/** `turn turn-1 of session s1 of tenant acme (engine default, 12 rows): diverged at call.name, call.arguments`. */
function problemLine({
  tenant,
  sessionId,
  turnId,
  engine,
  rows,
  status,
  paths,
  missing,
  message,
}: OpenTurnReplay): string {
  const where = `turn ${turnId || "?"} of session ${sessionId}${tenant === "" ? "" : ` of tenant ${tenant}`}`;
  const facts = engine === "" ? "" : ` (engine ${engine}, ${plural(rows, "row")})`;
  const what =
    status === "diverged"
      ? `diverged at ${paths.join(", ")}`
      : status === "missing"
        ? `this code has no ${missing.join(", no ")}`
        : (message ?? status);
  return `${where}${facts}: ${what}`;
}
