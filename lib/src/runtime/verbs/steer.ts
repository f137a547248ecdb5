// Input for a turn that runs (Q11): it waits in the inbox for the next checkpoint. Without an open turn it begins one.

import type { Withdrawn } from "../../model/internal.ts";
import type { VerbContext } from "../context.ts";
import type { InboxEntry, InboxInput } from "../rows/values.ts";
import type { SteerInput } from "../types.ts";

import { canonicalJson, turnCauseShape } from "../../kernel/internal.ts";
import { message as checkedMessage, MisuseError, renderIssue, RuntimeError, user } from "../../model/internal.ts";
import { isPlainObject, read } from "../../model/parse/reading.ts";
import { checkStatus } from "../../session/internal.ts";
import { randomText, sha256 } from "../rows/digest.ts";
import { acceptedPut, inboxPut } from "../rows/inbox.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { accept } from "./accept.ts";
import { checkTexts } from "./durable-options.ts";
import { otherContent } from "./idempotency.ts";
import { find, headOf, lastStart, sessionKey } from "./session-rows.ts";

/**
 * Gives input to the open turn, or begins one with it. Returns the turn that takes it as things are; if that turn ends before its next checkpoint, the
 * turn that follows takes it. `id` is an idempotency key.
 */
export async function steer(
  context: VerbContext,
  id: string,
  input: SteerInput,
  options: { readonly id?: string; readonly engine?: string } = {},
): Promise<{ readonly inputId: string; readonly turnId: string }> {
  const key = sessionKey(context, id);
  const { storage } = context;
  checkTexts("steer", options, ["id", "engine"]);
  const inputId = options.id ?? `input-${randomText(8)}`;
  const checked = inboxInput(input);
  const digest = await inputDigest(checked, options.engine);
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
    const at = context.clock.now();
    const count = counts[0]?.tag ?? 0;
    const entry: InboxEntry = { id: inputId, input: checked, state: "pending", turn: null, epoch: null, at };
    if (head.turn === null) {
      const turnId = await startFromInput(context, id, entry, digest, options.engine ?? null);
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

/** Begins a turn with the input. `null`: another writer changed the session in between. */
async function startFromInput(
  context: VerbContext,
  id: string,
  entry: InboxEntry,
  digest: string,
  engine: string | null,
): Promise<string | null> {
  const before = await find(context, id);
  const { session, turn } = before.head;
  if (turn !== null) return null;
  checkStatus(session, "reply", null);
  if (session.status === "awaiting_user") {
    throw new MisuseError("invalid_status", "steer: the session waits for the answer to a question; reply answers it", {
      path: ["status"],
    });
  }
  const last = await lastStart(context, before);
  const { input } = entry;
  // A message becomes part of the history. A transient message or a cause is input of the turn alone.
  const given =
    input.type === "message"
      ? { session: { ...session, thread: { ...session.thread, messages: [input.message] } } }
      : { session, input: entry };
  try {
    const { turnId } = await accept(context, before, {
      ...given,
      verb: "chat",
      options: last?.options ?? {},
      engine: engine ?? last?.engine ?? "default",
      key: { name: entry.id, digest },
    });
    return turnId;
  } catch (error) {
    if (error instanceof RuntimeError && error.reason === "conflict") return null;
    throw error;
  }
}

/** Takes input back, if no turn has taken it. */
export async function withdraw(context: VerbContext, id: string, inputId: string): Promise<Withdrawn> {
  const key = sessionKey(context, id);
  const { storage } = context;
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

/** What the idempotency key of an input stands for. */
export async function inputDigest(input: InboxInput, engine: string | undefined): Promise<string> {
  return sha256(canonicalJson(engine === undefined ? input : { input, engine }));
}

/** Reads input, also from callers without a compiler. */
export function inboxInput(input: SteerInput): InboxInput {
  if (typeof input === "string") return { type: "message", message: user(input) };
  const given: unknown = input;
  if (!isPlainObject(given)) {
    throw new MisuseError("invalid_argument", "steer: the input is a text, a message or a cause");
  }
  switch (input.type) {
    case "message":
    case "transient": {
      const message = checkedMessage(input.message);
      if (message.role === "user" || message.role === "system") return { type: input.type, message };
      throw new MisuseError("invalid_argument", `steer: a ${message.role} message cannot be input of a turn`, {
        path: ["message", "role"],
      });
    }
    case "cause": {
      const cause = read(turnCauseShape, input.cause);
      if ("value" in cause) return { type: "cause", cause: cause.value };
      const [first] = cause.issues;
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
