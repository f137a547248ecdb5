// `send`: `reply` if no turn is open, `steer` otherwise. A turn may start or end between the read and the write, so the choice is repeated.

import type { VerbContext } from "../context.ts";
import type { Accepted } from "../rows/values.ts";
import type { DurableOptions, TurnHandle } from "../types.ts";

import { RuntimeError, user } from "../../model/internal.ts";
import { readValue } from "../rows/stored.ts";
import { verbContent, reply } from "./drive-verbs.ts";
import { storedOptions } from "./durable-options.ts";
import { attach } from "./handles.ts";
import { contentDigest, keyConflict } from "./idempotency.ts";
import { find, existingSession, readSession, sessionKey } from "./session-rows.ts";
import { inboxInput, inputDigest, steer } from "./steer.ts";

/** Sends a user message. One idempotency key covers both ways: a message is accepted once, as a reply or as input. */
export async function send(
  context: VerbContext,
  id: string,
  text: string,
  options: DurableOptions = {},
): Promise<TurnHandle> {
  // Validated also if the text becomes input of a running turn, which keeps its own options.
  storedOptions(options);
  const { key, engine } = options;
  for (;;) {
    const rows = await readSession(context, sessionKey(context, id), key);
    const { head, version } = existingSession(rows);
    const before = rows.accepted === null ? null : readValue("accepted", rows.accepted);
    if (before !== null) {
      await checkContent(before, text, options);
      return attach(context, id, before.turn ?? head.turn);
    }
    if (head.turn !== null) {
      const as = { ...(key === undefined ? {} : { id: key }), ...(engine === undefined ? {} : { engine }) };
      const { turnId } = await steer(context, id, text, as);
      return attach(context, id, turnId);
    }
    try {
      return await reply(context, id, text, options);
    } catch (error) {
      // Another turn started concurrently, and may have ended since: choose again.
      if (!(error instanceof RuntimeError) || error.reason !== "conflict") throw error;
      if ((await find(context, id)).version === version) throw error;
    }
  }
}

/** Throws `conflict` unless the key was used for the same text, as a reply or as input. */
async function checkContent({ digest }: Accepted, text: string, options: DurableOptions): Promise<void> {
  const digests = [
    await inputDigest(inboxInput(text), options.engine),
    await contentDigest(verbContent("reply", user(text), options)),
  ];
  if (!digests.includes(digest)) throw keyConflict(options.key ?? "");
}
