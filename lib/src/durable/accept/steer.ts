// Input for the open turn (Q11). It waits in the inbox for the next checkpoint; without an open turn it starts one. The
// rules of the inbox are in `rows/inbox.ts`.

import type { JsonObject, Message, Withdrawn } from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { ExistingSession } from "../drive/session-rows.ts";
import type { SteerInput } from "../drive/types.ts";
import type { InboxEntry, InboxInput } from "../rows/values.ts";
import type { AcceptingBatch, TurnDecision } from "./accept.ts";
import type { OpenTurnRows } from "./open-turn.ts";

import { canonicalJson } from "../../core/kernel/internal.ts";
import { message as checkedMessage, MisuseError, renderIssue, RuntimeError, user } from "../../core/model/internal.ts";
import { isPlainObject, read, turnCauseShape } from "../../core/model/parse/reading.ts";
import { checkNotBlank, checkStatus } from "../../core/session/internal.ts";
import { checkTexts } from "../drive/durable-options.ts";
import { engineOfSession, existingSession, lastStart, sessionKey } from "../drive/session-rows.ts";
import { randomText } from "../rows/digest.ts";
import { acceptedPut } from "../rows/inbox.ts";
import { epochOf } from "../rows/lease.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { attach } from "../sessions/handles.ts";
import { accept, acceptedKey, contentDigest } from "./accept.ts";
import { contextOfTurn, isWaitingTurn } from "./continued-turn.ts";
import { inputChanges, readOpenTurn } from "./open-turn.ts";

/**
 * Options of `steer`. `turnContext`: as for other verbs; input with another context than that of the open turn is
 * rejected with `conflict`.
 */
export type SteerOptions = { readonly id?: string; readonly engine?: string; readonly turnContext?: JsonObject };

/**
 * Adds input to the open turn, or starts a turn with it. Returns the turn that is expected to accept the input; if that
 * turn ends before its next checkpoint, the next turn accepts it. `id` is an idempotency key.
 */
export async function steer(
  context: VerbContext,
  id: string,
  input: SteerInput,
  options: SteerOptions = {},
): Promise<{ readonly inputId: string; readonly turnId: string }> {
  const { turnContext: _, ...texts } = options;
  checkTexts("steer", texts, ["id", "engine"]);
  const inputId = options.id ?? newInputId();
  const checked = inboxInput(input);
  const { turnId } = await accept(context, {
    session: sessionKey(context, id),
    options: { key: inputId, ...(options.engine === undefined ? {} : { engine: options.engine }) },
    contents: [inputContent(checked, options)],
    decide: async (rows) => {
      const session = existingSession(rows);
      const { turn } = session.head;
      if (turn === null) return turnOfInput(context, session, inboxEntry(context, inputId, checked), options);
      const open = await readOpenTurn(context, session, turn);
      return open === null ? null : steerOpenTurn(context, open, inboxEntry(context, inputId, checked), options);
    },
  });
  return { inputId, turnId: turnId ?? "" };
}

/** A random id for an input. */
export function newInputId(): string {
  return `input-${randomText(8)}`;
}

/** Input as it waits in the inbox for a checkpoint. */
export function inboxEntry({ clock }: VerbContext, id: string, input: InboxInput): InboxEntry {
  return { id, input, state: "pending", turn: null, epoch: null, at: clock.now(), ownTurn: null };
}

/** Decides about input for the open turn. Throws `conflict` if another caller or another context is involved. */
export async function steerOpenTurn(
  context: VerbContext,
  open: OpenTurnRows,
  entry: InboxEntry,
  options: Pick<SteerOptions, "engine" | "turnContext">,
): Promise<AcceptingBatch> {
  checkCaller(context, open);
  if (options.turnContext !== undefined) checkContext(open, options.turnContext);
  checkQueued(context, open, options.turnContext);
  const digest = await contentDigest(inputContent(entry.input, options));
  return {
    type: "batch",
    turn: null,
    changes: inputChanges(open, entry, digest),
    written: () => attach(context, open.session.key.session, open.turn, open.progress.status !== "parked"),
  };
}

/** Decides about input for a session without an open turn: it starts one. */
async function turnOfInput(
  context: VerbContext,
  before: ExistingSession,
  entry: InboxEntry,
  options: SteerOptions,
): Promise<TurnDecision> {
  const { session } = before.head;
  checkStatus(session, "reply", null);
  if (session.status === "awaiting_user") {
    throw new MisuseError(
      "invalid_status",
      "steer: the session waits for the answer to a question; answer it with reply",
      {
        path: ["status"],
      },
    );
  }
  const last = await lastStart(context, before);
  const { input } = entry;
  // A message becomes part of the history. A transient message or a cause is input of the turn only.
  const content =
    input.type === "message"
      ? { session: { ...session, thread: { ...session.thread, messages: [input.message] } } }
      : { session, input: entry };
  return {
    type: "turn",
    before,
    ...content,
    // Input for a turn that stopped for an answer continues that turn, so the callers that started it still do not
    // decide in it.
    continues: isWaitingTurn(session) ? last : null,
    verb: "chat",
    options: last?.options ?? {},
    engine: options.engine ?? last?.engine ?? (await engineOfSession(context, before)),
    context: contextOfTurn(session, last, options.turnContext),
    key: await acceptedKey(entry.id, inputContent(input, options)),
  };
}

/**
 * Withdraws input that no turn has accepted. A claim by the current lease epoch cannot be withdrawn; one of an earlier
 * epoch is void.
 */
export async function withdraw(context: VerbContext, id: string, inputId: string): Promise<Withdrawn> {
  const key = sessionKey(context, id);
  const { storage } = context;
  for (;;) {
    const [acceptedRows = [], rows = [], leases = []] = await storage.read([
      { table: "accepted", prefix: [...keyOf(key), inputId] },
      { table: "inbox", prefix: keyOf(key) },
      { table: "leases", prefix: keyOf(key) },
    ]);
    const [acceptedRow] = acceptedRows;
    if (acceptedRow === undefined) return "not_found";
    const accepted = readValue("accepted", acceptedRow);
    if (accepted.state === "taken") return "already_taken";
    if (accepted.state === "cancelled") return "already_cancelled";
    const row = rows.find((inboxRow) => readValue("inbox", inboxRow).id === inputId);
    if (row === undefined) return "not_found";
    const entry = readValue("inbox", row);
    if (entry.state === "claimed" && entry.epoch === epochOf(leases[0]?.tag ?? 0)) return "already_claimed";
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

/** What is compared under the idempotency key of an input. */
export function inputContent(
  input: InboxInput,
  { engine, turnContext }: Pick<SteerOptions, "engine" | "turnContext">,
): unknown {
  const details = {
    ...(engine === undefined ? {} : { engine }),
    ...(turnContext === undefined ? {} : { turnContext }),
  };
  return Object.keys(details).length === 0 ? input : { input, ...details };
}

/**
 * Throws `conflict` if the open turn has another context than the input: its tools would run on behalf of another
 * caller than the one that sent the input.
 */
function checkContext({ session: { key, head }, turn, start }: OpenTurnRows, turnContext: JsonObject): void {
  if (canonicalJson(start.context ?? head.session.context) === canonicalJson(turnContext)) return;
  throw new RuntimeError("conflict", {
    message: `turn ${turn} of session ${key.session} runs with the context of another caller and accepts no input with this one; wait for its end, or queue the message`,
    metadata: { turnId: turn },
  });
}

/**
 * Throws `conflict` if the open turn was started by other callers: who started a turn does not decide in it, and input
 * of another caller would not be counted among theirs.
 */
function checkCaller({ caller }: VerbContext, { session: { key, head }, turn }: OpenTurnRows): void {
  const { startedBy } = head;
  if (caller === null || startedBy.length === 0 || startedBy.includes(caller)) return;
  throw new RuntimeError("conflict", {
    message: `turn ${turn} of session ${key.session} was started by another caller and accepts no input of this one; wait for its end, or queue the message`,
    metadata: { turnId: turn },
  });
}

/**
 * Throws `conflict` if a message of another caller, or with another context, is queued: the turn that it starts may
 * accept the input, if the open turn ends before its next checkpoint.
 */
function checkQueued(
  { caller }: VerbContext,
  { session: { key, head }, inbox }: OpenTurnRows,
  turnContext: JsonObject | undefined,
): void {
  const isOfOther = ({ ownTurn }: InboxEntry): boolean => {
    if (ownTurn === null) return false;
    const { startedBy, context } = ownTurn;
    if (caller !== null && startedBy.length > 0 && !startedBy.includes(caller)) return true;
    return turnContext !== undefined && canonicalJson(context ?? head.session.context) !== canonicalJson(turnContext);
  };
  if (!inbox.some(isOfOther)) return;
  throw new RuntimeError("conflict", {
    message: `a message of another caller is queued in session ${key.session}, and its turn could accept this input; queue the message`,
    metadata: { sessionId: key.session },
  });
}

/** Returns the message. Throws `ValidationError` if it is a blank user message. */
function notBlank<M extends Message>(message: M): M {
  checkNotBlank([message]);
  return message;
}

/**
 * Validates input, also from callers without a compiler. Throws `MisuseError`, or `ValidationError` for a blank user
 * message.
 */
function inboxInput(input: SteerInput): InboxInput {
  if (typeof input === "string") return { type: "message", message: notBlank(user(input)) };
  const value: unknown = input;
  if (!isPlainObject(value)) {
    throw new MisuseError("invalid_argument", "steer: the input must be a string, a message or a cause");
  }
  switch (input.type) {
    case "message":
    case "transient": {
      const message = notBlank(checkedMessage(input.message));
      if (message.role === "user" || message.role === "system") return { type: input.type, message };
      throw new MisuseError("invalid_argument", `steer: a ${message.role} message cannot be input of a turn`, {
        path: ["message", "role"],
      });
    }
    case "cause": {
      const cause = read(turnCauseShape, input.cause);
      if ("value" in cause) return { type: "cause", cause: cause.value };
      const [first] = cause.issues;
      const why = first === undefined ? "it has the wrong shape" : renderIssue(first);
      throw new MisuseError("invalid_argument", `steer: the cause is invalid: ${why}`, {
        path: ["cause", ...(first?.path ?? [])],
      });
    }
    default:
      throw new MisuseError("invalid_argument", "steer: the type must be message, transient or cause", {
        path: ["type"],
      });
  }
}
