// `everturn work`: drives queued turns and turns whose process has died, without HTTP, until SIGINT or SIGTERM. Several
// workers on several machines share a Postgres database.

import type { Workspace } from "../workspace.ts";
import type { CommandContext } from "./context.ts";
import type { TurnFailure } from "everturn/runtime";

import { withWorkspace } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { redactor, turnFailureLine } from "./server-log.ts";
import { stopSignal } from "./stop-signal.ts";

export async function work(
  context: CommandContext,
  { concurrency }: { readonly concurrency: number },
): Promise<number> {
  const { say, note, err, io } = context;
  const settings = await context.settings();
  const redact = redactor(settings, io.environment);
  const onTurnFailure = (report: TurnFailure): void =>
    note(err.red(`${new Date().toISOString()} ${redact(turnFailureLine(report))}`));
  const working = async ({ sessions, model, database }: Workspace): Promise<number> => {
    const stop = new AbortController();
    const done = sessions.work({ concurrency, signal: stop.signal });
    say("everturn works");
    note(err.dim(`${model} · ${database.name} · up to ${concurrency} turns`));
    // `done` settles before a signal only if the runtime cannot work.
    await Promise.race([stopSignal(context), done]);
    note(err.dim("handing turns over; press Ctrl-C again to exit immediately"));
    stop.abort();
    await done;
    return exitCodes.ok;
  };
  return withWorkspace(context, working, { onTurnFailure });
}
