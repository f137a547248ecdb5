// Rebuilds the request of a recorded model call: the journal holds its answer, and of its request only the digests of
// the environment and of the history (Q6).
//
// The rows before the call are replayed through the kernel with the pinned configuration of the turn, as a process that
// takes the turn over would do it. Nothing is performed. What the kernel orders next is the call again. Its effect is
// compared with the recorded one: another digest means that the request was another one than the one shown, because the
// code or the stored data have changed since.

import type { Adapter, Engine } from "../../core/engine/internal.ts";
import type { Effect, Turn } from "../../core/kernel/internal.ts";
import type { Json, JsonObject, ModelRequest, WindowUse } from "../../core/model/internal.ts";
import type { Committed, Ports } from "../../core/run/internal.ts";
import type { RecordedRow } from "../drive/journal.ts";
import type { TurnRecord } from "./replay-turn.ts";

import {
  canonicalJson,
  pendingEffects,
  projectRequest,
  projectSummaryRequest,
  windowUse,
} from "../../core/kernel/internal.ts";
import { compactionItem, isEverturnError, RuntimeError } from "../../core/model/internal.ts";
import { isObject } from "../../core/model/parse/reading.ts";
import { answeredFallback, memoryScope, planRun, routesOf, startRun } from "../../core/run/internal.ts";
import { divergentPaths } from "../drive/divergence.ts";
import { checkRevision } from "../drive/driven-turn.ts";
import { runOptions } from "../drive/durable-options.ts";
import { DurableJournal, effectiveRows } from "../drive/journal.ts";
import { planDetails } from "../drive/new-turn.ts";
import { offlineEngine } from "../drive/offline-engine.ts";
import { readRecord } from "./replay-turn.ts";

/** The request of a model call, rebuilt. */
export type RebuiltRequest = {
  /** The request, before the middleware of the engine. */
  readonly request: ModelRequest;
  /**
   * The path and the body as the adapter sends them; `null`: it encodes no HTTP request or refuses this one, for
   * example because the engine has another provider now, or the engine is not given.
   */
  readonly sent: Awaited<ReturnType<NonNullable<Adapter["encode"]>>> | null;
  /** What fills the context window in it. */
  readonly window: WindowUse;
  /** The places at which the effect differs from the recorded one, for example `history.digest`. Empty: none. */
  readonly differences: readonly string[];
};

/**
 * Rebuilds the request of row `ordinal` of a turn, for the first attempt at its first model. `engine`: that of the
 * turn; `null`: this process does not have it, so nothing is encoded. Rejects with `not_found` if the row is no model
 * call, and like `replayTurn`.
 */
export async function rebuildRequest(
  record: TurnRecord,
  ordinal: number,
  engine: Engine | null,
): Promise<RebuiltRequest> {
  const { sessionId, turnId, history, protocolEvents, start, pinned, context, rows } = readRecord(record).data;
  checkRevision(turnId, start);
  const recorded = recordedCall(rows[ordinal - 1]?.effect ?? null);
  if (recorded === null) {
    throw new RuntimeError("not_found", { message: `row ${ordinal} of turn ${turnId} is no model call` });
  }
  const thread = { messages: history, metadata: {} };
  const options = { ...runOptions(start.options), context };
  const details = { ...planDetails(turnId, sessionId, start, protocolEvents), pinned };
  const plan = planRun(engine ?? offlineEngine, thread, options, details);
  const found: { call: Effect; turn: Turn }[] = [];
  // The rows bind: what differs is reported of the call that is asked for.
  const before = effectiveRows(rows.slice(0, ordinal - 1)).map((row) => ({ ...row, binding: true }));
  const ports: Ports = {
    journal: new DurableJournal(before, { strict: true }),
    scope: memoryScope,
    accepted: true,
    inbox: { claim: () => Promise.reject(new Error("a replay must not claim input")) },
    sink: {
      live: () => undefined,
      commit: ({ turn }): Committed => {
        const call = pendingEffects(turn).find(({ id }) => id === recorded["id"]);
        if (call !== undefined) found.push({ call, turn });
        return "replayed";
      },
    },
  };
  try {
    await startRun(plan, () => ports, noChildren).result;
  } catch (error) {
    // The rows before the call are used up.
    if (!(error instanceof RuntimeError) || error.reason !== "replay_missing") throw error;
  }
  const last = found.at(-1);
  if (last === undefined) {
    throw new RuntimeError("diverged", {
      message: `a replay of the rows before row ${ordinal} of turn ${turnId} does not order its model call`,
      paths: [],
    });
  }
  const { call, turn } = last;
  const project = call.type === "compact" ? projectSummaryRequest : projectRequest;
  const request = project(plan.config, turn);
  const { adapter } = routesOf(plan, request.model, answered(before))[0];
  const ordered: Json = JSON.parse(canonicalJson(call));
  return {
    request,
    window: windowUse(turn, request, countedInput(rows[ordinal - 1])),
    sent: engine === null ? null : await encoded(adapter, request),
    differences: divergentPaths(recorded, ordered),
  };
}

async function encoded(adapter: Adapter, request: ModelRequest): Promise<RebuiltRequest["sent"]> {
  try {
    return (await adapter.encode?.(request)) ?? null;
  } catch (error) {
    if (isEverturnError(error)) return null;
    throw error;
  }
}

/**
 * The input tokens that the provider has reported for the call of a row; `null`: none. A reply in which the provider has
 * compacted the conversation has used more than the request.
 */
function countedInput(row: TurnRecord["data"]["rows"][number] | undefined): number | null {
  const response = row?.item.type === "response" ? row.item.response : null;
  if (response?.type === "compacted" || response?.type === "compaction_failed") {
    return positive(response.usage.inputTokens);
  }
  if (response?.type !== "model_replied") return null;
  const { message, usage } = response.reply;
  return message !== null && compactionItem(message) !== null ? null : positive(usage.inputTokens);
}

/** Every request has tokens, and servers that do not count report 0. */
function positive(tokens: number | null): number | null {
  return tokens !== null && tokens > 0 ? tokens : null;
}

/** The recorded effect, if it calls a model; `null`: it does not. */
function recordedCall(text: string | null): JsonObject | null {
  const effect: Json = text === null ? null : JSON.parse(text);
  return isObject(effect) && (effect["type"] === "call_model" || effect["type"] === "compact") ? effect : null;
}

/** The fallback that answered last before a call, whose adapter makes the call. */
function answered(rows: readonly RecordedRow[]): ReturnType<typeof answeredFallback> {
  const replies = rows.flatMap(({ row: { item } }) =>
    item.type === "response" && item.response.type === "model_replied" && item.response.model !== null
      ? [item.response]
      : [],
  );
  const last = replies.at(-1);
  return last === undefined ? null : answeredFallback(last);
}

function noChildren(): () => Promise<never> {
  return () => Promise.reject(new Error("a replay must not run child turns"));
}
