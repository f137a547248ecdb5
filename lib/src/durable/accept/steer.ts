// Input for the open turn (Q11). It waits in the inbox for the next checkpoint; without an open turn it starts one. The rules of the inbox are in
// `rows/inbox.ts`.

import type { JsonObject, Message, Withdrawn } from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { SteerInput } from "../drive/types.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { InboxEntry, InboxInput, SessionHead } from "../rows/values.ts";

import { canonicalJson, turnCauseShape } from "../../core/kernel/internal.ts";
import { message as checkedMessage, MisuseError, renderIssue, RuntimeError, user } from "../../core/model/internal.ts";
import { isPlainObject, read } from "../../core/model/parse/reading.ts";
import { checkNotBlank, checkStatus } from "../../core/session/internal.ts";
import { readOne } from "../drive/context.ts";
import { checkTexts } from "../drive/durable-options.ts";
import { engineOfSession, find, headOf, lastStart, sessionKey } from "../drive/session-rows.ts";
import { randomText, sha256 } from "../rows/digest.ts";
import { acceptedPut, inboxPut } from "../rows/inbox.ts";
import { epochOf } from "../rows/lease.ts";
import { keyOf, turnKey } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { accept } from "./accept.ts";
import { contextOfTurn, isWaitingTurn } from "./drive-verbs.ts";
import { keyConflict } from "./idempotency.ts";

/** Options of `steer`. `turnContext`: as for other verbs; input with another context than that of the open turn is rejected with `conflict`. */
export type SteerOptions = { readonly id?: string; readonly engine?: string; readonly turnContext?: JsonObject };

/**
 * Adds input to the open turn, or starts a turn with it. Returns the turn that is expected to accept the input; if that turn ends before its next
 * checkpoint, the next turn accepts it. `id` is an idempotency key.
 */
export async function steer(
  context: VerbContext,
  id: string,
  input: SteerInput,
  options: SteerOptions = {},
): Promise<{ readonly inputId: string; readonly turnId: string }> {
  const key = sessionKey(context, id);
  const { storage } = context;
  const { turnContext = null, ...texts } = options;
  checkTexts("steer", texts, ["id", "engine"]);
  const inputId = options.id ?? `input-${randomText(8)}`;
  const checked = inboxInput(input);
  const digest = await inputDigest(checked, options);
  for (;;) {
    const [heads = [], counts = [], acceptedRows = []] = await storage.read([
      { table: "sessions", prefix: keyOf(key) },
      { table: "inboxes", prefix: keyOf(key) },
      { table: "accepted", prefix: [...keyOf(key), inputId] },
    ]);
    const { head, version } = headOf(id, heads[0]);
    const [acceptedRow] = acceptedRows;
    if (acceptedRow !== undefined) {
      const accepted = readValue("accepted", acceptedRow);
      if (accepted.digest !== digest) throw keyConflict(inputId);
      return { inputId, turnId: accepted.turn ?? head.turn ?? "" };
    }
    const at = context.clock.now();
    const count = counts[0]?.tag ?? 0;
    const entry: InboxEntry = {
      id: inputId,
      input: checked,
      state: "pending",
      turn: null,
      epoch: null,
      at,
      ownTurn: null,
    };
    if (head.turn === null) {
      const turnId = await startFromInput(context, id, entry, digest, options);
      if (turnId !== null) return { inputId, turnId };
      continue;
    }
    checkCaller(context, id, head, head.turn);
    if (turnContext !== null) await checkContext(context, key, head, head.turn, turnContext);
    // Only with input in the inbox: `count` is the number of all inputs so far.
    if (count > 0) await checkQueued(context, key, head, turnContext);
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

/** Starts a turn with the input. `null`: another writer has changed the session since it was read. */
async function startFromInput(
  context: VerbContext,
  id: string,
  entry: InboxEntry,
  digest: string,
  { engine, turnContext }: SteerOptions,
): Promise<string | null> {
  const before = await find(context, id);
  const { session, turn } = before.head;
  if (turn !== null) return null;
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
  const contextOfNext = contextOfTurn(session, last, turnContext);
  const { input } = entry;
  // A message becomes part of the history. A transient message or a cause is input of the turn only.
  const content =
    input.type === "message"
      ? { session: { ...session, thread: { ...session.thread, messages: [input.message] } } }
      : { session, input: entry };
  try {
    const { turnId } = await accept(context, before, {
      ...content,
      // Input for a turn that stopped for an answer continues that turn, so the callers that started it still do not decide in it.
      continues: isWaitingTurn(session) ? last : null,
      verb: "chat",
      options: last?.options ?? {},
      engine: engine ?? last?.engine ?? (await engineOfSession(context, before)),
      context: contextOfNext,
      key: { name: entry.id, digest },
    });
    return turnId;
  } catch (error) {
    if (error instanceof RuntimeError && error.reason === "conflict") return null;
    throw error;
  }
}

/** Withdraws input that no turn has accepted. A claim by the current lease epoch cannot be withdrawn; one of an earlier epoch is void. */
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

/** The digest that is compared under the idempotency key of an input. */
export async function inputDigest(
  input: InboxInput,
  { engine, turnContext }: Pick<SteerOptions, "engine" | "turnContext">,
): Promise<string> {
  const details = {
    ...(engine === undefined ? {} : { engine }),
    ...(turnContext === undefined ? {} : { turnContext }),
  };
  return sha256(canonicalJson(Object.keys(details).length === 0 ? input : { input, ...details }));
}

/**
 * Throws `conflict` if the open turn has another context than the input: its tools would run on behalf of another caller than the one that sent
 * the input.
 */
async function checkContext(
  { storage }: VerbContext,
  key: SessionKey,
  { session }: SessionHead,
  turn: string,
  turnContext: JsonObject,
): Promise<void> {
  const row = await readOne(storage, { table: "starts", prefix: turnKey(key, turn) });
  const openContext = (row === null ? null : readValue("starts", row).context) ?? session.context;
  if (canonicalJson(openContext) === canonicalJson(turnContext)) return;
  throw new RuntimeError("conflict", {
    message: `turn ${turn} of session ${key.session} runs with the context of another caller and accepts no input with this one; wait for its end, or queue the message`,
    metadata: { turnId: turn },
  });
}

/**
 * Throws `conflict` if the open turn was started by other callers: who started a turn does not decide in it, and input of another caller would not be counted among
 * theirs.
 */
function checkCaller({ caller }: VerbContext, id: string, { startedBy }: SessionHead, turn: string): void {
  if (caller === null || startedBy.length === 0 || startedBy.includes(caller)) return;
  throw new RuntimeError("conflict", {
    message: `turn ${turn} of session ${id} was started by another caller and accepts no input of this one; wait for its end, or queue the message`,
    metadata: { turnId: turn },
  });
}

/**
 * Throws `conflict` if a message of another caller, or with another context, is queued: the turn that it starts may accept the input, if the open turn ends before its
 * next checkpoint.
 */
async function checkQueued(
  { storage, caller }: VerbContext,
  key: SessionKey,
  { session }: SessionHead,
  turnContext: JsonObject | null,
): Promise<void> {
  const [rows = []] = await storage.read([{ table: "inbox", prefix: keyOf(key) }]);
  const isOfOther = ({ ownTurn }: InboxEntry): boolean => {
    if (ownTurn === null) return false;
    const { startedBy, context } = ownTurn;
    if (caller !== null && startedBy.length > 0 && !startedBy.includes(caller)) return true;
    return turnContext !== null && canonicalJson(context ?? session.context) !== canonicalJson(turnContext);
  };
  if (!rows.some((row) => isOfOther(readValue("inbox", row)))) return;
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

/** Validates input, also from callers without a compiler. Throws `MisuseError`, or `ValidationError` for a blank user message. */
export function inboxInput(input: SteerInput): InboxInput {
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
