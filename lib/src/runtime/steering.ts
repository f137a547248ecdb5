// What is said to a turn that runs: input for its next checkpoint, and that it is to stop.

import type { JsonObject } from "../model/index.ts";
import type { Desk, Found } from "./desk.ts";
import type { Accepted, InboxEntry, InboxInput, SessionHead } from "./stored.ts";
import type { DurableOptions, SteerInput, TurnHandle } from "./types.ts";

import { canonicalJson } from "../kernel/index.ts";
import { message as checkedMessage, MisuseError, RuntimeError, user } from "../model/index.ts";
import { planRun } from "../run/index.ts";
import { checkStatus } from "../session/preconditions.ts";
import { accept, contentDigest, otherContent, reply } from "./accept.ts";
import { merge } from "./changes.ts";
import { keyOf, readOne } from "./context.ts";
import { engineNamed, find, headOf, historyOf, keyFor, lastStart } from "./desk.ts";
import { randomText, sha256 } from "./digest.ts";
import { runOptions, storedOptions } from "./durable-options.ts";
import { attach } from "./handles.ts";
import { acceptedPut, inboxPut, passing } from "./inbox.ts";
import { newTurnId, turnChanges } from "./next-turn.ts";
import { readValue, writeValue } from "./stored.ts";

/** What became of an attempt to take something back. `already_claimed`: a checkpoint is taking it in right now. */
export type Withdrawn = "cancelled" | "already_claimed" | "already_taken" | "already_cancelled" | "not_found";

export type CancelOptions = {
  /** Which turn; the one that is open where it is not said. */
  readonly turnId?: string;
  readonly reason?: string;
  /** Who asks. */
  readonly origin?: string;
};

/** Who won: the cancel, or the end the turn was coming to. */
export type Cancelled = "cancelled" | "completion_won" | "nothing_open";

/** Says something: `reply`, or, while a turn runs, `steer`. */
export async function send(desk: Desk, id: string, text: string, options: DurableOptions = {}): Promise<TurnHandle> {
  for (;;) {
    const { head, version } = await find(desk, id);
    const known = await knownSend(desk, id, text, options);
    if (known !== null) return attach(desk, id, known.turn ?? head.turn);
    if (head.turn !== null) {
      const { turnId } = await steer(desk, id, text, options.key === undefined ? {} : { id: options.key });
      return attach(desk, id, turnId);
    }
    try {
      return await reply(desk, id, text, options);
    } catch (error) {
      // A turn began in this very moment, and perhaps it has ended.
      if (!(error instanceof RuntimeError) || error.reason !== "conflict") throw error;
      if ((await find(desk, id)).version === version) throw error;
    }
  }
}

/** What was said under this key before, as a reply or to a turn that ran; `null`: nothing was. */
async function knownSend(desk: Desk, id: string, text: string, options: DurableOptions): Promise<Accepted | null> {
  const { key } = options;
  if (key === undefined) return null;
  const row = await readOne(desk.context.host.store, { table: "accepted", prefix: [...keyOf(keyFor(desk, id)), key] });
  if (row === null) return null;
  const accepted = readValue("accepted", row);
  const digests = [
    await inputDigest(inboxInput(text)),
    await contentDigest(["reply", user(text), storedOptions(options)]),
  ];
  if (!digests.includes(accepted.digest)) throw otherContent(key);
  return accepted;
}

function inputDigest(input: InboxInput): Promise<string> {
  return sha256(canonicalJson(input));
}

/** Says something to the turn that runs, at its next checkpoint, or else to the next one. Returns the turn that takes it, as things are. */
export async function steer(
  desk: Desk,
  id: string,
  input: SteerInput,
  options: { readonly id?: string; readonly engine?: string } = {},
): Promise<{ readonly inputId: string; readonly turnId: string }> {
  const key = keyFor(desk, id);
  const { store } = desk.context.host;
  const said = inboxInput(input);
  const inputId = options.id ?? `input-${randomText(8)}`;
  const digest = await inputDigest(said);
  for (;;) {
    const [heads = [], counts = [], known = []] = await store.read([
      { table: "sessions", prefix: keyOf(key) },
      { table: "inboxes", prefix: keyOf(key) },
      { table: "accepted", prefix: [...keyOf(key), inputId] },
    ]);
    const { head, version } = headOf(id, heads[0]);
    const [acceptedRow] = known;
    if (acceptedRow !== undefined) {
      const accepted = readValue("accepted", acceptedRow);
      if (accepted.digest !== digest) throw otherContent(inputId);
      return { inputId, turnId: accepted.turn ?? head.turn ?? "" };
    }
    const now = desk.context.clock.now();
    const count = counts[0]?.tag ?? 0;
    const entry: InboxEntry = { id: inputId, input: said, state: "pending", turn: null, epoch: null, at: now };
    if (head.turn === null) {
      const turnId = await startFromInput(desk, id, entry, digest, options.engine ?? null);
      if (turnId !== null) return { inputId, turnId };
      continue;
    }
    const written = await store.write({
      checks: [
        { table: "sessions", key: keyOf(key), tag: version },
        { table: "inboxes", key: keyOf(key), tag: counts[0]?.tag ?? null },
        { table: "accepted", key: [...keyOf(key), inputId], tag: null },
      ],
      removals: [],
      puts: [
        inboxPut([...keyOf(key), count + 1], 0, entry),
        { table: "inboxes", key: keyOf(key), tag: count + 1, value: "" },
        acceptedPut(key, inputId, 0, { digest, state: "pending", turn: null }),
      ],
    });
    if (written.ok) return { inputId, turnId: head.turn };
  }
}

/** Takes back what was said to a turn, if nobody has taken it in. */
export async function withdraw(desk: Desk, id: string, inputId: string): Promise<Withdrawn> {
  const key = keyFor(desk, id);
  const { store } = desk.context.host;
  for (;;) {
    const [known = [], rows = [], leases = []] = await store.read([
      { table: "accepted", prefix: [...keyOf(key), inputId] },
      { table: "inbox", prefix: keyOf(key) },
      { table: "leases", prefix: keyOf(key) },
    ]);
    const [acceptedRow] = known;
    if (acceptedRow === undefined) return "not_found";
    const accepted = readValue("accepted", acceptedRow);
    if (accepted.state === "taken") return "already_taken";
    if (accepted.state === "cancelled") return "already_cancelled";
    const row = rows.find((one) => readValue("inbox", one).id === inputId);
    if (row === undefined) return "not_found";
    const entry = readValue("inbox", row);
    if (entry.state === "claimed" && entry.epoch === leases[0]?.tag) return "already_claimed";
    const written = await store.write({
      checks: [
        { table: "inbox", key: row.key, tag: row.tag },
        { table: "accepted", key: acceptedRow.key, tag: acceptedRow.tag },
      ],
      removals: [{ table: "inbox", prefix: row.key }],
      puts: [acceptedPut(key, inputId, acceptedRow.tag + 1, { ...accepted, state: "cancelled" })],
    });
    if (written.ok) return "cancelled";
  }
}

/** Ends the turn that runs, for good: the command is stored, and survives whoever runs it. Says who won. */
export async function cancel(desk: Desk, id: string, options: CancelOptions = {}): Promise<Cancelled> {
  const { key, head } = await find(desk, id);
  const turn = options.turnId ?? head.turn;
  if (turn === null) return "nothing_open";
  const { store } = desk.context.host;
  const at = [...keyOf(key), turn];
  const { reason = "somebody asked for it", origin = "runtime" } = options;
  const evidence = { requestId: turn, origin, reason };
  for (;;) {
    const [turns = [], cancels = []] = await store.read([
      { table: "turns", prefix: at },
      { table: "cancels", prefix: at },
    ]);
    const [turnRow] = turns;
    if (turnRow === undefined) return "nothing_open";
    const progress = readValue("turns", turnRow);
    if (progress.status === "ended") {
      return progress.end?.outcome.type === "cancelled" ? "cancelled" : "completion_won";
    }
    if (progress.status === "parked") return "nothing_open";
    if (cancels.length > 0) break;
    const written = await store.write({
      checks: [
        { table: "turns", key: at, tag: turnRow.tag },
        { table: "cancels", key: at, tag: null },
      ],
      removals: [],
      puts: [
        { table: "cancels", key: at, tag: 0, value: writeValue("cancels", { evidence, at: desk.context.clock.now() }) },
      ],
    });
    if (written.ok) break;
  }
  desk.pilots.cancel(key, turn, origin, reason);
  await desk.pilots.pickUp(key);
  const end = await attach(desk, id, turn).result;
  return end.outcome.type === "cancelled" ? "cancelled" : "completion_won";
}

/** Something was said to a session in which no turn runs: it becomes one. `null`: somebody was quicker. */
async function startFromInput(
  desk: Desk,
  id: string,
  entry: InboxEntry,
  digest: string,
  engine: string | null,
): Promise<string | null> {
  const found = await find(desk, id);
  if (found.head.turn !== null) return null;
  checkStatus(found.head.session, "reply", null);
  const { session } = found.head;
  if (session.status === "awaiting_user") {
    throw new MisuseError("invalid_status", "steer: the session waits for an answer to its question; reply gives it", {
      path: ["status"],
    });
  }
  const { input } = entry;
  const last = await lastStart(desk, found);
  const wanted = {
    verb: "chat",
    options: last?.options ?? {},
    engine: engine ?? last?.engine ?? "default",
    key: JSON.stringify([entry.id, digest]),
  } as const;
  try {
    if (input.type === "message") {
      const said = { ...session, thread: { ...session.thread, messages: [input.message] } };
      return (await accept(desk, found, false, { ...wanted, session: said })).turnId;
    }
    // Causes and passing messages begin a turn of their own.
    return await acceptInput(desk, found, entry, digest, wanted.engine, wanted.options);
  } catch (error) {
    if (error instanceof RuntimeError && error.reason === "conflict") return null;
    throw error;
  }
}

async function acceptInput(
  desk: Desk,
  found: Found,
  entry: InboxEntry,
  digest: string,
  engine: string,
  options: JsonObject,
): Promise<string> {
  const { key, head, version } = found;
  const { host, clock } = desk.context;
  const turn = newTurnId();
  const now = clock.now();
  const history = await historyOf(desk, key, head);
  const { input } = entry;
  const messages = input.type === "transient" ? [passing(input.message)] : [];
  const turnCauses = input.type === "cause" ? [input.cause] : [];
  const details = {
    verb: "chat",
    history,
    messages,
    turnCauses,
    turnId: turn,
    session: { sessionId: key.session },
  } as const;
  const given = { ...runOptions(options), context: head.session.context };
  const { pinned } = planRun(engineNamed(desk, engine), head.session.thread, given, details);
  const made = await turnChanges(key, turn, {
    verb: "chat",
    engine,
    options,
    base: history.length,
    digest: history.digest,
    pinned,
    answers: [],
    cell: null,
    messages,
    turnCauses,
    inputs: [entry.id],
    spentBefore: head.session.usage,
    acceptedAt: now,
    sequence: head.sequence,
  });
  const nextHead: SessionHead = { ...head, turn };
  const changes = merge(made, {
    checks: [
      { table: "sessions", key: keyOf(key), tag: version },
      { table: "accepted", key: [...keyOf(key), entry.id], tag: null },
    ],
    removals: [],
    puts: [
      { table: "sessions", key: keyOf(key), tag: version + 1, value: writeValue("sessions", nextHead) },
      acceptedPut(key, entry.id, 0, { digest, state: "taken", turn }),
    ],
  });
  const written = await host.store.write(changes);
  if (!written.ok) throw new RuntimeError("conflict", { message: "somebody was quicker" });
  if (desk.drives) await desk.pilots.pickUp(key);
  return turn;
}

function inboxInput(input: SteerInput): InboxInput {
  if (typeof input === "string") return { type: "message", message: user(input) };
  switch (input.type) {
    case "message":
    case "transient": {
      const read = checkedMessage(input.message);
      if (read.role === "user" || read.role === "system") return { type: input.type, message: read };
      throw new MisuseError("invalid_argument", `steer: a ${read.role} message cannot be said to a turn`);
    }
    case "cause":
      return { type: "cause", cause: input.cause };
  }
}
