// Verbs that drive: what they do to the session is layer D's, and one write accepts it together with the turn that follows from it.

import type { Engine } from "../../engine/internal.ts";
import type { TurnHistory } from "../../kernel/internal.ts";
import type { JsonObject, Message, Session, UserMessage } from "../../model/internal.ts";
import type { DecisionInput } from "../../session/internal.ts";
import type { Verb } from "../../session/preconditions.ts";
import type { SessionKey } from "../context.ts";
import type { Changes } from "../rows/changes.ts";
import type { SessionHead } from "../rows/stored.ts";
import type { DurableOptions, StartOptions, TurnHandle } from "../types.ts";
import type { AcceptedKey } from "./accepted-keys.ts";
import type { Desk, Found } from "./desk.ts";

import { startHistory } from "../../kernel/internal.ts";
import {
  fromMessages,
  message as checkedMessage,
  MisuseError,
  parse,
  RuntimeError,
  session as newSession,
  user,
} from "../../model/internal.ts";
import { isPlainObject } from "../../model/parse/reading.ts";
import { planRun } from "../../run/internal.ts";
import { decisionsOf, hear } from "../../session/answers.ts";
import { decide as decideCall, submitToolResults as submitResults } from "../../session/internal.ts";
import { checkStatus, isOpen } from "../../session/preconditions.ts";
import { engineOf, keyOf, nameOf } from "../context.ts";
import { newTurnId, turnChanges } from "../drive/next-turn.ts";
import { merge, nothing } from "../rows/changes.ts";
import { randomText, sha256 } from "../rows/digest.ts";
import { acceptedPut } from "../rows/inbox.ts";
import { claim } from "../rows/lease.ts";
import { readValue, writeHead, writeValue } from "../rows/stored.ts";
import { acceptedKey, once } from "./accepted-keys.ts";
import { entryPuts, extended, find, historyOf, keyFor, lastEngine, lastStart, leaseRow } from "./desk.ts";
import { checkOptions, runOptions, storedOptions, storedStartOptions } from "./durable-options.ts";
import { handle } from "./handles.ts";

/** What a verb makes of a session: the session after it, with nothing but the new messages in its thread, and whether to drive. */
type Wanted = {
  readonly session: Session<JsonObject>;
  readonly verb: "chat" | "step" | null;
  readonly options: JsonObject;
  readonly engine: string;
  /** What it is known by, if the caller gave it a key. */
  readonly key: AcceptedKey | null;
  /** What else has to be written with it. */
  readonly also?: Changes;
};

/** Begins a session with words, messages or a whole session, and drives it. */
export async function start(
  desk: Desk,
  input: string | readonly Message[] | Session<JsonObject>,
  options: StartOptions = {},
): Promise<TurnHandle> {
  const stored = storedStartOptions(options);
  const { id = await newSessionId(options.key), engine = "default" } = options;
  const given = sessionOf(input, options);
  checkStatus(given, "start", null);
  const key = keyFor(desk, id);
  const content = ["start", { ...given, id: null }, stored, engine];
  return once(desk, key, options.key, content, () => begin(desk, key, given, options, stored, content));
}

async function begin(
  desk: Desk,
  key: SessionKey,
  given: Session<JsonObject>,
  options: StartOptions,
  stored: JsonObject,
  content: unknown,
): Promise<TurnHandle> {
  const id = key.session;
  const [heads = [], leases = []] = await desk.context.storage.read([
    { table: "sessions", prefix: keyOf(key) },
    { table: "leases", prefix: keyOf(key) },
  ]);
  const [headRow] = heads;
  const before = headRow === undefined ? null : readValue("sessions", headRow);
  if (before !== null && !before.deleted) {
    throw new RuntimeError("conflict", {
      message: `a session ${JSON.stringify(id)} is there already; say something to it with reply, or start one under another id`,
    });
  }
  const now = desk.context.clock.now();
  const head: SessionHead = {
    session: { ...given, id, thread: { ...given.thread, messages: [] } },
    length: 0,
    digest: startHistory([]).digest,
    turn: null,
    lastTurn: null,
    sequence: before?.sequence ?? 0,
    createdAt: now,
    changedAt: now,
    deleted: false,
  };
  const found: Found = { key, head, version: headRow?.tag ?? 0, leaseRow: leases[0] ?? null };
  return accept(desk, found, headRow === undefined, {
    session: { ...given, id },
    verb: "chat",
    options: stored,
    engine: options.engine ?? "default",
    key: await acceptedKey(options.key, content),
  });
}

/** The same key begins the same session, whoever asks and how often. */
async function newSessionId(key: string | undefined): Promise<string> {
  const name = key === undefined ? randomText(10) : (await sha256(JSON.stringify(["start", key]))).slice(0, 20);
  return `session-${name}`;
}

/** Says something to a session and lets it answer: its question, if it has one, or whatever comes next. */
export async function reply(desk: Desk, id: string, text: string, options: DurableOptions = {}): Promise<TurnHandle> {
  return heard(desk, id, "reply", user(text), options);
}

/** Goes on, with a message or without one. */
export async function continueSession(
  desk: Desk,
  id: string,
  message: Message | null = null,
  options: DurableOptions = {},
): Promise<TurnHandle> {
  if (message?.role === "user") return heard(desk, id, "continue", message, options);
  return drivenBy(desk, id, "continue", message, options, "chat", (session) => {
    return message === null
      ? session
      : { ...session, thread: { ...session.thread, messages: [checkedMessage(message)] } };
  });
}

/** One reply and its tools. */
export async function step(desk: Desk, id: string, options: DurableOptions = {}): Promise<TurnHandle> {
  return drivenBy(desk, id, "step", null, options, "step", (session) => {
    if (session.suspendedCell === null) return session;
    throw new MisuseError("invalid_status", "step: a cell of code waits to go on; continue drives it", {
      path: ["suspendedCell"],
    });
  });
}

/** Gives results of calls that wait. The one that answers the last of them lets the session go on, unless `continue` is `false`. */
export async function submitToolResults(
  desk: Desk,
  id: string,
  results: readonly (readonly [toolCallId: string, content: unknown])[],
  options: DurableOptions & { readonly continue?: boolean } = {},
): Promise<TurnHandle> {
  return answer(desk, id, options, (session) => submitResults(session, results), ["submit", results]);
}

/** Consents to a call that waits for it, perhaps with other arguments, or refuses it. */
export async function decide(
  desk: Desk,
  id: string,
  toolCallId: string,
  decision: DecisionInput,
  options: DurableOptions & { readonly continue?: boolean } = {},
): Promise<TurnHandle> {
  checkOptions("decide", options);
  const engine = engineOf(desk.context, options.engine ?? (await lastEngine(desk, id)));
  return answer(desk, id, options, (session) => decided(engine, session, toolCallId, decision), [
    "decide",
    toolCallId,
    decision,
  ]);
}

async function heard(
  desk: Desk,
  id: string,
  verb: Verb,
  said: UserMessage,
  options: DurableOptions,
): Promise<TurnHandle> {
  return drivenBy(desk, id, verb, said, options, "chat", (session) => hear(session, checkedUser(said)));
}

/** A verb that drives: what it does to the session is layer D's. */
async function drivenBy(
  desk: Desk,
  id: string,
  verb: Verb,
  message: Message | null,
  options: DurableOptions,
  drives: "chat" | "step",
  change: (session: Session<JsonObject>) => Session<JsonObject>,
): Promise<TurnHandle> {
  const stored = storedOptions(options);
  const content = drivenContent(verb, message, options);
  return once(desk, keyFor(desk, id), options.key, content, async () => {
    const found = await find(desk, id);
    checkFree(found, options.version);
    checkStatus(found.head.session, verb, message);
    return accept(desk, found, false, {
      session: change(found.head.session),
      verb: drives,
      options: stored,
      engine: options.engine ?? "default",
      key: await acceptedKey(options.key, content),
    });
  });
}

/** What is said with a verb that drives: all of it, but for the version it relies on. */
export function drivenContent(verb: Verb, message: Message | null, options: DurableOptions): readonly unknown[] {
  return [verb, message, storedOptions(options), options.engine ?? "default"];
}

/** A verb that answers calls: the last answer drives (Q8). */
export async function answer(
  desk: Desk,
  id: string,
  options: DurableOptions & { readonly continue?: boolean },
  change: (session: Session<JsonObject>) => Session<JsonObject> | Promise<Session<JsonObject>>,
  said: unknown,
  also: Changes = nothing,
): Promise<TurnHandle> {
  const stored = storedOptions(options);
  const content = [said, stored, options.engine ?? null, options.continue ?? true];
  return once(desk, keyFor(desk, id), options.key, content, async () => {
    const found = await find(desk, id);
    checkFree(found, options.version);
    const session = await change(found.head.session);
    const last = await lastStart(desk, found);
    return accept(desk, found, false, {
      session,
      verb: options.continue === false ? null : "chat",
      // Answers go on with what the turn that asked was told, but for what they say otherwise.
      options: { ...last?.options, ...stored },
      engine: options.engine ?? last?.engine ?? "default",
      key: await acceptedKey(options.key, content),
      also,
    });
  });
}

export async function accept(desk: Desk, found: Found, isNew: boolean, wanted: Wanted): Promise<TurnHandle> {
  const { key, head, version } = found;
  const { session, verb } = wanted;
  const { storage, clock, owner, lease: timings, histories } = desk.context;
  const said = session.thread.messages;
  const now = clock.now();
  const before = isNew ? startHistory([]) : await historyOf(desk, key, head);
  const history = extended(before, said);
  const drives = verb !== null && !isWaiting(session);
  const turn = drives ? newTurnId() : null;
  const sequence = head.sequence + (drives ? 1 : 0);
  const made = turn === null ? nothing : await newTurn(desk, key, turn, wanted, history, sequence, now);
  const nextHead: SessionHead = {
    ...head,
    session: { ...session, thread: { ...session.thread, messages: [] } },
    length: history.length,
    digest: history.digest,
    turn,
    sequence,
    changedAt: now,
  };
  const claimed =
    turn !== null && desk.drives && !desk.pilots.closing
      ? claim(keyOf(key), found.leaseRow, owner, now, timings)
      : null;
  const leased = claimed?.type === "acquired" ? claimed : null;
  const known = wanted.key;
  const started = { turn: turn ?? "", ordinal: 0, index: 0, settles: null } as const;
  const event = { type: "turn_started", turnId: turn ?? "", sessionId: key.session } as const;
  const told =
    turn === null
      ? []
      : [
          {
            table: "events",
            key: [...keyOf(key), sequence],
            tag: 0,
            value: writeValue("events", { ...started, event }),
          } as const,
        ];
  const changes: Changes = {
    checks: [
      { table: "sessions", key: keyOf(key), tag: isNew ? null : version },
      ...(leased === null ? [] : [leased.check]),
      ...(known === null ? [] : [{ table: "accepted", key: [...keyOf(key), known.name], tag: null } as const]),
    ],
    removals: isNew ? [] : [{ table: "recent", prefix: [key.tenant, head.changedAt, key.session] }],
    puts: [
      { table: "sessions", key: keyOf(key), tag: version + 1, value: writeHead(nextHead) },
      { table: "recent", key: [key.tenant, now, key.session], tag: 0, value: "" },
      ...entryPuts(key, head.length, said),
      ...(leased === null ? [] : [leased.put]),
      ...(known === null ? [] : [acceptedPut(key, known.name, 0, { digest: known.digest, state: "taken", turn })]),
      ...told,
    ],
  };
  const batch = merge(changes, made, wanted.also ?? nothing);
  const written = await storage.write(batch);
  if (!written.ok) {
    const failed = batch.checks[written.check];
    // Whoever was quicker to get the lease drives; the turn can still be accepted.
    if (failed?.table === "leases")
      return accept(desk, { ...found, leaseRow: await leaseRow(desk, key) }, isNew, wanted);
    throw new RuntimeError("conflict", {
      message: `somebody else wrote to session ${key.session} in this moment (${failed?.table ?? "?"}); look at it again`,
      metadata: { table: failed?.table ?? null },
    });
  }
  // One who only accepts has not read what came before.
  if (isNew || desk.drives) histories.keep(nameOf(key), history);
  if (turn !== null && leased !== null) desk.pilots.fly(key, turn, leased.lease);
  // Somebody had the session in this moment: they look for what was accepted meanwhile when they let go, unless they have.
  else if (turn !== null && desk.drives) await desk.pilots.pickUp(key);
  return handle(desk, key, turn, { sequence: head.sequence, position: null });
}

async function newTurn(
  desk: Desk,
  key: SessionKey,
  turn: string,
  { session, verb, options, engine }: Wanted,
  history: TurnHistory,
  sequence: number,
  now: number,
): Promise<Changes> {
  const answers = decisionsOf(session);
  const details = {
    verb: verb ?? "chat",
    history,
    answers,
    cell: session.suspendedCell,
    turnId: turn,
    spentBefore: session.usage,
    session: { sessionId: key.session },
  };
  const given = { ...runOptions(options), context: session.context };
  const { pinned } = planRun(engineOf(desk.context, engine), session.thread, given, details);
  return turnChanges(key, turn, {
    verb: verb ?? "chat",
    engine,
    options,
    base: history.length,
    digest: history.digest,
    pinned,
    answers,
    cell: session.suspendedCell,
    messages: [],
    turnCauses: [],
    inputs: [],
    spentBefore: session.usage,
    acceptedAt: now,
    sequence,
  });
}

function checkFree({ key, head, version }: Found, wanted: number | undefined): void {
  if (wanted !== undefined && wanted !== version) {
    throw new RuntimeError("conflict", {
      message: `session ${key.session} is at version ${version}, not ${wanted}: somebody wrote to it meanwhile; look at it again`,
      metadata: { version, wanted },
    });
  }
  if (head.turn === null) return;
  const isParked = head.session.status === "error";
  throw new RuntimeError("conflict", {
    message: `a turn (${head.turn}) is ${isParked ? "parked" : "open"} in session ${key.session}; ${isParked ? "recover the session" : "wait for it, steer it, or cancel it"}`,
    metadata: { turnId: head.turn },
  });
}

function sessionOf(
  input: string | readonly Message[] | Session<JsonObject>,
  { context, metadata }: Pick<StartOptions, "context" | "metadata">,
): Session<JsonObject> {
  const messages = typeof input === "string" ? [user(input)] : isMessages(input) ? input : null;
  const given: unknown = messages === null ? input : newSession({ thread: fromMessages(messages) });
  // What the verb is told wins over what the session says.
  const said = { ...(context === undefined ? {} : { context }), ...(metadata === undefined ? {} : { metadata }) };
  const whole = isPlainObject(given) ? { ...given, ...said } : given;
  // All of it is stored: what JSON cannot say would be lost on the way.
  const read = parse("session", whole);
  if (read.ok) return read.value;
  const [issue] = read.failure.issues;
  throw new MisuseError("invalid_argument", `start: ${read.failure.message}`, { path: issue?.path ?? [] });
}

function isMessages(input: readonly Message[] | Session<JsonObject>): input is readonly Message[] {
  return Array.isArray(input);
}

function checkedUser(said: UserMessage): UserMessage {
  const read = checkedMessage(said);
  if (read.role === "user") return read;
  throw new MisuseError("invalid_argument", "only a user's message can be said to a session");
}

/** What layer D makes of a decision; the context is the session's own. */
export async function decided(
  engine: Engine,
  session: Session<JsonObject>,
  toolCallId: string,
  decision: DecisionInput,
): Promise<Session<JsonObject>> {
  return { ...(await decideCall(engine, session, toolCallId, decision)), context: session.context };
}

function isWaiting({ status, pendingToolCalls }: Session): boolean {
  return status === "awaiting_user" || pendingToolCalls.some(isOpen);
}
