// Idempotency keys: a verb that is called again with the same key and the same content is accepted once and returns the same turn. The same key with other
// content is a `conflict`.

import type { Json } from "../../model/internal.ts";
import type { VerbContext } from "../context.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { TurnHandle } from "../types.ts";
import type { SessionRows } from "./session-rows.ts";

import { canonicalJson } from "../../kernel/internal.ts";
import { MisuseError, RuntimeError } from "../../model/internal.ts";
import { sha256 } from "../rows/digest.ts";
import { readValue } from "../rows/stored.ts";
import { handle } from "./handles.ts";
import { readSession } from "./session-rows.ts";

/** A key, and the digest of the content that was accepted under it. */
export type AcceptedKey = { readonly name: string; readonly digest: string };

/** Calls `accept` with the rows of the session, unless the verb was accepted under the key: before, or by a concurrent call. */
export async function once(
  context: VerbContext,
  session: SessionKey,
  key: string | undefined,
  content: unknown,
  accept: (rows: SessionRows) => Promise<TurnHandle>,
): Promise<TurnHandle> {
  const rows = await readSession(context, session, key);
  const before = await acceptedHandle(context, rows, key, content);
  if (before !== null) return before;
  try {
    return await accept(rows);
  } catch (error) {
    if (key === undefined) throw error;
    const meanwhile = await acceptedHandle(context, await readSession(context, session, key), key, content);
    if (meanwhile === null) throw error;
    return meanwhile;
  }
}

async function acceptedHandle(
  context: VerbContext,
  { key: session, accepted: row }: SessionRows,
  key: string | undefined,
  content: unknown,
): Promise<TurnHandle | null> {
  if (key === undefined || row === null) return null;
  const accepted = readValue("accepted", row);
  if (accepted.digest !== (await contentDigest(content))) throw otherContent(key);
  return handle(context, session, accepted.turn, { sequence: 0, position: null });
}

export async function acceptedKey(key: string | undefined, content: unknown): Promise<AcceptedKey | null> {
  return key === undefined ? null : { name: key, digest: await contentDigest(content) };
}

export function otherContent(key: string): RuntimeError {
  return new RuntimeError("conflict", {
    message: `other content was accepted under the key ${JSON.stringify(key)}; use a new key for new content`,
    metadata: { key },
  });
}

/** The digest of a call's content; the order of its fields does not matter. */
export async function contentDigest(content: unknown): Promise<string> {
  return sha256(canonicalJson(plainJson(content)));
}

function plainJson(content: unknown): Json {
  try {
    return JSON.parse(JSON.stringify(content) ?? "null");
  } catch (cause) {
    throw new MisuseError("not_serializable", "the content of a call with a key has to be JSON", { cause });
  }
}
