// Replays the open turns of a storage against the engines of a program, without performing anything: the check before a
// deploy. It says which turns the new code could not continue.
//
// Theory of operation
//   For each row of the table `open`, the turn is loaded and planned as a process that takes it over would do it
//   (`driven-turn.ts`), and its journal is replayed in strict mode (`journal.ts`): every recorded response is compared
//   with the effect that the code orders for it. The first effect without a recorded response stops the replay. That is
//   the point at which a process would continue the turn, so reaching it means that the code fits.
//
// Invariants
//   1. Nothing is performed and nothing is written: no model is called, no tool, hook or callback of the program runs,
//      no lease is claimed.
//   2. A turn that ends while it is checked is not reported.
//   3. Memory is bounded by one page of open turns, one turn and the history cache.
//
//   Calls that wait for a person have no open turn. Their engine, their tool and their arguments are checked instead
//   (`check-waiting.ts`).
//
// Not covered: parked turns, which no process drives; child turns inside a tool call, which run again only when the
// call does.

import type { Committed, Plan, Ports } from "../../core/run/internal.ts";
import type { DrivenTurn } from "../drive/driven-turn.ts";
import type { RuntimeOptions } from "../drive/types.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { HostStorage } from "../rows/storage.ts";
import type { OpenCursor } from "../work/restore.ts";

import { cellSettingsOf } from "../../core/engine/internal.ts";
import { isEverturnError, MisuseError, RuntimeError } from "../../core/model/internal.ts";
import { memoryScope, startRun } from "../../core/run/internal.ts";
import { loadTurn, storedPlan } from "../drive/driven-turn.ts";
import { DurableJournal, effectiveRows } from "../drive/journal.ts";
import { withFormat } from "../rows/format.ts";
import { HistoryCache } from "../rows/history-cache.ts";
import { withLargeValues } from "../rows/large-values.ts";
import { readValue } from "../rows/stored.ts";
import { keyIn, openPage } from "../work/restore.ts";
import { checkWaitingCalls } from "./check-waiting.ts";

/** What {@link replayOpenTurns} found out about one open turn, or about one call that waits for a person. */
export type OpenTurnReplay = {
  /** The tenant of the session; empty: the default tenant. */
  readonly tenant: string;
  /** The id of the session. */
  readonly sessionId: string;
  /** The id of the turn; of a waiting call, the turn that made it. */
  readonly turnId: string;
  /** The call that waits for a person: what an approval would run. Absent: this is about an open turn. */
  readonly waitingCall?: { readonly id: string; readonly name: string; readonly parents: readonly string[] };
  /** The name of the engine that the turn was accepted with; empty if its row cannot be read. */
  readonly engine: string;
  /**
   * `same`: the engines given can continue the turn. `diverged`: the code orders another effect than the recorded one,
   * and the turn would be parked. `missing`: the program lacks something that the turn was accepted with, or that a
   * waiting call needs. `invalid_arguments`: the tool of a waiting call does not accept its arguments. An approval of a
   * waiting call with one of these two is refused. `unreadable`: the turn cannot be loaded or planned.
   */
  readonly status: "same" | "diverged" | "missing" | "invalid_arguments" | "unreadable";
  /** The number of journal rows of the turn; 0: it was accepted and has not begun. */
  readonly rows: number;
  /**
   * Of a diverged turn: where the ordered effect differs from the recorded one. Paths only, at most 8: the values may
   * be private.
   */
  readonly paths: readonly string[];
  /**
   * What the program lacks: `engine <name>`, `protocol <name> <version>`, `projector <name> <version>`, `tool <name>`,
   * `code executor`. A call of a missing tool would be answered as not found.
   */
  readonly missing: readonly string[];
  /** The reason of a diverged or unreadable turn, or of invalid arguments; `null` otherwise. */
  readonly message: string | null;
};

/** What one replay needs. */
type Context = {
  readonly storage: HostStorage;
  readonly engines: RuntimeOptions["engines"];
  readonly histories: HistoryCache;
};

/**
 * Replays every open turn of a storage, of all tenants, against these engines, then checks every call that waits for a
 * person, and yields what it found. Performs and writes nothing: no model is called and no function of the program
 * runs. Run it with the code that is about to be deployed, over the storage of the running one. Rejects with
 * `RuntimeError` if the storage cannot be read.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { memoryStorage } from "everturn/runtime";
 * import { replayOpenTurns, runtime } from "everturn/runtime";
 *
 * const host = memoryStorage();
 * const engines = { default: engine({ adapter: fake({ script: [] }), model: "fake:m" }) };
 * await runtime({ host, engines, drive: false }).start("hi", { id: "s1" });
 *
 * const found: string[] = [];
 * for await (const { sessionId, status } of replayOpenTurns({ host, engines })) found.push(`${sessionId} ${status}`);
 * found; // => ["s1 same"]
 * ```
 */
export async function* replayOpenTurns({
  host,
  engines,
}: Pick<RuntimeOptions, "host" | "engines">): AsyncGenerator<OpenTurnReplay> {
  const context: Context = { storage: withFormat(withLargeValues(host)), engines, histories: new HistoryCache() };
  let cursor: OpenCursor = null;
  do {
    const page = await openPage(context.storage, cursor);
    for (const row of page.rows) {
      const report = await replayOpen(context, keyIn(row), () => readValue("open", row).turn);
      if (report !== null) yield report;
    }
    cursor = page.next;
  } while (cursor !== null);
  yield* checkWaitingCalls(context);
}

/** Replays one open turn; `null`: it has ended meanwhile. */
async function replayOpen(context: Context, key: SessionKey, turnOf: () => string): Promise<OpenTurnReplay | null> {
  const facts = { tenant: key.tenant, sessionId: key.session, turnId: "", engine: "", rows: 0 };
  const nothing = { paths: [], missing: [], message: null } as const;
  try {
    facts.turnId = turnOf();
    const turn = await loadTurn(context.storage, key, facts.turnId);
    if (turn === null) return null;
    const { engine } = turn.start;
    Object.assign(facts, { engine, rows: turn.rows.length });
    if (!Object.hasOwn(context.engines, engine)) {
      return { ...facts, ...nothing, status: "missing", missing: [`engine ${engine}`] };
    }
    const plan = await storedPlan(context, turn);
    if (plan.missing.length > 0) return { ...facts, ...nothing, status: "missing", missing: plan.missing };
    await replayRecorded(plan, turn);
    const missing = missingParts(plan);
    return { ...facts, ...nothing, status: missing.length === 0 ? "same" : "missing", missing };
  } catch (error) {
    // Storage errors concern the whole check, not this turn.
    if (isEverturnError(error) ? isStorageFailure(error) : !(error instanceof MisuseError)) throw error;
    // A turn that ended between two reads looks damaged.
    if (facts.turnId !== "" && (await hasEnded(context, key, facts.turnId))) return null;
    const isDivergence = error instanceof RuntimeError && error.reason === "diverged";
    const paths = isDivergence && "paths" in error.failure ? error.failure.paths : [];
    return {
      ...facts,
      ...nothing,
      status: isDivergence ? "diverged" : "unreadable",
      paths,
      message: errorMessage(error),
    };
  }
}

/** Replays the recorded rows. Rejects with `diverged` or `corrupt_row`. */
async function replayRecorded(plan: Plan, { rows }: DrivenTurn): Promise<void> {
  const ports: Ports = {
    journal: new DurableJournal(effectiveRows(rows), { strict: true }),
    scope: memoryScope,
    accepted: true,
    inbox: { claim: () => Promise.reject(new Error("a replay must not claim input")) },
    // Hooks are not called for transitions that are replayed.
    sink: { live: () => undefined, commit: (): Committed => "replayed" },
  };
  try {
    await startRun(plan, () => ports, noChildren).result;
  } catch (error) {
    // The recorded rows are used up: here a process would continue the turn.
    if (!(error instanceof RuntimeError) || error.reason !== "replay_missing") throw error;
  }
}

function noChildren(): () => Promise<never> {
  return () => Promise.reject(new Error("a replay must not run child turns"));
}

/** What the pinned configuration has and the engine has not. */
function missingParts({ pinned, tools, protocol }: Plan): readonly string[] {
  const names = new Set(tools.map(({ name }) => name));
  const missingTools = pinned.environment.tools
    .filter(({ name }) => !names.has(name))
    .map(({ name }) => `tool ${name}`);
  const needsExecutor = pinned.protocol.type === "code" && cellSettingsOf(protocol) === null;
  return needsExecutor ? [...missingTools, "code executor"] : missingTools;
}

async function hasEnded({ storage }: Context, key: SessionKey, turn: string): Promise<boolean> {
  try {
    return (await loadTurn(storage, key, turn)) === null;
  } catch {
    return false;
  }
}

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function isStorageFailure({ reason }: { readonly reason: string }): boolean {
  return ["storage_busy", "storage_full", "storage_failed"].includes(reason);
}
