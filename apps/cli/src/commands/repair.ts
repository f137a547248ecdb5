// `everturn recover` and `everturn cancel`: what an operator does about a turn that is stuck, in any tenant.

import type { CommandContext } from "./context.ts";

import { tenantOf, withSessions } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { locateSession } from "./id-prefix.ts";
import { tenantFlag } from "./pending-call.ts";
import { plural, shellQuote } from "./text.ts";

/** How long `cancel` waits for the end of the turn, in milliseconds. */
const cancelWaitMs = 20_000;

export type RecoverRequest = { readonly id: string; readonly fromStep: boolean };

/** Restarts the step of a parked turn or ends the turn, or makes a failed session usable. Workers drive the turn. */
export async function recover(context: CommandContext, { id: text, fromStep }: RecoverRequest): Promise<number> {
  return withSessions(context, async (all) => {
    const { sessions, id, tenant } = await locateSession(all, text, tenantOf(context));
    const before = await sessions.get(id, { messages: 0 });
    const open = before?.openTurn ?? null;
    const named = `${shellQuote(id)}${tenantFlag(tenant)}`;
    if (open !== null && open.status !== "parked") {
      context.note(
        `turn ${open.turnId} is ${open.status}: a worker drives it (everturn serve, everturn work); everturn cancel ${named} ends it`,
      );
      return exitCodes.failed;
    }
    const { usable, mayRunTwice } = await sessions.recover(id, fromStep ? { from: "step" } : {});
    if (!usable) context.note("nothing to recover: no turn is parked, and the session has not failed");
    else if (open === null) context.note(`session ${id} is usable again`);
    else if (fromStep) context.note(`turn ${open.turnId} goes on with its step: a worker drives it`);
    else context.note(`turn ${open.turnId} has ended; session ${id} is usable again`);
    if (mayRunTwice.length > 0) {
      context.note(`${plural(mayRunTwice.length, "effect")} may run twice: ${mayRunTwice.join(", ")}`);
    }
    return exitCodes.ok;
  });
}

export type CancelRequest = { readonly id: string; readonly reason: string | null };

/** Cancels the open turn, also if no process drives it. */
export async function cancel(context: CommandContext, { id: text, reason }: CancelRequest): Promise<number> {
  const cancelling = async (all: Parameters<typeof locateSession>[0]): Promise<number> => {
    const { sessions, id } = await locateSession(all, text, tenantOf(context));
    const options = { origin: "command", waitMs: cancelWaitMs, ...(reason === null ? {} : { reason }) };
    const result = await sessions.cancel(id, options);
    context.note(cancelTexts[result]);
    return result === "nothing_open" ? exitCodes.failed : exitCodes.ok;
  };
  return withSessions(context, cancelling, { drive: true });
}

const cancelTexts = {
  cancelled: "the turn is cancelled",
  completion_won: "the turn ended before the cancel",
  nothing_open: "no turn is open; everturn recover ends a parked one",
  stored: "the cancel is stored: the process that drives the turn ends it",
} as const;
