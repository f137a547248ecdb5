// Idempotency keys of verbs. A verb that is called again with the same key and the same content is accepted once, and every call returns the same
// turn; so a client may retry after a lost answer. The same key with other content is a `conflict`. The row in `accepted` is written in the
// batch that accepts the verb, and lives as long as the session.

import type { Json, JsonObject } from "../../core/model/internal.ts";
import type { VerbContext } from "../drive/context.ts";
import type { SessionRows } from "../drive/session-rows.ts";
import type { TurnHandle, VerbOptions } from "../drive/types.ts";
import type { SessionKey } from "../rows/session-key.ts";

import { canonicalJson } from "../../core/kernel/internal.ts";
import { MisuseError, RuntimeError } from "../../core/model/internal.ts";
import { readSession } from "../drive/session-rows.ts";
import { sha256 } from "../rows/digest.ts";
import { readValue } from "../rows/stored.ts";
import { handle } from "../sessions/handles.ts";

/** A key, and the digest of the content that was accepted under it. */
export type AcceptedKey = { readonly name: string; readonly digest: string };

/**
 * Calls `accept` with the rows of the session and of the limits of `turn`, unless the verb was accepted under the key before. If `accept` fails, the key is read again: a
 * concurrent call with the same key may have been accepted, and then its turn is returned.
 */
export async function acceptOnce(
  context: VerbContext,
  session: SessionKey,
  key: string | undefined,
  content: unknown,
  turn: Pick<VerbOptions, "engine" | "limitKey">,
  accept: (rows: SessionRows) => Promise<TurnHandle>,
): Promise<TurnHandle> {
  const rows = await readSession(context, session, key, turn);
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

/** The handle of the turn that was accepted under the key; `null`: none was. Throws `conflict` for other content. */
async function acceptedHandle(
  context: VerbContext,
  { key: session, accepted: row }: SessionRows,
  key: string | undefined,
  content: unknown,
): Promise<TurnHandle | null> {
  if (key === undefined || row === null) return null;
  const accepted = readValue("accepted", row);
  if (accepted.digest !== (await contentDigest(content))) throw keyConflict(key);
  return handle(context, session, accepted.turn, { sequence: 0, position: null });
}

/** The context of a verb as part of its content. Absent without one, so that digests of older rows stay valid. */
export function contextContent({ turnContext }: { readonly turnContext?: JsonObject }): readonly unknown[] {
  return turnContext === undefined ? [] : [turnContext];
}

/** The key and the digest of the content, for the row in `accepted`; `null`: the caller gave no key. */
export async function acceptedKey(key: string | undefined, content: unknown): Promise<AcceptedKey | null> {
  return key === undefined ? null : { name: key, digest: await contentDigest(content) };
}

/** The error of a key that was used for other content. */
export function keyConflict(key: string): RuntimeError {
  return new RuntimeError("conflict", {
    message: `the idempotency key ${JSON.stringify(key)} was used with other content; use a new key for new content`,
    metadata: { key },
  });
}

/** The digest of the content of a call. The order of properties does not matter. */
export async function contentDigest(content: unknown): Promise<string> {
  return sha256(canonicalJson(plainJson(content)));
}

function plainJson(content: unknown): Json {
  try {
    return JSON.parse(JSON.stringify(content) ?? "null");
  } catch (cause) {
    throw new MisuseError("not_serializable", "the arguments of a call with an idempotency key must be JSON", {
      cause,
    });
  }
}
