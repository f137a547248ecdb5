// What is said to a turn that runs: input for its next checkpoint, and that it is to stop.

import type { Cancelled, JsonObject, Withdrawn } from "../../model/internal.ts";
import type { SessionKey } from "../context.ts";
import type { Accepted, InboxEntry, InboxInput, SessionHead } from "../rows/stored.ts";
import type { DurableOptions, SteerInput, TurnHandle } from "../types.ts";
import type { Desk, Found } from "./desk.ts";

import { canonicalJson } from "../../kernel/internal.ts";
import { turnCauseShape } from "../../kernel/machine/read-response.ts";
import {
  EngineError,
  message as checkedMessage,
  MisuseError,
  renderIssue,
  RuntimeError,
  user,
  ValidationError,
} from "../../model/internal.ts";
import { isPlainObject, read } from "../../model/parse/reading.ts";
import { planRun } from "../../run/internal.ts";
import { checkStatus } from "../../session/preconditions.ts";
import { engineOf, keyOf, readOne } from "../context.ts";
import { newTurnId, turnChanges } from "../drive/next-turn.ts";
import { merge } from "../rows/changes.ts";
import { randomText, sha256 } from "../rows/digest.ts";
import { acceptedPut, inboxPut, passing } from "../rows/inbox.ts";
import { readValue, writeHead, writeValue } from "../rows/stored.ts";
import { accept, drivenContent, reply } from "./accept.ts";
import { contentDigest, otherContent } from "./accepted-keys.ts";
import { find, headOf, historyOf, keyFor, lastStart } from "./desk.ts";
import { checkOptions, runOptions, storedOptions } from "./durable-options.ts";
import { attach } from "./handles.ts";
import { sealCancelled } from "./recovery.ts";

export type CancelOptions = {
  /** Which turn; the one that is open where it is not said. */
  readonly turnId?: string;
  readonly reason?: string;
  /** Who asks. */
  readonly origin?: string;
};

/** Says something: `reply`, or, while a turn runs, `steer`. */
export async function send(desk: Desk, id: string, text: string, options: DurableOptions = {}): Promise<TurnHandle> {
  // Checked also where it becomes input of a turn that runs, which goes on as it was told.
  storedOptions(options);
  for (;;) {
    const { head, version } = await find(desk, id);
    const known = await knownSend(desk, id, text, options);
    if (known !== null) return attach(desk, id, known.turn ?? head.turn);
    if (head.turn !== null) {
      const { key, engine } = options;
      const as = { ...(key === undefined ? {} : { id: key }), ...(engine === undefined ? {} : { engine }) };
      const { turnId } = await steer(desk, id, text, as);
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
  const row = await readOne(desk.context.storage, { table: "accepted", prefix: [...keyOf(keyFor(desk, id)), key] });
  if (row === null) return null;
  const accepted = readValue("accepted", row);
  const digests = [
    await inputDigest(inboxInput(text), options.engine),
    await contentDigest(drivenContent("reply", user(text), options)),
  ];
  if (!digests.includes(accepted.digest)) throw otherContent(key);
  return accepted;
}

async function inputDigest(input: InboxInput, engine: string | undefined): Promise<string> {
  return sha256(canonicalJson(engine === undefined ? input : { input, engine }));
}

/** Says something to the turn that runs, at its next checkpoint, or else to the next one. Returns the turn that takes it, as things are. */
export async function steer(
  desk: Desk,
  id: string,
  input: SteerInput,
  options: { readonly id?: string; readonly engine?: string } = {},
): Promise<{ readonly inputId: string; readonly turnId: string }> {
  const key = keyFor(desk, id);
  const { storage } = desk.context;
  checkTexts("steer", options, ["id", "engine"]);
  const said = inboxInput(input);
  const inputId = options.id ?? `input-${randomText(8)}`;
  const digest = await inputDigest(said, options.engine);
  for (;;) {
    const [heads = [], counts = [], known = []] = await storage.read([
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
    const written = await storage.write({
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
  const { storage } = desk.context;
  for (;;) {
    const [known = [], rows = [], leases = []] = await storage.read([
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
    const written = await storage.write({
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
  checkTexts("cancel", options, ["turnId", "reason", "origin"]);
  const { key, head } = await find(desk, id);
  const turn = options.turnId ?? head.turn;
  if (turn === null) return "nothing_open";
  const { storage } = desk.context;
  const at = [...keyOf(key), turn];
  const { reason = "somebody asked for it", origin = "runtime" } = options;
  const evidence = { requestId: turn, origin, reason };
  for (;;) {
    const [turns = [], cancels = []] = await storage.read([
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
    const written = await storage.write({
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
  if (desk.drives) await desk.pilots.pickUp(key);
  // A turn whose engine nobody here has any more can still be ended.
  if (desk.drives && !(await hasEngine(desk, key, turn)) && (await sealCancelled(desk, id, turn, evidence)))
    return "cancelled";
  try {
    const end = await attach(desk, id, turn).result;
    return end.outcome.type === "cancelled" ? "cancelled" : "completion_won";
  } catch (error) {
    // So can one that the engine, as it is now, cannot even begin.
    if (!isUnfit(error) || !(await sealCancelled(desk, id, turn, evidence))) throw error;
    return "cancelled";
  }
}

async function hasEngine({ context }: Desk, key: SessionKey, turn: string): Promise<boolean> {
  const row = await readOne(context.storage, { table: "starts", prefix: [...keyOf(key), turn] });
  return row !== null && Object.hasOwn(context.engines, readValue("starts", row).engine);
}

/** Is it the engine that is wrong, and not the storage? */
function isUnfit(error: unknown): boolean {
  return error instanceof MisuseError || error instanceof EngineError || error instanceof ValidationError;
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
    key: { name: entry.id, digest },
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
  const { storage, clock } = desk.context;
  const turn = newTurnId();
  const now = clock.now();
  const history = await historyOf(desk, key, head);
  const { input } = entry;
  const messages = input.type === "transient" ? [passing(entry.id, input.message)] : [];
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
  const { pinned } = planRun(engineOf(desk.context, engine), head.session.thread, given, details);
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
      { table: "sessions", key: keyOf(key), tag: version + 1, value: writeHead(nextHead) },
      acceptedPut(key, entry.id, 0, { digest, state: "taken", turn }),
    ],
  });
  const written = await storage.write(changes);
  if (!written.ok) throw new RuntimeError("conflict", { message: "somebody was quicker" });
  if (desk.drives) await desk.pilots.pickUp(key);
  return turn;
}

/** Texts that are stored, or name what is: also from callers without a compiler. */
function checkTexts(verb: string, options: { readonly [name: string]: unknown }, names: readonly string[]): void {
  checkOptions(verb, options);
  const stranger = Object.keys(options).find((name) => !names.includes(name));
  if (stranger !== undefined) {
    throw new MisuseError("unknown_field", `${verb}: "${stranger}" is no option`, { path: [stranger] });
  }
  const wrong = names.find((name) => options[name] !== undefined && typeof options[name] !== "string");
  if (wrong === undefined) return;
  throw new MisuseError("invalid_argument", `${verb}: ${wrong} has to be a text`, { path: [wrong] });
}

function inboxInput(input: SteerInput): InboxInput {
  if (typeof input === "string") return { type: "message", message: user(input) };
  const given: unknown = input;
  if (!isPlainObject(given)) {
    throw new MisuseError("invalid_argument", "steer: what is said is a text, a message or a cause");
  }
  switch (input.type) {
    case "message":
    case "transient": {
      const message = checkedMessage(input.message);
      if (message.role === "user" || message.role === "system") return { type: input.type, message };
      throw new MisuseError("invalid_argument", `steer: a ${message.role} message cannot be said to a turn`, {
        path: ["message", "role"],
      });
    }
    case "cause": {
      const found = read(turnCauseShape, input.cause);
      if ("value" in found) return { type: "cause", cause: found.value };
      const [first] = found.issues;
      const why = first === undefined ? "it does not fit" : renderIssue(first);
      throw new MisuseError("invalid_argument", `steer: the cause: ${why}`, {
        path: ["cause", ...(first?.path ?? [])],
      });
    }
    default:
      throw new MisuseError("invalid_argument", "steer: the type has to be message, transient or cause", {
        path: ["type"],
      });
  }
}
