// A turn is accepted by one write: what it begins with, that it is open, and what it is pinned to. Here is what that write holds, and the turn that
// is made of what was said too late for the one before (Q11).

import type { TurnCause, TurnHistory } from "../../kernel/internal.ts";
import type { JsonObject, Message, Session } from "../../model/internal.ts";
import type { Pinned } from "../../run/internal.ts";
import type { RuntimeContext, SessionKey } from "../context.ts";
import type { Changes } from "../rows/changes.ts";
import type { Check } from "../rows/storage.ts";
import type { TurnProgress, TurnStart } from "../rows/stored.ts";

import { canonicalJson, kernelRevision } from "../../kernel/internal.ts";
import { planRun } from "../../run/internal.ts";
import { isOpen } from "../../session/preconditions.ts";
import { engineOf, keyOf } from "../context.ts";
import { merge, nothing } from "../rows/changes.ts";
import { randomText, sha256 } from "../rows/digest.ts";
import { deliveryOf, takenInputs } from "../rows/inbox.ts";
import { readValue, writeValue } from "../rows/stored.ts";

export function newTurnId(): string {
  return `turn-${randomText(10)}`;
}

/** What has to be known of a turn to accept it. */
export type NewTurn = Omit<TurnStart, "revision" | "pinned"> & { readonly pinned: Pinned; readonly sequence: number };

/** The part of a batch that makes a turn. */
export async function turnChanges(key: SessionKey, turn: string, given: NewTurn): Promise<Changes> {
  const { pinned, sequence, ...rest } = given;
  const content = canonicalJson(pinned);
  const digest = await sha256(content);
  const start: TurnStart = { ...rest, revision: kernelRevision, pinned: digest };
  const progress: TurnProgress = {
    status: "queued",
    committed: 0,
    sequence,
    step: 0,
    end: null,
    failure: null,
  };
  const at = [...keyOf(key), turn];
  return {
    checks: [{ table: "turns", key: at, tag: null }],
    removals: [],
    puts: [
      { table: "starts", key: at, tag: 0, value: writeValue("starts", start) },
      { table: "turns", key: at, tag: 0, value: writeValue("turns", progress) },
      { table: "contents", key: [key.tenant, digest], tag: 0, value: writeValue("contents", pinned) },
      { table: "open", key: keyOf(key), tag: 0, value: writeValue("open", { turn, engine: start.engine }) },
    ],
  };
}

/** What a turn does with what is in the inbox when it has ended. */
export type Follows = {
  /** The number of inputs there have been: if there is one more, this has to be worked out again. */
  readonly inboxTag: number | null;
  readonly turn: string | null;
  readonly changes: Changes;
};

export async function nextTurn(
  context: RuntimeContext,
  key: SessionKey,
  last: Pick<TurnStart, "engine" | "options">,
  session: Session<JsonObject>,
  history: TurnHistory,
  sequence: number,
  now: number,
): Promise<Follows> {
  const { storage } = context;
  const [counts = [], rows = []] = await storage.read([
    { table: "inboxes", prefix: keyOf(key) },
    { table: "inbox", prefix: keyOf(key) },
  ]);
  const inboxTag = counts[0]?.tag ?? null;
  const closed: Changes = { ...nothing, removals: [{ table: "open", prefix: keyOf(key) }] };
  const rests = (session.status === "idle" || session.status === "completed") && !session.pendingToolCalls.some(isOpen);
  if (!rests || rows.length === 0) return { inboxTag, turn: null, changes: closed };
  const turn = newTurnId();
  const { messages, transientMessages, turnCauses, inputs } = deliveryOf(
    turn,
    rows.map((row) => readValue("inbox", row)),
  );
  const said = [...messages, ...transientMessages];
  const pinned = pinnedFor(context, key, last, session, history, said, turnCauses, turn);
  if (pinned === null) return { inboxTag, turn: null, changes: closed };
  const made = await turnChanges(key, turn, {
    verb: "chat",
    engine: last.engine,
    options: last.options,
    base: history.length,
    digest: history.digest,
    pinned,
    answers: [],
    cell: null,
    messages: said,
    turnCauses,
    inputs,
    spentBefore: session.usage,
    acceptedAt: now,
    sequence,
  });
  // What is taken back in this very moment is not taken in.
  const checks = rows.map(({ key: at, tag }): Check => ({ table: "inbox", key: at, tag }));
  return {
    inboxTag,
    turn,
    changes: merge(made, await takenInputs(storage, key, inputs, turn), { ...nothing, checks }),
  };
}

/** What the next turn is pinned to; `null` when it could not be begun as things are: what was said then waits on. */
function pinnedFor(
  context: RuntimeContext,
  key: SessionKey,
  { engine, options }: Pick<TurnStart, "engine" | "options">,
  session: Session<JsonObject>,
  history: TurnHistory,
  messages: readonly Message[],
  turnCauses: readonly TurnCause[],
  turnId: string,
): Pinned | null {
  const { waits: _, ...said } = options;
  try {
    const details = {
      verb: "chat",
      history,
      messages,
      turnCauses,
      turnId,
      session: { sessionId: key.session },
    } as const;
    return planRun(engineOf(context, engine), session.thread, { ...said, context: session.context }, details).pinned;
  } catch {
    return null;
  }
}
