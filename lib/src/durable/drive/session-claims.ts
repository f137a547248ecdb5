// Claims sessions for this process: a free lease, an expired one (a takeover), or one whose process has ended. Writes
// the claim, the slots of the turn's limits and the count of takeovers in one batch, with a compare-and-swap on the
// lease row.
//
// Takeovers (Q17)
//   A claim after an expired lease is a takeover: the process before it crashed or was blocked. The count is on the
//   turn row and is reset by every new journal row. From the second takeover on, the turn waits with exponential
//   backoff and is driven alone. At `maxTakeovers` it is parked (`takeovers.ts`). `force` (recover with an id, cancel)
//   resets the count and does not wait.
//
// Why the claim of a due turn is a batch of its own
//   A due turn needs one write before its first effect, the claim; its first commit is the response of that effect. The
//   claim cannot wait for that commit: the effect would be performed without a lease, by several processes at once
//   (H3). (A turn that this process accepts is claimed by the accepting batch.) Two kinds of turns need a second write
//   before their first effect: start marks of approved calls, and messages of a turn that input has started. Both
//   follow from the loaded turn, so one batch would have to claim after loading. Then a turn that ends its process
//   while it is loaded leaves no lease that expires: no takeover is counted, and every process would load it again,
//   without bound (Q17). Several workers would also load and plan one turn at once.
//
// Invariants
//   1. A session is claimed for a turn only if the limits admit the turn (`admission.ts`), except to end it.
//   2. A turn whose claim is put off has its row in `work` at the time of the next attempt, or waits for a limit.

import type { Changes } from "../rows/batch.ts";
import type { Claim, Lease, Observation } from "../rows/lease.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { HostStorage, Row } from "../rows/storage.ts";
import type { OpenTurn } from "../rows/values.ts";
import type { Decision } from "./admission.ts";
import type { RuntimeContext } from "./context.ts";
import type { DrivenTurn } from "./driven-turn.ts";

import { monotonicNow } from "../../core/clock/clock.ts";
import { toolEffectId } from "../../core/kernel/internal.ts";
import { isEverturnError, RuntimeError } from "../../core/model/internal.ts";
import { merge, noChanges, putting } from "../rows/batch.ts";
import { claim, leasePut, releasePut } from "../rows/lease.ts";
import { leaveLine } from "../rows/limits.ts";
import { moveDue, moveIndexedDue, removeDue } from "../rows/open-rows.ts";
import { keyOf, nameOf, turnKey } from "../rows/session-key.ts";
import { readValue, writeValue } from "../rows/stored.ts";
import { admissionOf } from "./admission.ts";
import { readOne } from "./context.ts";
import { loadTurn } from "./driven-turn.ts";
import { effectiveRows } from "./journal.ts";
import { releaseLease } from "./lease-holder.ts";
import { backoffMs, isAtLimit, isSuspect } from "./takeovers.ts";
import { TurnCommitter } from "./turn-committer.ts";

/** Whether a suspect may be driven now: alone, beside other turns, or later, when this process drives nothing else. */
export type SuspectPlace = "alone" | "beside" | "later";

/** Claims and releases the leases of sessions. */
export class SessionClaims {
  readonly #context: RuntimeContext;
  readonly #serveWaiting: (scopes: readonly string[]) => void;
  /** Lease rows that expire too far ahead, by session (`rows/lease.ts`, invariant 6). */
  readonly #observations = new Map<string, Observation>();

  /** `serveWaiting`: starts turns that wait for a slot of these scopes. */
  constructor(context: RuntimeContext, serveWaiting: (scopes: readonly string[]) => void) {
    this.#context = context;
    this.#serveWaiting = serveWaiting;
  }

  /** Claims the lease of a session. `null`: another process holds it. */
  async claim(key: SessionKey): Promise<Lease | null> {
    const row = await readOne(this.#context.storage, { table: "leases", prefix: keyOf(key) });
    const claimed = this.#claimOf(key, row);
    if (claimed.type === "busy") return null;
    const { check, put, lease } = claimed;
    const written = await this.#context.storage.write({ checks: [check], removals: [], puts: [put] });
    return written.ok ? lease : null;
  }

  #claimOf(key: SessionKey, row: Row | null): Claim {
    const { clock, owner, storage, lease: timings } = this.#context;
    const observed = this.#observed(key, row);
    return claim(keyOf(key), row, owner(), clock, timings, { observed, liveness: storage.liveness ?? null });
  }

  /** Since when the lease row is unchanged, for a row that expires too far ahead (`rows/lease.ts`, invariant 6). */
  #observed(key: SessionKey, row: Row | null): Observation | null {
    const name = nameOf(key);
    if (row === null || row.remainingMs === null || row.remainingMs <= this.#context.lease.ttlMs) {
      this.#observations.delete(name);
      return null;
    }
    const earlier = this.#observations.get(name);
    if (earlier?.token === row.tag && earlier.expires === row.expires) return earlier;
    const since = monotonicNow(this.#context.clock);
    const observation = { token: row.tag, expires: row.expires, since };
    this.#observations.set(name, observation);
    return observation;
  }

  /** Releases a lease, and makes the open turn of the session due now. Does not reject (`releaseLease`). */
  async release(key: SessionKey, lease: Lease): Promise<void> {
    await releaseLease(this.#context, key, lease, async () => {
      const open = await openTurn(this.#context.storage, key).catch(unlessUnreadable);
      return open === null ? noChanges : moveDue(key, open, this.#context.clock.now());
    });
  }

  /**
   * Claims the session of an open turn, takes the slots that its limits require, and counts a takeover, all in one
   * batch (Q17). `isLimit`: the caller has to park the turn. A turn that the limits do not admit is stored as waiting.
   * `placeOf`: whether a suspect may be driven.
   */
  async takeOver(
    key: SessionKey,
    open: OpenTurn,
    row: Row | null,
    force: boolean,
    placeOf: () => SuspectPlace,
  ): Promise<{ readonly lease: Lease; readonly isLimit: boolean } | "moved" | "left"> {
    for (let attempt = 0; ; attempt += 1) {
      const outcome = await this.#tryTakeOver(key, open, row, force, placeOf, attempt);
      if (outcome !== "slot_taken") return outcome;
    }
  }

  /** One attempt. `slot_taken`: another turn has taken the chosen slot of a limit meanwhile. */
  async #tryTakeOver(
    key: SessionKey,
    open: OpenTurn,
    row: Row | null,
    force: boolean,
    placeOf: () => SuspectPlace,
    attempt: number,
  ): Promise<{ readonly lease: Lease; readonly isLimit: boolean } | "moved" | "left" | "slot_taken"> {
    const { storage, clock, maxTakeovers } = this.#context;
    const claimed = this.#claimOf(key, row);
    if (claimed.type === "busy") return "left";
    const { check, put, lease, freeMs, wasAlone } = claimed;
    const now = clock.now();
    const countsTakeover = claimed.takesOver || force;
    const { turnRow, decision } = await this.#admission(key, open, attempt, countsTakeover);
    const admitted = { ...open, limit: decision.limit };
    if (decision.limit?.type === "waiting") {
      // The next epoch, as for a claim: of several processes that examine the turn at once, one writes.
      const released = releasePut(keyOf(key), lease);
      await storage.write(
        merge({ checks: [check], removals: [], puts: [released] }, removeDue(key, admitted), decision.changes),
      );
      this.#serveWaiting([decision.limit.scope]);
      return "moved";
    }
    const claiming = merge(
      { checks: [check], removals: [], puts: [] },
      moveDue(key, admitted, now + lease.ttlMs),
      decision.changes,
    );
    if (turnRow === null || !countsTakeover) {
      return (await this.#writeClaim(merge(claiming, putting(put)), open)) ?? { lease, isLimit: false };
    }
    const progress = readValue("turns", turnRow);
    const before = force ? 0 : progress.takeovers;
    // Not from now: the turn is examined again and again while it waits.
    const waitMs = before === 0 ? 0 : backoffMs(nameOf(key), before) - freeMs;
    if (waitMs > 0) {
      await storage.write(
        merge({ checks: [check], removals: [], puts: [] }, moveIndexedDue(key, open, now + Math.ceil(waitMs))),
      );
      return "moved";
    }
    const takeovers = force ? 0 : before + 1;
    const isLimit = isAtLimit(takeovers, wasAlone, maxTakeovers);
    const place = isLimit || !isSuspect(takeovers, maxTakeovers) ? "beside" : placeOf();
    if (place === "later") return "left";
    // A claim that only parks the turn keeps what is known of the claim before it: its process may end, too.
    const held = { ...lease, alone: isLimit ? wasAlone : place === "alone" };
    const counted: Changes = {
      checks: [{ table: "turns", key: turnRow.key, tag: turnRow.tag }],
      removals: [],
      puts: [
        leasePut(keyOf(key), held),
        {
          table: "turns",
          key: turnRow.key,
          tag: turnRow.tag + 1,
          value: writeValue("turns", { ...progress, takeovers }),
        },
      ],
    };
    return (await this.#writeClaim(merge(claiming, counted), open)) ?? { lease: held, isLimit };
  }

  /**
   * Reads the row of the turn if it is needed, and what the limits decide. A turn that is to be cancelled performs
   * nothing and needs no slot.
   */
  async #admission(
    key: SessionKey,
    open: OpenTurn,
    attempt: number,
    needsRow: boolean,
  ): Promise<{ readonly turnRow: Row | null; readonly decision: Decision }> {
    const { storage } = this.#context;
    const at = turnKey(key, open.turn);
    const { queries, decide } = admissionOf(this.#context, { ...open, key });
    const cancelQuery = queries.length === 0 ? [] : [{ table: "cancels", prefix: at } as const];
    if (queries.length === 0 && !needsRow) {
      return { turnRow: null, decision: await decide([], { turn: open.turn, attempt }) };
    }
    const [turns = [], ...rest] = await storage.read([{ table: "turns", prefix: at }, ...cancelQuery, ...queries]);
    const isCancelled = queries.length > 0 && (rest[0] ?? []).length > 0;
    const decision = isCancelled
      ? { limit: null, changes: leaveLine(key, open.limit) }
      : await decide(rest.slice(cancelQuery.length), { turn: open.turn, attempt });
    return { turnRow: turns[0] ?? null, decision };
  }

  /** Writes a claim. Returns `null` if it was written. The turns that waited with this one may start too. */
  async #writeClaim(claiming: Changes, open: OpenTurn): Promise<"left" | "slot_taken" | null> {
    const written = await this.#context.storage.write(claiming);
    if (!written.ok) return claiming.checks[written.check]?.table === "slots" ? "slot_taken" : "left";
    if (open.limit?.type === "waiting") this.#serveWaiting([open.limit.scope]);
    return null;
  }

  /** Parks a turn at the takeover limit: something in it ends or blocks every process that drives it. */
  async parkAtLimit(key: SessionKey, id: string, lease: Lease): Promise<void> {
    const turn = await loadTurn(this.#context.storage, key, id);
    if (turn === null) return this.release(key, lease);
    const committer = new TurnCommitter(this.#context, turn, lease);
    await committer.park(takeoverLimit(turn));
    this.#serveWaiting(committer.final.servedScopes);
  }
}

/** Returns the open turn of a session; `null`: none. */
export async function openTurn(storage: HostStorage, key: SessionKey): Promise<OpenTurn | null> {
  const row = await readOne(storage, { table: "open", prefix: keyOf(key) });
  return row === null ? null : readValue("open", row);
}

/** The result for a row that this release cannot read. Other errors are the storage's, and pass. */
function unlessUnreadable(error: unknown): null {
  if (isEverturnError(error) && (error.reason === "corrupt_row" || error.reason === "newer_schema")) return null;
  throw error;
}

/**
 * The failure of a turn at the takeover limit. It names the effects that were open: calls of the newest reply, and
 * effects with records, that have no response. One of them was being performed.
 */
function takeoverLimit({ id, stored, rows, records }: DrivenTurn): RuntimeError {
  const responses = effectiveRows(rows).flatMap(({ row: { item } }) =>
    item.type === "response" ? [item.response] : [],
  );
  const answered = new Set(responses.map((response) => response.id));
  const { step = 0, takeovers = 0 } = stored.turn?.progress ?? {};
  const [reply] = responses
    .filter((response) => response.type === "model_replied" && response.id.startsWith(`${id}/${step}/`))
    .slice(-1);
  const calls = reply?.type === "model_replied" ? reply.reply.toolCalls : [];
  const texts = new Map(
    calls.map(({ name }, slot) => [toolEffectId({ turnId: id, step }, slot), `the call "${name}"`]),
  );
  const recorded = Array.from(records.keys(), (name): string => JSON.parse(name)[0]);
  const open = [...new Set([...texts.keys(), ...recorded])].filter((effectId) => !answered.has(effectId));
  const named = open.map((effectId) => texts.get(effectId) ?? effectText(effectId, id));
  const where =
    named.length > 0
      ? `${named.join(", ")} of step ${step + 1}`
      : `step ${step + 1}${reply === undefined ? ", before a reply of the model was recorded" : ""}`;
  return new RuntimeError("takeover_limit", {
    message: `the turn ${id} was taken over ${takeovers === 1 ? "once" : `${takeovers} times`} without a new journal row: every process that drove it crashed or was blocked in ${where}; fix the cause, then call recover(id, { from: "step" }), or end the turn with recover(id)`,
    metadata: { step, effects: open },
  });
}

/** An effect without the turn and the step in its id. */
function effectText(effectId: string, turn: string): string {
  const name = effectId.startsWith(`${turn}/`) ? effectId.split("/").slice(2).join("/") : effectId;
  return name === "model" ? "the model call" : `the effect ${name}`;
}
