// Derives what a turn did and when from its journal rows: one item for each row, the processes that drove the turn, and
// the attempts that left no row.
//
// Theory of operation
//   `timelineOf` is a pure function. It gets the rows of a page, some rows around the page (`isContext`), and the
//   records inside the effects of the page. The rows around it are needed because three facts about a row are stored in
//   its neighbours:
//     - the process before: a row with a greater epoch than the row before it is the first one after a claim;
//     - what a crash has thrown away: an effect that was ordered before the claim, and was performed again after it;
//     - the restart of a step: the row `step_restarted` follows the rows that it supersedes.
//   So a page costs what it shows, however long the turn is.
//
// Attempts that a crash has ended leave no row, and only the time of their end bound is known
//   start   when the row that caused the effect was settled: the reply of the model for a tool call, otherwise the row
//           before; the acceptance of the turn for the first effect. The end of the wait before the attempt, if it was
//           a retry.
//   end     the claim of the process that took over. The process had ended before.
//   The effect of the first row under the new epoch was ordered before the claim. So were tool calls that the same
//   reply made and that began before that row was settled; other effects do not run in parallel.
//
// Retries are records: `attempt/<n>` has the failure, `delay/<n>` the wait after it, and so the time at which the
// attempt ended. The text that an attempt had published is the record `discarded/<epoch>/<n>`.

import type { Effect, EffectResponse } from "../../core/kernel/internal.ts";
import type {
  DiscardedAttempt,
  EffectDetail,
  Failure,
  Json,
  TimelineEffect,
  TurnClaim,
  Usage,
} from "../../core/model/internal.ts";
import type { JournalRow } from "../../durable/internal.ts";

import { exactSum, messageText, noUsage, runtimeFailure } from "../../core/model/internal.ts";
import { failureShape, isPlainObject, readOrNull } from "../../core/model/parse/reading.ts";
import { readDiscarded } from "../../durable/internal.ts";

/** A row of the journal for the timeline. */
export type TimelineRow = {
  readonly ordinal: number;
  readonly row: JournalRow;
  /** The row is not part of the page. Default: it is. */
  readonly isContext?: boolean;
};

/** What the timeline of a page is derived from. */
export type TimelineSource = {
  readonly sessionId: string;
  readonly turnId: string;
  /** When the turn was accepted, in milliseconds; `null`: not known. */
  readonly acceptedAt: number | null;
  /** The rows of the page and those around it, in order. */
  readonly rows: readonly TimelineRow[];
  /** The records inside the effects of the page: by effect id, then by name. */
  readonly records?: ReadonlyMap<string, ReadonlyMap<string, Json>>;
  /** The turns that ran inside tool calls of the page, by effect id. */
  readonly children?: ReadonlyMap<string, readonly string[]>;
};

/** The claims and effects of a page. */
export type PageTimeline = { readonly claims: readonly TurnClaim[]; readonly effects: readonly TimelineEffect[] };

/** Builds the timeline of a page. Pure. */
export function timelineOf(source: TimelineSource): PageTimeline {
  const { rows } = source;
  const entries = withSteps(source);
  const superseded = supersededRows(rows);
  const effects = entries.flatMap((entry, index) => {
    if (entry.isContext === true) return [];
    const effect = effectView(source, entries, index);
    return [superseded.has(entry.ordinal) ? { ...effect, state: "superseded" as const } : effect];
  });
  return { claims: claimsOf(rows), effects };
}

/** The processes whose rows are in the page, in order. */
function claimsOf(rows: readonly TimelineRow[]): readonly TurnClaim[] {
  const claims = new Map<number, TurnClaim>();
  for (const { row, isContext } of rows) {
    const { timing, epoch } = row;
    if (isContext === true || timing === null || claims.has(epoch)) continue;
    claims.set(epoch, { owner: timing.owner, epoch, since: timing.heldSince, takesOver: timing.takesOver });
  }
  return [...claims.values()];
}

/** The ordinals of rows that a later restart of their step supersedes. */
function supersededRows(rows: readonly TimelineRow[]): ReadonlySet<number> {
  const superseded = new Set<number>();
  for (const { ordinal, row } of rows) {
    if (row.item.type !== "step_restarted") continue;
    for (let other = row.item.from; other < ordinal; other += 1) superseded.add(other);
  }
  return superseded;
}

type Entry = TimelineRow & { readonly effect: Effect | null; readonly step: number };

/** The rows with their effects and steps. A row that answers no effect belongs to the step of the row before it. */
function withSteps({ rows, turnId }: TimelineSource): readonly Entry[] {
  let step = 0;
  return rows.map((timelineRow): Entry => {
    const effect = effectOf(timelineRow.row);
    step = stepOf(turnId, timelineRow.row, effect) ?? step;
    return { ...timelineRow, effect, step };
  });
}

/** The effect of a row; `null`: the row answers no effect. */
export function effectOf({ effect }: JournalRow): Effect | null {
  return effect === null ? null : JSON.parse(effect);
}

/** A row as it is stored, without the records inside its effect. */
export function rowDetail(ordinal: number, { effect, item, epoch, attempt, timing }: JournalRow): EffectDetail {
  return {
    ordinal,
    effect: effect === null ? null : JSON.parse(effect),
    item: JSON.parse(JSON.stringify(item)),
    epoch,
    attempt,
    timing: timing === null ? null : { ...timing },
    records: [],
  };
}

/** The step in the id `<turn>/<step>/…`; `null`: the row has none. */
function stepOf(turnId: string, { item }: JournalRow, effect: Effect | null): number | null {
  if (item.type === "step_restarted") return item.step;
  const path = effect?.id.startsWith(`${turnId}/`) === true ? effect.id.slice(turnId.length + 1) : "";
  const [, digits] = /^(\d+)\//.exec(path) ?? [];
  return digits === undefined ? null : Number(digits);
}

function effectView(source: TimelineSource, entries: readonly Entry[], index: number): TimelineEffect {
  const { row, ordinal, effect, step } = entryAt(entries, index);
  const { timing, epoch, attempt } = row;
  const id = effect?.id ?? null;
  const records = id === null ? noRecords : (source.records?.get(id) ?? noRecords);
  const retries = retriesOf(records, row);
  const crashes = effect === null ? [] : crashesOf(source, entries, index, retries);
  // The recorded attempt begins after the wait that the last retry has caused, if this process made that retry.
  const resumedAt = retries.at(-1)?.nextAt ?? null;
  const startedAt = timing === null ? null : Math.max(timing.startedAt, Math.min(resumedAt ?? 0, timing.endedAt));
  // A crash is the last attempt of its epoch.
  const discarded = withTexts([...retries.map(({ attempt: retried }) => retried), ...crashes], records);
  return {
    ordinal,
    effectId: id,
    step,
    ...contentOf(row),
    frame: effect?.type === "compact" ? { id: effect.frame, from: effect.from, to: effect.to } : null,
    toolCallId: effect?.type === "call_tool" ? (effect.call.id ?? null) : null,
    ...(effect?.type === "call_tool" ? { name: effect.call.name } : {}),
    startedAt,
    firstAt: timing?.firstAt ?? null,
    endedAt: timing?.endedAt ?? null,
    owner: timing?.owner ?? null,
    epoch,
    attempt,
    discarded: discarded.toSorted((a, b) => a.epoch - b.epoch),
    children: (id === null ? [] : (source.children?.get(id) ?? [])).map((turnId) => ({
      sessionId: source.sessionId,
      turnId,
    })),
  };
}

function entryAt(entries: readonly Entry[], index: number): Entry {
  const entry = entries[index];
  if (entry === undefined) throw new Error(`there is no row ${index}`);
  return entry;
}

const noRecords: ReadonlyMap<string, Json> = new Map();

/** The attempts with their stored texts. */
function withTexts(
  attempts: readonly DiscardedAttempt[],
  records: ReadonlyMap<string, Json>,
): readonly DiscardedAttempt[] {
  const texts = [...records].flatMap(([name, record]) => readDiscarded(name, record) ?? []);
  const isFailed = (epoch: number, n: number): boolean =>
    attempts.some((other) => other.reason === "retry" && other.epoch === epoch && other.attempt === n);
  return attempts.map((attempt) => {
    const found = texts.find(({ epoch, n }) => {
      if (epoch !== attempt.epoch) return false;
      return attempt.reason === "retry" ? n === attempt.attempt : !isFailed(epoch, n);
    });
    return found === undefined ? attempt : { ...attempt, attempt: found.n, text: found.text, textLength: found.length };
  });
}

const noText = { text: "", textLength: 0 } as const;

/** A failed attempt that another one followed, and when that one began. */
type Retry = { readonly attempt: DiscardedAttempt; readonly nextAt: number | null };

/** The attempts that failed and were followed by another one, in order. */
function retriesOf(records: ReadonlyMap<string, Json>, { timing, epoch, attempt }: JournalRow): readonly Retry[] {
  const retries: Retry[] = [];
  for (let n = 1; n < attempt || records.has(`attempt/${n}`); n += 1) {
    const record = records.get(`attempt/${n}`);
    if (record === undefined) continue;
    const wait = delayOf(records.get(`delay/${n}`) ?? null);
    const endedAt = wait === null ? null : wait.dueAt - wait.delayMs;
    const previousEnd = retries.at(-1)?.nextAt ?? null;
    const isEarlierProcess = endedAt !== null && timing !== null && endedAt < timing.heldSince;
    const firstStart = n === 1 && !isEarlierProcess ? (timing?.startedAt ?? null) : null;
    retries.push({
      attempt: {
        reason: "retry",
        epoch: isEarlierProcess ? epoch - 1 : epoch,
        startedAt: previousEnd ?? firstStart,
        attempt: n,
        endedAt,
        failure: storedFailure(record),
        delayMs: wait?.delayMs ?? null,
        ...noText,
      },
      nextAt: wait?.dueAt ?? null,
    });
  }
  return retries;
}

function delayOf(record: Json): { readonly delayMs: number; readonly dueAt: number } | null {
  if (!isPlainObject(record)) return null;
  const { delayMs, dueAt } = record;
  return typeof delayMs === "number" && typeof dueAt === "number" ? { delayMs, dueAt } : null;
}

function storedFailure(record: Json): Failure | null {
  return isPlainObject(record) ? readOrNull(failureShape, record["failure"]) : null;
}

/** How many attempts of processes that left no row are listed for one effect. */
const maxCrashes = 16;

/**
 * The attempts at an effect that crashes have ended: one for each epoch between the row before the claim and the row of
 * the effect.
 */
function crashesOf(
  { acceptedAt }: TimelineSource,
  entries: readonly Entry[],
  index: number,
  retries: readonly Retry[],
): readonly DiscardedAttempt[] {
  const { row, effect } = entryAt(entries, index);
  const { timing, epoch } = row;
  if (effect === null || timing === null || !timing.takesOver) return [];
  const first = entries.findIndex((entry) => entry.row.epoch === epoch);
  const firstEnd = entryAt(entries, first).row.timing?.endedAt ?? timing.startedAt;
  // The first row under the epoch is not among these rows: the turn has gone on since the claim.
  const isFirstKnown = first > 0 || entryAt(entries, first).ordinal === 1;
  if (!isFirstKnown) return [];
  const before = first === 0 ? null : entryAt(entries, first - 1);
  const cause = before === null ? null : causeOf(entries.slice(0, index), effect, entryAt(entries, index).step);
  // Only tool calls run in parallel. One that began later had waited for a permit.
  const isOrdered = effect.type === "call_tool" && cause !== null && cause.row.epoch < epoch;
  if (first !== index && !(isOrdered && timing.startedAt <= firstEnd)) return [];
  const orderedAt = before === null ? acceptedAt : (cause?.row.timing?.endedAt ?? null);
  const waitedUntil = retries
    .map(({ nextAt }) => nextAt ?? 0)
    .filter((at) => at <= timing.heldSince)
    .reduce((latest, at) => Math.max(latest, at), 0);
  const startedAt = waitedUntil === 0 ? orderedAt : Math.max(waitedUntil, orderedAt ?? 0);
  const lastEpoch = epoch - 1;
  const firstEpoch = Math.max(before === null ? lastEpoch : before.row.epoch, epoch - maxCrashes);
  return Array.from({ length: lastEpoch - firstEpoch + 1 }, (_, position): DiscardedAttempt => {
    const attemptEpoch = firstEpoch + position;
    return {
      reason: "crash",
      epoch: attemptEpoch,
      attempt: null,
      startedAt: position === 0 ? startedAt : null,
      endedAt: attemptEpoch === lastEpoch ? timing.heldSince : null,
      failure: null,
      delayMs: null,
      ...noText,
    };
  });
}

/**
 * The row that caused an effect, of the rows before it: the reply or the cell that made a tool call, otherwise the row
 * before.
 */
function causeOf(before: readonly Entry[], effect: Effect, step: number): Entry | null {
  const last = before.at(-1) ?? null;
  if (effect.type !== "call_tool") return last;
  const isCaller = (entry: Entry) => entry.effect?.type === "call_model" || entry.effect?.type === "run_code";
  return before.findLast((entry) => entry.step === step && isCaller(entry)) ?? last;
}

type Content = Pick<TimelineEffect, "kind" | "name" | "state" | "usage" | "text" | "failure">;

const noContent = { name: null, usage: null, text: "", failure: null } as const;

/**
 * What a row says. The message of a failure is in `failure` only: responses of the HTTP API hide some of them there.
 */
function contentOf({ item }: JournalRow): Content {
  switch (item.type) {
    case "cancel":
      return {
        ...noContent,
        kind: "cancel",
        state: "cancelled",
        text: cutOff(item.cancellation.evidence.reason ?? ""),
        usage: item.cancellation.usage,
      };
    case "failure":
      return { ...noContent, kind: "failure", state: "failed", failure: item.failure };
    case "step_restarted":
      return { ...noContent, kind: "restart", state: "ok" };
    case "response":
      return responseContent(item.response);
  }
}

function responseContent(response: EffectResponse): Content {
  switch (response.type) {
    case "model_replied": {
      const { reply, spent } = response;
      const calls = reply.toolCalls.map(({ name }) => name).join(", ");
      return {
        kind: "model",
        name: modelName(reply.route) ?? reply.model,
        state: reply.error === null ? "ok" : "failed",
        usage: sumOf(spent, reply.usage),
        text: cutOff(reply.outputText === null || reply.outputText === "" ? calls : reply.outputText),
        failure: reply.error,
      };
    }
    case "model_failed": {
      const { failure, partial, terminalReason } = response.error;
      return {
        ...noContent,
        kind: "model",
        state: terminalReason === "cancelled" ? "cancelled" : "failed",
        usage: sumOf(response.spent, partial?.usage ?? noUsage),
        text: cutOff(partial?.outputText ?? ""),
        failure,
      };
    }
    case "tokens_counted":
      return { ...noContent, kind: "count", state: "ok", text: countText(response) };
    case "count_failed":
      return { ...noContent, kind: "count", state: "failed", failure: response.failure };
    case "compacted":
      return {
        ...noContent,
        kind: "compaction",
        name: response.model,
        state: "ok",
        usage: sumOf(response.spent, response.usage),
        text: cutOff(response.summary),
      };
    case "compaction_failed": {
      const { failure, spent, usage } = response;
      return { ...noContent, kind: "compaction", state: "failed", usage: sumOf(spent, usage), failure };
    }
    case "tool_returned":
      return { ...noContent, kind: "tool", ...outcomeOf(response.outcome) };
    case "tool_waits":
      return { ...noContent, kind: "tool", state: "waits", text: cutOff(response.question ?? response.reason) };
    case "code_finished":
      return {
        ...noContent,
        kind: "code",
        state: response.error === null ? "ok" : "failed",
        text: cutOff(response.error ?? response.observations.slice(0, 8).join(" ")),
      };
    case "code_calls":
      return {
        ...noContent,
        kind: "code",
        state: "ok",
        text: cutOff(response.calls.map(({ name }) => name).join(", ")),
      };
    case "code_failed":
      return { ...noContent, kind: "code", state: "failed" };
    case "checkpoint_delivered": {
      const { delivery, verdict } = response;
      const messages = [...delivery.messages, ...delivery.transientMessages].map(messageText);
      const causes = delivery.turnCauses.map(({ text }) => text);
      const stops =
        verdict.type === "go_on" ? [] : [verdict.type === "budget" ? `budget of ${verdict.budget}` : verdict.type];
      return {
        ...noContent,
        kind: "checkpoint",
        state: verdict.type === "go_on" ? "ok" : "halted",
        text: cutOff([...stops, ...messages, ...causes].join(" ")),
      };
    }
    case "environment_synced":
      return { ...noContent, kind: "environment", state: "ok" };
    case "environment_failed": {
      const failure = runtimeFailure("callback_failed", { message: response.message });
      return { ...noContent, kind: "environment", state: "failed", failure };
    }
  }
}

function countText({ tokens, by }: Extract<EffectResponse, { readonly type: "tokens_counted" }>): string {
  return `${tokens} input tokens${by === "provider" ? "" : ", by the tokenizer"}`;
}

type ToolOutcome = Extract<EffectResponse, { readonly type: "tool_returned" }>["outcome"];

function outcomeOf(outcome: ToolOutcome): Pick<Content, "state" | "text" | "failure"> {
  switch (outcome.type) {
    case "success":
      return { state: "ok", text: valueText(outcome.value), failure: null };
    case "failure":
      return { state: isDenial(outcome) ? "denied" : "failed", text: "", failure: outcome.failure };
    case "cancelled":
      return { state: "cancelled", text: cutOff(outcome.message), failure: null };
    case "ask_user":
      return { state: "waits", text: cutOff(outcome.question), failure: null };
    case "halt":
      return { state: "halted", text: cutOff(outcome.reason), failure: null };
  }
}

/** Whether a person, a hook or a rule has denied the call, so that the tool did not run. */
function isDenial(outcome: ToolOutcome): boolean {
  return outcome.type === "failure" && outcome.failure.reason === "denied";
}

function valueText(value: unknown): string {
  return cutOff(typeof value === "string" ? value : (JSON.stringify(value) ?? ""));
}

/** The model as `provider:model`; `null`: the reply does not name it. */
function modelName(route: { readonly provider: string; readonly model: string } | null): string | null {
  if (route === null) return null;
  const { provider, model } = route;
  return model.startsWith(`${provider}:`) ? model : `${provider}:${model}`;
}

function sumOf(first: Usage, second: Usage): Usage {
  return exactSum(first, second) ?? second;
}

/** The beginning of a text: 200 characters. A surrogate pair is not split. */
function cutOff(text: string): string {
  return Array.from(text.slice(0, 800)).slice(0, 200).join("");
}
