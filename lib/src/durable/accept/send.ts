// `reply` and `send`: a user message for a session, and the busy policy (`whenBusy`) that applies while a turn is open.
//
//   no turn is open   the message starts a turn (`replyWhenIdle`), whatever the policy
//   reject            the call fails with `conflict`
//   steer             the message waits in the inbox for the next checkpoint of the turn (`steer.ts`)
//   queue             the message waits in the inbox until the turn has ended, then it starts a turn (`queue.ts`)
//   interrupt         as `queue`, and the open turn is cancelled in the same batch (`queue.ts`)
//
// A turn may start or end between the read and the write; the write is then refused, and the choice is repeated with new rows.
//
// One idempotency key covers all ways: a message is accepted once, whichever policy applied to the first call and whichever verb repeats it.

import type { WhenBusy } from "../../core/engine/internal.ts";
import type { UserMessage } from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { ExistingSession } from "../drive/session-rows.ts";
import type { DurableOptions, MessageOptions, TurnHandle } from "../drive/types.ts";
import type { Accepted } from "../rows/values.ts";

import { RuntimeError } from "../../core/model/internal.ts";
import { readOne } from "../drive/context.ts";
import { storedMessageOptions } from "../drive/durable-options.ts";
import { existingSession, find, readSession, sessionKey } from "../drive/session-rows.ts";
import { turnKey } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { attach } from "../sessions/handles.ts";
import { checkVersion, openTurnConflict } from "./accept.ts";
import { replyWhenIdle, userMessageOf, verbContent } from "./drive-verbs.ts";
import { contentDigest, keyConflict } from "./idempotency.ts";
import { queueMessage } from "./queue.ts";
import { inboxInput, inputDigest, steer } from "./steer.ts";

/** Adds a user message and starts a turn. While a turn is open, the busy policy decides; by default the call is rejected. */
export async function reply(
  context: VerbContext,
  id: string,
  message: string | UserMessage,
  options: MessageOptions<unknown> = {},
): Promise<TurnHandle> {
  return deliver(context, id, userMessageOf(message), options, "reject");
}

/** Sends a user message. While a turn is open, the busy policy decides; by default the message steers the turn. */
export async function send(
  context: VerbContext,
  id: string,
  message: string | UserMessage,
  options: MessageOptions<unknown> = {},
): Promise<TurnHandle> {
  return deliver(context, id, userMessageOf(message), options, "steer");
}

async function deliver(
  context: VerbContext,
  id: string,
  message: UserMessage,
  messageOptions: MessageOptions<unknown>,
  verbPolicy: WhenBusy,
): Promise<TurnHandle> {
  // Validated also if the message becomes input of the open turn, which keeps its own options.
  storedMessageOptions(messageOptions);
  const { whenBusy: _, ...options } = messageOptions;
  const { key } = options;
  for (;;) {
    const rows = await readSession(context, sessionKey(context, id), key);
    const session = existingSession(rows);
    const { turn } = session.head;
    const before = rows.accepted === null ? null : readValue("accepted", rows.accepted);
    if (before !== null) {
      await checkContent(before, message, options);
      return attach(context, id, before.turn ?? turn);
    }
    try {
      const handle = await deliverNow(context, session, message, messageOptions, verbPolicy);
      if (handle !== null) return handle;
    } catch (error) {
      // A concurrent call with the same key was accepted in another way, so its content has another digest: compare the contents themselves.
      const isAccepted = key !== undefined && (await readSession(context, session.key, key)).accepted !== null;
      if (!isAccepted || !(error instanceof RuntimeError) || error.reason !== "conflict") throw error;
    }
  }
}

/** Starts a turn with the message, or does what the busy policy says. `null`: a turn has started or ended meanwhile, and the choice is repeated. */
async function deliverNow(
  context: VerbContext,
  session: ExistingSession,
  message: UserMessage,
  messageOptions: MessageOptions<unknown>,
  verbPolicy: WhenBusy,
): Promise<TurnHandle | null> {
  const { whenBusy, ...options } = messageOptions;
  const { key, engine, turnContext } = options;
  const { turn } = session.head;
  const id = session.key.session;
  if (turn === null) {
    try {
      return await replyWhenIdle(context, id, message, options);
    } catch (error) {
      // Another turn started concurrently, and may have ended since: choose again.
      if (!(error instanceof RuntimeError) || error.reason !== "conflict") throw error;
      if ((await find(context, id)).version === session.version) throw error;
      return null;
    }
  }
  checkVersion(session, options.version);
  switch (whenBusy ?? (await enginePolicy(context, session, turn)) ?? verbPolicy) {
    case "reject":
      throw openTurnConflict(session, turn);
    case "steer": {
      const as = {
        ...(key === undefined ? {} : { id: key }),
        ...(engine === undefined ? {} : { engine }),
        ...(turnContext === undefined ? {} : { turnContext }),
      };
      const { turnId } = await steer(context, id, { type: "message", message }, as);
      return attach(context, id, turnId);
    }
    case "queue":
      return queueMessage(context, session, turn, message, options, { interrupts: false });
    case "interrupt":
      return queueMessage(context, session, turn, message, options, { interrupts: true });
  }
}

/** The busy policy of the engine of the open turn; `null`: it has none, or this process does not have the engine. */
async function enginePolicy(
  { storage, engines }: VerbContext,
  { key }: ExistingSession,
  turn: string,
): Promise<WhenBusy | null> {
  if (Object.values(engines).every(({ whenBusy }) => whenBusy === null)) return null;
  const row = await readOne(storage, { table: "starts", prefix: turnKey(key, turn) });
  const name = row === null ? "" : readValue("starts", row).engine;
  return Object.hasOwn(engines, name) ? (engines[name]?.whenBusy ?? null) : null;
}

/** Throws `conflict` unless the key was used for the same message, with a turn of its own or as input. */
async function checkContent(
  { digest }: Accepted,
  message: UserMessage,
  options: DurableOptions<unknown>,
): Promise<void> {
  const digests = [
    await inputDigest(inboxInput({ type: "message", message }), options),
    await contentDigest(verbContent("reply", message, options)),
  ];
  if (!digests.includes(digest)) throw keyConflict(options.key ?? "");
}
