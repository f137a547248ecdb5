// The digest that a client sends with a decision about the first open call of a session.

import type { Runtime } from "everturn/runtime";

export async function pendingDigest(sessions: Pick<Runtime, "get">, id: string): Promise<string> {
  const calls = (await sessions.get(id))?.session.pendingToolCalls ?? [];
  return calls.find(({ decision }) => decision === null)?.digest ?? "no call is open";
}
