// Keys that callers give with verbs: what is said under one is accepted once, whoever asks and how often.

import type { Json } from "../../model/internal.ts";
import type { SessionKey } from "../context.ts";
import type { TurnHandle } from "../types.ts";
import type { Desk } from "./desk.ts";

import { canonicalJson } from "../../kernel/internal.ts";
import { MisuseError, RuntimeError } from "../../model/internal.ts";
import { keyOf, readOne } from "../context.ts";
import { sha256 } from "../rows/digest.ts";
import { readValue } from "../rows/stored.ts";
import { handle } from "./handles.ts";

/** A key, and a digest of what was said under it. */
export type AcceptedKey = { readonly name: string; readonly digest: string };

/** Accepts a verb, unless it was accepted under that key: before, or by somebody else in this very moment. */
export async function once(
  desk: Desk,
  session: SessionKey,
  key: string | undefined,
  content: unknown,
  accepting: () => Promise<TurnHandle>,
): Promise<TurnHandle> {
  const known = await knownHandle(desk, session, key, content);
  if (known !== null) return known;
  try {
    return await accepting();
  } catch (error) {
    const now = await knownHandle(desk, session, key, content);
    if (now === null) throw error;
    return now;
  }
}

async function knownHandle(
  desk: Desk,
  session: SessionKey,
  key: string | undefined,
  content: unknown,
): Promise<TurnHandle | null> {
  if (key === undefined) return null;
  const row = await readOne(desk.context.storage, { table: "accepted", prefix: [...keyOf(session), key] });
  if (row === null) return null;
  const accepted = readValue("accepted", row);
  if (accepted.digest !== (await contentDigest(content))) throw otherContent(key);
  return handle(desk, session, accepted.turn, { sequence: 0, position: null });
}

/** What is kept of a key that was given with a verb: with other content it is a conflict. */
export async function acceptedKey(key: string | undefined, content: unknown): Promise<AcceptedKey | null> {
  return key === undefined ? null : { name: key, digest: await contentDigest(content) };
}

export function otherContent(key: string): RuntimeError {
  return new RuntimeError("conflict", {
    message: `something else was accepted under the key ${JSON.stringify(key)}; a key is for one content`,
    metadata: { key },
  });
}

/** Of what was said, in whatever order its fields were set. */
export async function contentDigest(content: unknown): Promise<string> {
  return sha256(canonicalJson(plainJson(content)));
}

/** What JSON keeps of a value. */
function plainJson(content: unknown): Json {
  try {
    return JSON.parse(JSON.stringify(content) ?? "null");
  } catch (cause) {
    throw new MisuseError("not_serializable", "what is said under a key has to be JSON", { cause });
  }
}
