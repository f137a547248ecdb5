// What must hold at the end of a run in which processes were killed: every input was accepted once, every turn has
// ended, and no recorded effect was performed again.

import type { Line } from "./world.ts";
import type { HostStorage, Runtime } from "everturn/runtime";

import { messageText } from "everturn";
import { validateSession } from "everturn/advanced";

/** Performs an operation, and repeats it while the database cannot be reached. */
type Repeated = <T>(operation: () => Promise<T>) => Promise<T>;

const once: Repeated = (operation) => operation();

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Waits until no turn is open. */
export async function resting(storage: HostStorage, until: number, repeated: Repeated = once): Promise<void> {
  for (;;) {
    const [open = [], inbox = []] = await repeated(() =>
      storage.read([
        { table: "open", prefix: [] },
        { table: "inbox", prefix: [] },
      ]),
    );
    if (open.length === 0 && inbox.length === 0) return;
    if (Date.now() > until) throw new Error(`${open.length} turns are open and ${inbox.length} inputs wait`);
    await pause(100);
  }
}

/**
 * Recorded effects that were performed again: those that began after an effect that only their response can have
 * caused.
 */
export function performedAgain(lines: readonly Line[]): readonly string[] {
  const again: string[] = [];
  const turns = new Map<string, { model: number; tools: Set<string> }>();
  for (const { what, turn, effect, tool } of lines) {
    const at = turns.get(turn) ?? { model: -1, tools: new Set() };
    turns.set(turn, at);
    if (what === "model_began") {
      const length = Number(effect);
      if (length < at.model) again.push(`${turn}: model ${effect} after ${at.model}`);
      // A model call with a longer history proves that every earlier effect had its response.
      if (length > at.model) {
        at.model = length;
        for (const known of at.tools) turns.set(`${turn} ${known}`, { model: length, tools: new Set() });
      }
    }
    if (what === "tool_began") {
      if (turns.has(`${turn} ${effect}`)) again.push(`${turn}: ${String(tool)} ${effect} after it had been answered`);
      at.tools.add(effect);
    }
  }
  return again;
}

/** Tool calls with the policy `never` that ran more than once. */
export function ranTwice(lines: readonly Line[]): readonly string[] {
  const runs = new Map<string, number>();
  for (const { what, tool, effect } of lines) {
    if (what === "tool_began" && tool === "pay") runs.set(effect, (runs.get(effect) ?? 0) + 1);
  }
  return [...runs].flatMap(([effect, count]) => (count > 1 ? [`pay ${effect} ran ${count} times`] : []));
}

/** Violations in the stored data. */
export async function faultsOf(
  sessions: Runtime,
  storage: HostStorage,
  ids: readonly string[],
  said: ReadonlyMap<string, string>,
): Promise<{ readonly faults: readonly string[]; readonly counts: { readonly [name: string]: number } }> {
  const faults: string[] = [];
  const deliveries = new Map<string, number>();
  const counts = { messages: 0, turns: 0, entries: 0, unknownOutcomes: 0 };
  for (const id of ids) {
    const view = await sessions.get(id);
    if (view === null) {
      faults.push(`${id} is gone`);
      continue;
    }
    const { session } = view;
    const valid = validateSession(session);
    if (!valid.ok) faults.push(`${id} is not valid: ${valid.failure.message}`);
    if (session.status !== "completed") faults.push(`${id} is ${session.status}`);
    for (const message of session.thread.messages) {
      counts.messages += 1;
      if (message.role === "user") {
        const name = `${id} ${messageText(message)}`;
        deliveries.set(name, (deliveries.get(name) ?? 0) + 1);
      }
      if (message.role === "tool" && message.code === "outcome_unknown") counts.unknownOutcomes += 1;
    }
    const [events = [], turns = [], entries = []] = await storage.read([
      { table: "events", prefix: ["", id] },
      { table: "turns", prefix: ["", id] },
      { table: "entries", prefix: ["", id] },
    ]);
    counts.turns += turns.length;
    counts.entries += events.length;
    if (events.some(({ key }, index) => key[2] !== index + 1)) faults.push(`${id}: the event log has gaps`);
    if (entries.some(({ key }, index) => key[2] !== index)) faults.push(`${id}: the history has gaps`);
    const caused = events.map(({ value }) => {
      const { data }: { readonly data: { readonly turn: string; readonly ordinal: number; readonly index: number } } =
        JSON.parse(value);
      return `${data.turn} ${data.ordinal} ${data.index}`;
    });
    if (new Set(caused).size !== caused.length) faults.push(`${id}: an event is stored twice`);
    for (const { key, value } of turns) {
      if (!value.includes(`"status":"ended"`)) faults.push(`${id}: ${String(key[2])} has not ended`);
      const reason = /"haltedReason":"(\w+)"/.exec(value)?.[1] ?? "nothing";
      if (reason !== "completed") faults.push(`${id}: ${String(key[2])} ended with ${reason}`);
    }
  }
  for (const [text, id] of said) {
    const times = deliveries.get(`${id} ${text}`) ?? 0;
    if (times !== 1) faults.push(`${id}: "${text}" was delivered ${times} times`);
  }
  const [pieces = [], inbox = []] = await storage.read([
    { table: "pieces", prefix: [] },
    { table: "inbox", prefix: [] },
  ]);
  if (inbox.length > 0) faults.push(`${inbox.length} inputs were left`);
  return { faults, counts: { ...counts, piecesLeft: pieces.length } };
}

/** The value below which a share of the sorted values lies. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
