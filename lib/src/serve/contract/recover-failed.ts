// The next message of a person continues a conversation whose last turn failed or was parked. The verbs of a session
// refuse it (core/session/preconditions.ts), because a program has to see the failure; a chat has no other way to
// go on.

import type { SessionView } from "../../core/model/internal.ts";

import { RuntimeError, SessionError } from "../../core/model/internal.ts";

/** What recovery needs: the verbs of a runtime or of a client. */
type Recovering = {
  readonly get: (id: string, options: { readonly messages: 0 }) => Promise<SessionView | null>;
  readonly recover: (id: string) => Promise<unknown>;
};

/**
 * Calls `send`, which passes a message to the session. If it is refused because the session has failed or its turn is
 * parked, the session is recovered, and `send` is called again. The first call comes before: a message that is repeated
 * under its key finds its turn, and no session is recovered that is usable.
 */
export async function recoverFailed<T>(sessions: Recovering, id: string, send: () => Promise<T>): Promise<T> {
  try {
    return await send();
  } catch (error) {
    if (!(await isBlocked(sessions, id, error))) throw error;
    await sessions.recover(id);
    return send();
  }
}

async function isBlocked({ get }: Recovering, id: string, error: unknown): Promise<boolean> {
  if (error instanceof SessionError) return error.reason === "session_in_error_state";
  if (!(error instanceof RuntimeError && error.reason === "conflict")) return false;
  return (await get(id, { messages: 0 }))?.openTurn?.status === "parked";
}
