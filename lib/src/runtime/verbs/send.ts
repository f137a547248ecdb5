// `send`: a reply, or input for the turn that runs.

import type { VerbContext } from "../context.ts";
import type { Accepted } from "../rows/values.ts";
import type { DurableOptions, TurnHandle } from "../types.ts";

import { RuntimeError, user } from "../../model/internal.ts";
import { readValue } from "../rows/stored.ts";
import { drivenContent, reply } from "./drive-verbs.ts";
import { storedOptions } from "./durable-options.ts";
import { attach } from "./handles.ts";
import { contentDigest, otherContent } from "./idempotency.ts";
import { find, found, readSession, sessionKey } from "./session-rows.ts";
import { inboxInput, inputDigest, steer } from "./steer.ts";

/** `reply`, or `steer` while a turn runs. */
export async function send(
  context: VerbContext,
  id: string,
  text: string,
  options: DurableOptions = {},
): Promise<TurnHandle> {
  // Checked also when the text becomes input of a turn that runs, which keeps its own options.
  storedOptions(options);
  const { key, engine } = options;
  for (;;) {
    const rows = await readSession(context, sessionKey(context, id), key);
    const { head, version } = found(rows);
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
      // A turn began at the same time, and may have ended since.
      if (!(error instanceof RuntimeError) || error.reason !== "conflict") throw error;
      if ((await find(context, id)).version === version) throw error;
    }
  }
}

/** The key may have been used for the same text as a reply or as input. */
async function checkContent({ digest }: Accepted, text: string, options: DurableOptions): Promise<void> {
  const digests = [
    await inputDigest(inboxInput(text), options.engine),
    await contentDigest(drivenContent("reply", user(text), options)),
  ];
  if (!digests.includes(digest)) throw otherContent(options.key ?? "");
}
