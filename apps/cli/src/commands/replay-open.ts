// `everturn replay --open`: the check before a deploy. Replays every open turn of the database against the engines of
// the current code, and reports the turns that this code could not continue, and the waiting calls that a person could
// not approve. Performs nothing, and only reads the database: it neither creates nor migrates tables.

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
  let waiting = 0;
  try {
    for await (const report of replayOpenTurns({ host: database.storage, engines })) {
      if (report.waitingCall === undefined) turns += 1;
      else waiting += 1;
      if (report.status === "same") continue;
      problems.push(report);
      if (!json) say(`${out.red("✗")} ${safeLine(problemLine(report))}`);
    }
  } finally {
    await database.close();
  }
  const all = turns + waiting;
  const found = [
    ...(turns > 0 || waiting === 0 ? [plural(turns, "open turn")] : []),
    ...(waiting > 0 ? [plural(waiting, "waiting call")] : []),
  ].join(" and ");
  if (json) say(safeJson({ database: database.name, turns, waiting, same: all - problems.length, problems }));
  else if (problems.length === 0) {
    const result = all === 0 ? "there are no open turns" : `${found} can be continued by this code`;
    say(`${out.green("✓")} ${database.name}: ${result}`);
  } else say(`${problems.length} of ${found} in ${database.name} cannot be continued by this code`);
  return problems.length === 0 ? exitCodes.ok : exitCodes.failed;
}

/** `turn turn-1 of session s1 of tenant acme (engine default, 12 rows): diverged at call.name, call.arguments`. */
function problemLine({
  tenant,
  sessionId,
  turnId,
  waitingCall,
  engine,
  rows,
  status,
  paths,
  missing,
  message,
}: OpenTurnReplay): string {
  const subject =
    waitingCall === undefined
      ? `turn ${turnId || "?"}`
      : `waiting call ${waitingCall.id} of ${[...waitingCall.parents, waitingCall.name].join(" → ")}`;
  const where = `${subject} of session ${sessionId}${tenant === "" ? "" : ` of tenant ${tenant}`}`;
  const rowCount = waitingCall === undefined ? `, ${plural(rows, "row")}` : "";
  const facts = engine === "" ? "" : ` (engine ${engine}${rowCount})`;
  const what =
    status === "diverged"
      ? `diverged at ${paths.join(", ")}`
      : status === "missing"
        ? `this code has no ${missing.join(", no ")}`
        : (message ?? status);
  return `${where}${facts}: ${what}`;
}
