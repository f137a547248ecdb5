// `recover`: drives turns that no process drives, makes failed sessions usable, and restarts or ends parked turns.

import type { OpenTurnView, Recovered } from "../../model/internal.ts";
import type { VerbContext } from "../context.ts";
import type { Row } from "../rows/storage.ts";
import type { Found } from "./session-rows.ts";

import { MisuseError, runtimeFailure } from "../../model/internal.ts";
import { recover as recoverSession } from "../../session/internal.ts";
import { loadTurn } from "../drive/driven-turn.ts";
import { effectiveRows } from "../drive/journal.ts";
import { journalPut } from "../rows/journal-rows.ts";
import { ledgerPuts, usageOfRows } from "../rows/ledger.ts";
import { turnKey } from "../rows/session-key.ts";
import { writeSession } from "../rows/session-write.ts";
import { ofTurn } from "../rows/turn-events.ts";
import { pickUpDue } from "./due.ts";
import { endTurn } from "./end-turn.ts";
import { restoreAllDue } from "./restore-due.ts";
import { concurrentWrite, find, openTurn, replaceSession } from "./session-rows.ts";

const nothingRecovered: Recovered = { pickedUp: 0, usable: false, mayRunTwice: [] };

/** Without an id: drives every turn that no process drives. With an id: recovers one session. */
export async function recover(
  context: VerbContext,
  id?: string,
  options: { readonly from?: "step" } = {},
): Promise<Recovered> {
  if (id === undefined) {
    await restoreAllDue(context);
    const { driven } = await pickUpDue(context, { limit: Number.POSITIVE_INFINITY });
    return { ...nothingRecovered, pickedUp: driven };
  }
  const before = await find(context, id);
  const { key, head } = before;
  if (options.from !== undefined && options.from !== "step") {
    const message = `recover: from has to be "step", not ${String(options.from)}`;
    throw new MisuseError("invalid_argument", message, { path: ["from"] });
  }
  const open = await openTurn(context, key, head.turn);
  if (open?.status === "parked") {
    return options.from === "step" ? restartStep(context, before, open) : endParked(context, before, open);
  }
  if (open !== null)
    return { ...nothingRecovered, pickedUp: (await context.turns.pickUp(key, { force: true })) ? 1 : 0 };
  if (head.session.status !== "error") return nothingRecovered;
  await replaceSession(context, before, recoverSession(head.session));
  return { ...nothingRecovered, usable: true };
}

async function endParked(context: VerbContext, before: Found, { turnId, failure }: OpenTurnView): Promise<Recovered> {
  const reason = failure?.type === "runtime_error" ? failure : runtimeFailure("diverged");
  const pickedUp = await endTurn(context, before.key, turnId, { type: "failed", failure: reason });
  if (pickedUp === "held") throw concurrentWrite(before.key, "leases");
  return { pickedUp: pickedUp === "over" ? 0 : pickedUp, usable: true, mayRunTwice: [] };
}

/** Restarts the open step of a parked turn (Q14): a row supersedes the rows of the step; inputs, usage and start marks survive. */
async function restartStep(context: VerbContext, before: Found, { turnId }: OpenTurnView): Promise<Recovered> {
  const { key, head } = before;
  const parked = await loadTurn(context.storage, key, turnId, { parked: true });
  if (parked === null || parked.stored.turn === null) throw concurrentWrite(key, "turns");
  const { rows, stored } = parked;
  const { step, committed } = parked.stored.turn.progress;
  const at = turnKey(key, turnId);
  const prefix = `${turnId}/${step}/`;
  const index = rows.findIndex(({ item }) => item.type === "response" && item.response.id.startsWith(prefix));
  const from = index === -1 ? rows.length + 1 : index + 1;
  const again = rows.slice(from - 1).flatMap(({ item, effect }) => {
    const runs = effect !== null && /"type":"(call_model|call_tool|run_code)"/.test(effect);
    return item.type === "response" && runs ? [item.response.id] : [];
  });
  const withdrawn = effectiveRows(rows).filter((one) => one.ordinal >= from);
  const ordinal = rows.length + 1;
  const restarted = { type: "step_restarted", from, step } as const;
  const row = { effect: null, hash: null, item: restarted, epoch: 0, attempt: 1 };
  const session = recoverSession(head.session);
  const usage = usageOfRows(
    withdrawn.map((one) => one.row),
    session.usage,
  );
  const unpaid = withdrawn.filter((one) => one.ordinal > committed);
  const [records = []] = await context.storage.read([{ table: "records", prefix: at }]);
  const event = { type: "step_reset", reason: "restart", withdrawn: again, effectId: null, attempt: null } as const;
  const now = context.clock.now();
  const write = writeSession(
    { ...stored, version: before.version },
    {
      now,
      session: { after: { ...session, usage }, messages: [], history: head },
      turn: { type: "restart", committed: ordinal, due: now },
      events: [ofTurn(turnId, ordinal, 0, event)],
      also: {
        checks: [],
        removals: records
          .filter((one) => isWithdrawn(one, prefix, again))
          .map((one) => ({ table: "records", prefix: one.key })),
        puts: [journalPut(at, ordinal, row), ...unpaid.flatMap((one) => ledgerPuts(at, one.row.item, one.ordinal))],
      },
    },
  );
  const written = await context.storage.write(write.changes);
  if (!written.ok) throw concurrentWrite(key, write.changes.checks[written.check]?.table);
  const epoch = before.leaseRow?.tag ?? 0;
  const isDriven = context.drives && (await context.turns.driveStored({ key, turn: turnId, epoch }));
  const pickedUp = isDriven ? 1 : 0;
  return { pickedUp, usable: true, mayRunTwice: again };
}

/**
 * Is the record void when the step is restarted? The decision of a gate or a hook is: the restarted step may make other calls. Attempts and delays are,
 * once their cost was counted with the answer of the effect. Start marks are kept.
 */
function isWithdrawn({ key }: Row, step: string, answered: readonly string[]): boolean {
  const [effect, name] = [String(key[3]), String(key[4])];
  if (!effect.startsWith(step)) return false;
  return name === "prepared" || (answered.includes(effect) && /^(?:attempt|delay)\//.test(name));
}
