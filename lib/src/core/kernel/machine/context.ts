// Keeps the requests of a turn within the context window: pruning of old tool results, and compaction of old messages.
//
// Theory of operation
//   Every model call passes `waitForModel`. With context limits it estimates the tokens of the request: the newest
//   count of the provider plus an estimate of what is new (`requestTokens`). Two thresholds follow:
//     prune    `prunedBefore` moves to where the newest `keepRecent` tokens begin. Long results before it are sent
//              shortened. No model call.
//     compact  the turn first waits for the effect `compact`, whose response is a summary. A frame with the summary
//              then stands for the messages before it.
//   Both change the prefix of requests, which the provider has cached, so both are done in large steps: only if the
//   request becomes shorter by a part of the window without the reserve: a fifth (`minGain`), for pruning two fifths,
//   and only once between two frames.
//
//   An estimate from characters may be wrong by a factor of two (`maxError`). If the compaction depends on that, and
//   the turn may ask (`ContextLimits.counts`), it first waits for the effect `count_tokens`. The number in its response
//   decides, and corrects later estimates; if the count fails, the estimate decides, and the next count is asked for
//   when the history has grown by `minGain` tokens. There is one count for each model call at most, and none where the
//   usage of the reply before leaves no doubt.
//
//   A compaction may also be requested (`ContextWindow.requested`): by the verb `compact`, which writes the request to
//   the session, or by a tool of the model (`compactTool`). The next model call is then preceded by one, however short
//   the history is, and the request is gone.
//
//   Each message is estimated once, and the tokens of a range are the difference of two running sums
//   (history/view-tokens.ts), so a step costs what is new in it (H5).
//
//   If the messages to be replaced do not fit in the request of a summary, they are summarized in parts, oldest first:
//   each part is a compaction with its own effect and frame, whose request contains the frame of the part before.
//
//   A model call that fails because its request is too long (`context_length_exceeded`) compacts once and is repeated,
//   under the effect id of another attempt (`overflowed`).
//
// Crash points
//   The range and the id of a frame are part of the phase, which follows from the committed items before it, and of the
//   effect, so every process that continues the turn asks for the same frame. The frame exists when the response is
//   committed, and a response is accepted once (K4): there is exactly one frame, whatever crashes. A history that grew
//   in between cannot be covered: only the turn that holds the lease appends to it. A count is a response, too: a
//   replay takes the recorded one and decides as before.
//
// Invariants
//   1. The history never changes. Only what requests contain of it does.
//   2. All decisions are functions of the state, so a replay builds the same requests (K6).
//   3. There are no loops: an attempt to compact is followed by another one only when the history has grown by
//      `minGain` tokens, or once in a step after a request that was too long.

import type {
  CompactionRequest,
  ContextWindow,
  Failure,
  HistoryFrame,
  Message,
  ModelName,
  ModelReply,
  TokenCount,
  Usage,
} from "../../model/internal.ts";
import type { HistoryView } from "../history/prompt.ts";
import type { TurnProtocol } from "../protocol/protocol.ts";
import type { ContextLimits } from "./context-limits.ts";
import type { Compacted, CompactionFailed, TokensCounted } from "./response.ts";
import type { TransitionBuilder } from "./transition-builder.ts";
import type { AwaitingModel, Turn } from "./turn.ts";

import { boundedSum, compactionItem } from "../../model/internal.ts";
import { compactedByProvider } from "../history/compacted-by-provider.ts";
import { estimateFrame, fittingCut, pinnedPositions, shortView, validCut, viewOf } from "../history/framed-history.ts";
import { viewedMessages } from "../history/prompt.ts";
import { estimateValue } from "../history/tokens.ts";
import { estimateRange, positionBefore } from "../history/view-tokens.ts";
import { limitsOf } from "./context-limits.ts";
import { callSuffix, partSuffix } from "./pending-effects.ts";

/** The part of the usable window by which a compaction has to make a request shorter. */
const gainShare = 0.2;

/**
 * That part for pruning, which also happens once for each frame: the provider has cached the prefix that it changes,
 * and the frame that follows changes it again. With 0.2 and no such limit a measured conversation had 1.5 times as many
 * tokens that were not cached.
 */
const pruneGainShare = 0.4;

/** The greatest ratio of counted to estimated tokens, and the inverse of the smallest one. */
const maxRatio = 4;

/** Estimates of fewer tokens than this say nothing about the ratio. */
const ratioFrom = 256;

/**
 * The factor by which an estimate from characters may be wrong. Texts have 0.4 (Russian) to 2.3 (tables of numbers)
 * tokens for each estimated one (docs/decisions/0078).
 */
const maxError = 2;

/**
 * Waits for a model call, after its request was counted, pruned or compacted if the context limits of the turn say so.
 */
export function waitForModel<P extends TurnProtocol>(builder: TransitionBuilder<P>, phase: AwaitingModel<P>): void {
  const limits = limitsOf(builder.turn);
  if (limits === null) return builder.wait(phase);
  if (limits.counts && isUndecided(builder.turn, limits)) return builder.wait({ type: "awaiting_count", call: phase });
  shorten(builder, limits, phase);
}

/** `tokens_counted`: the number decides whether the request is shortened. */
export function tokensCounted<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { tokens, by }: TokensCounted,
): void {
  const limits = limitsOf(builder.turn);
  const { phase, history } = builder.turn;
  if (phase.type !== "awaiting_count" || limits === null) return;
  const ratio = ratioOf(builder.turn, limits, tokens);
  const source = by === "provider" ? "counted" : "estimated";
  update(builder, { ratio, count: { tokens, source, by, length: history.length } });
  shorten(builder, limits, phase.call);
}

/** `count_failed`: the estimate decides. */
export function countFailed<P extends TurnProtocol>(builder: TransitionBuilder<P>): void {
  const limits = limitsOf(builder.turn);
  const { phase, history } = builder.turn;
  if (phase.type !== "awaiting_count" || limits === null) return;
  update(builder, { uncountedAt: history.length });
  shorten(builder, limits, phase.call);
}

/** Waits for a model call, after its request was pruned or compacted if it is too long. */
function shorten<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  limits: ContextLimits,
  phase: AwaitingModel<P>,
): void {
  const { requested } = builder.turn.contextWindow;
  if (requested !== null) update(builder, { requested: null });
  const asked = requested === null ? null : requestedTo(builder.turn, limits);
  if (asked !== null) return compact(builder, limits, phase, asked, requested);
  prune(builder, limits);
  const to = compactTo(builder.turn, limits);
  if (to === null) return builder.wait(phase);
  compact(builder, limits, phase, to);
}

/** Compacts before the next model call, also if the history is short. A later request replaces an earlier one. */
export function requestCompaction<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  requested: CompactionRequest,
): void {
  update(builder, { requested });
}

/**
 * Records how many tokens the request of a reply had. Called before the reply enters the history. If the provider has
 * compacted the conversation in this reply, the number says nothing about the next request, which is estimated.
 */
export function countRequest<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { message, usage: { inputTokens } }: Pick<ModelReply, "message" | "usage">,
): void {
  const limits = limitsOf(builder.turn);
  if (limits === null) return;
  if (message !== null && compactionItem(message) !== null) return update(builder, { count: null });
  const { length } = builder.turn.history;
  if (inputTokens !== null && inputTokens > 0) {
    const ratio = ratioOf(builder.turn, limits, inputTokens);
    return update(builder, { ratio, count: { tokens: inputTokens, source: "counted", by: "usage", length } });
  }
  const tokens = Math.ceil(wholeEstimate(builder.turn, limits) * builder.turn.contextWindow.ratio);
  update(builder, { count: { tokens, source: "estimated", by: "characters", length } });
}

/** The ratio of a count of the whole request to its estimate; that of before if the request is too short. */
function ratioOf(turn: Turn, limits: ContextLimits, tokens: number): number {
  const estimate = wholeEstimate(turn, limits);
  return estimate < ratioFrom ? turn.contextWindow.ratio : roundedRatio(tokens / estimate);
}

/**
 * Makes the request of a failed model call shorter and repeats the call. Returns false if the turn has no limits, if
 * the step was repeated before, or if nothing can be left out.
 */
export function repeatShorter<P extends TurnProtocol>(builder: TransitionBuilder<P>): boolean {
  const { phase, overflowed, contextWindow } = builder.turn;
  const limits = limitsOf(builder.turn);
  if (limits === null || overflowed || phase.type !== "awaiting_model") return false;
  // The request has at least as many tokens as the window.
  const ratio = Math.max(contextWindow.ratio, roundedRatio(limits.window / wholeEstimate(builder.turn, limits)));
  builder.update({ overflowed: true });
  update(builder, { ratio, count: null });
  const before = requestTokens(builder.turn, limits);
  pruneTo(builder, builder.turn.history.length);
  if (limits.compact !== null) {
    const { history } = builder.turn;
    const from = contextWindow.frame?.to ?? 0;
    const view = viewOf(builder.turn.contextWindow, limits);
    for (const keep of [limits.keepRecent, limits.keepRecent / 4, 1]) {
      const to = validCut(history, from, positionBefore(history, view, keep / ratio));
      if (to <= from) continue;
      compact(builder, limits, phase, to);
      return true;
    }
  }
  if (requestTokens(builder.turn, limits) < before) {
    builder.wait(phase);
    return true;
  }
  return false;
}

/** `compacted`: the frame stands for its range from now on. A blank summary counts as a failure. */
export function compacted<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { summary, usage, spent }: Compacted,
): void {
  const { phase } = builder.turn;
  if (phase.type !== "awaiting_compaction") return;
  if (!spendOnSummary(builder, spent, usage)) return;
  if (summary.trim() === "") return withoutSummary(builder, null);
  setFrame(builder, summary, phase.to);
  compactRest(builder);
}

/** `compaction_failed`: the turn continues without a summary. */
export function compactionFailed<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { usage, spent, failure }: CompactionFailed,
): void {
  if (spendOnSummary(builder, spent, usage)) withoutSummary(builder, failure);
}

/** Adds the usage of a summary to that of the turn. False: a sum has overflowed, and the turn has ended. */
function spendOnSummary<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  ...usages: readonly [spent: Usage, ofLastAttempt: Usage]
): boolean {
  const { summaryUsage } = builder.turn.contextWindow;
  update(builder, { summaryUsage: usages.reduce(boundedSum, summaryUsage) });
  return usages.every((usage) => builder.spend(usage));
}

/**
 * Prunes all results that the frame would have stood for. If the request is still too long, the frame stands for its
 * messages without a summary of them: for those of a part that was too long itself, otherwise for all that were to be
 * replaced.
 */
function withoutSummary<P extends TurnProtocol>(builder: TransitionBuilder<P>, failure: Failure | null): void {
  const { phase, contextWindow } = builder.turn;
  const limits = limitsOf(builder.turn);
  if (phase.type !== "awaiting_compaction" || limits === null) return;
  const { from, to, rest, call } = phase;
  const end = rest ? rest.end : to;
  pruneTo(builder, Math.max(contextWindow.prunedBefore, end));
  if (!builder.turn.overflowed && requestTokens(builder.turn, limits) <= usable(limits)) return builder.wait(call);
  const isTooLong = failure?.type === "adapter_error" && failure.reason === "context_length_exceeded";
  const cut = isTooLong ? to : end;
  const earlier = contextWindow.frame?.summary ?? null;
  const summary = earlier === null ? null : `${earlier}\n\n[Messages after it that are in no summary: ${cut - from}.]`;
  setFrame(builder, summary, cut);
  compactRest(builder);
}

/** Waits for the summary of the next part of the messages to be replaced, or for the model call if there is none. */
function compactRest<P extends TurnProtocol>(builder: TransitionBuilder<P>): void {
  const { phase, contextWindow } = builder.turn;
  const limits = limitsOf(builder.turn);
  if (phase.type !== "awaiting_compaction" || limits === null) return;
  const { rest, call, instructions } = phase;
  if (!rest || rest.end <= (contextWindow.frame?.to ?? 0)) return builder.wait(call);
  compact(builder, limits, call, rest.end, { instructions }, rest.part + 1);
}

function setFrame<P extends TurnProtocol>(builder: TransitionBuilder<P>, summary: string | null, to: number): void {
  const { phase, contextWindow, history } = builder.turn;
  if (phase.type !== "awaiting_compaction") return;
  const pinned = pinnedPositions(history, contextWindow.frame, to);
  const frame: HistoryFrame = { id: phase.frame, to, summary, pinned, undoneAt: null };
  update(builder, { frame, count: null });
}

/** Waits for the summary of the messages before `end`, or of the first of them that fit in the request of a summary. */
function compact<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  limits: ContextLimits,
  call: AwaitingModel<P>,
  end: number,
  requested: CompactionRequest | null = null,
  part = 1,
): void {
  const { turnId, step, history, overflowed, contextWindow } = builder.turn;
  const isTooLong = part > 1 || overflowed || requestTokens(builder.turn, limits) > usable(limits);
  update(builder, { attemptedAt: history.length });
  const from = contextWindow.frame?.to ?? 0;
  const to = isTooLong ? fittingCut(history, shortView(from, end), end, partTokens(builder.turn, limits)) : end;
  const rest = part > 1 || to < end ? { end, part } : null;
  const frame = `${turnId}/${step}/frame${callSuffix(builder.turn)}${partSuffix(rest)}`;
  const instructions = requested?.instructions ?? null;
  builder.wait({ type: "awaiting_compaction", frame, from, to, isTooLong, rest, instructions, call });
}

/**
 * The estimated tokens that the messages in the request of a summary may have: half of the window, or what the
 * instructions, tools and frame leave, at least an eighth. If they leave nothing, no request fits, and one is enough to
 * find that out.
 */
function partTokens({ contextWindow, environment, history }: Turn, limits: ContextLimits): number {
  const { frame, ratio } = contextWindow;
  const others = estimateValue(environment) + (frame === null ? 0 : estimateFrame(history, frame));
  const free = usable(limits) / ratio - others;
  const window = limits.window / ratio;
  return free <= 0 ? Number.POSITIVE_INFINITY : Math.min(window / 2, Math.max(window / 8, free));
}

/**
 * The position up to which a requested compaction replaces the history: all but the newest `keepRecent` tokens, or the
 * newest quarter if the history is shorter. `null`: nothing can be replaced.
 */
function requestedTo({ history, contextWindow }: Turn, limits: ContextLimits): number | null {
  const view = viewOf(contextWindow, limits);
  const quarter = estimateRange(history.entries, view.from, history.length, view) / 4;
  const keep = Math.min(limits.keepRecent / contextWindow.ratio, quarter);
  const to = validCut(history, view.from, positionBefore(history, view, keep));
  return to === view.from ? null : to;
}

/** The position up to which the history is compacted now; `null`: it is not. */
function compactTo(turn: Turn, limits: ContextLimits): number | null {
  if (limits.compact === null || requestTokens(turn, limits) < limits.compact.at) return null;
  return compactableTo(turn, limits);
}

/**
 * Does it depend on the error of the estimate whether the history is compacted now, or whether the request of its
 * summary is too long?
 */
function isUndecided(turn: Turn, limits: ContextLimits): boolean {
  if (limits.compact === null || !hasGrown(turn, limits, turn.contextWindow.uncountedAt)) return false;
  const { counted, estimated } = measured(turn, limits);
  const isBetween = (tokens: number): boolean =>
    counted + estimated / maxError < tokens && tokens <= counted + estimated * maxError;
  const { requested } = turn.contextWindow;
  const isNear = isBetween(usable(limits)) || (requested === null && isBetween(limits.compact.at));
  return isNear && (requested === null ? compactableTo(turn, limits) : requestedTo(turn, limits)) !== null;
}

/** Has the history grown by `minGain` tokens since it had this length? 0: since nothing was attempted. */
function hasGrown({ history, contextWindow }: Turn, limits: ContextLimits, since: number): boolean {
  const view = viewOf(contextWindow, limits);
  const gain = minGain(limits) / contextWindow.ratio;
  return since === 0 || estimateRange(history.entries, since, history.length, view) >= gain;
}

/** The position up to which a request that is too long is compacted; `null`: it would not become shorter enough. */
function compactableTo(turn: Turn, limits: ContextLimits): number | null {
  const { history, contextWindow } = turn;
  const { ratio, frame, attemptedAt } = contextWindow;
  if (!hasGrown(turn, limits, attemptedAt)) return null;
  const view = viewOf(contextWindow, limits);
  const gain = minGain(limits) / ratio;
  const from = frame?.to ?? 0;
  const sent = sentFrom(turn);
  const target = positionBefore(history, view, limits.keepRecent / ratio);
  if (estimateRange(history.entries, sent, target, view) < gain) return null;
  const to = validCut(history, from, target);
  return to === from || estimateRange(history.entries, sent, to, view) < gain ? null : to;
}

/** Moves `prunedBefore` if the request is long enough, and becomes shorter by `pruneGainShare`; once for each frame. */
function prune<P extends TurnProtocol>(builder: TransitionBuilder<P>, limits: ContextLimits): void {
  const { turn } = builder;
  if (limits.prune === null || requestTokens(turn, limits) < limits.prune.at) return;
  const { history, contextWindow } = turn;
  const { ratio, prunedBefore } = contextWindow;
  const view = viewOf(contextWindow, limits);
  const from = Math.max(prunedBefore, sentFrom(turn));
  // Pruned since the newest frame: the next step is a compaction.
  if (limits.compact !== null && prunedBefore > sentFrom(turn)) return;
  const to = positionBefore(history, view, limits.keepRecent / ratio);
  if (to <= from) return;
  const shorter: HistoryView = { ...view, prunedBefore: to };
  const gain = estimateRange(history.entries, from, to, view) - estimateRange(history.entries, from, to, shorter);
  if (gain * ratio >= usable(limits) * pruneGainShare) pruneTo(builder, to);
}

function pruneTo<P extends TurnProtocol>(builder: TransitionBuilder<P>, prunedBefore: number): void {
  if (prunedBefore !== builder.turn.contextWindow.prunedBefore) update(builder, { prunedBefore, count: null });
}

/** The tokens of the request that the turn would send now. */
export function requestTokens(turn: Turn, limits: ContextLimits): number {
  const { counted, estimated } = measured(turn, limits);
  return counted + estimated;
}

/** The tokens of the request that the turn would send now: what was counted, and an estimate of the rest. */
function measured(turn: Turn, limits: ContextLimits): { readonly counted: number; readonly estimated: number } {
  const { history, contextWindow } = turn;
  const { ratio } = contextWindow;
  const count = countOf(turn);
  if (count === null) return { counted: 0, estimated: wholeEstimate(turn, limits) * ratio };
  const view = viewOf(contextWindow, limits);
  const estimated = estimateRange(history.entries, count.length, history.length, view) * ratio;
  return { counted: count.tokens, estimated };
}

/** The count that the next request begins with; `null`: nothing of it was counted. */
function countOf(turn: Turn): TokenCount | null {
  const { count } = turn.contextWindow;
  // The count may be that of another model, whose provider had left out more.
  return count === null || count.by === "characters" || sentFrom(turn) < sentFrom(turn, null) ? null : count;
}

/**
 * The messages of the next request that follow its newest count, and the tokens before them; `messages` `null`: nothing
 * of the request was counted. For a tokenizer, which counts only what is new.
 */
export function uncounted(turn: Turn): { readonly counted: number; readonly messages: readonly Message[] | null } {
  const limits = limitsOf(turn);
  const count = countOf(turn);
  if (limits === null || count === null) return { counted: 0, messages: null };
  const { history, contextWindow } = turn;
  const view = { ...viewOf(contextWindow, limits), from: count.length };
  return { counted: count.tokens, messages: viewedMessages(history.entries, history.length, view) };
}

/** The estimate of a whole request, which no count has corrected. */
function wholeEstimate(turn: Turn, limits: ContextLimits): number {
  const { history, contextWindow, environment } = turn;
  const { frame } = contextWindow;
  const view = viewOf(contextWindow, limits);
  const from = sentFrom(turn);
  return (
    estimateValue(environment) +
    (frame === null || from > view.from ? 0 : estimateFrame(history, frame)) +
    estimateRange(history.entries, from, history.length, view)
  );
}

/**
 * The position of the first message that a request contains: after the frame, or with the item of the provider. `model`
 * `null`: with the newest item of any model.
 */
function sentFrom({ history, contextWindow, environment }: Turn, model: ModelName | null = environment.model): number {
  return Math.max(contextWindow.frame?.to ?? 0, compactedByProvider(history, model));
}

/** The tokens that a request may have. */
function usable({ window, reserve }: ContextLimits): number {
  return window - reserve;
}

function minGain(limits: ContextLimits): number {
  return usable(limits) * gainShare;
}

/** Three digits: the number is stored. */
function roundedRatio(ratio: number): number {
  return Math.round(Math.min(maxRatio, Math.max(1 / maxRatio, ratio)) * 1000) / 1000;
}

function update<P extends TurnProtocol>(builder: TransitionBuilder<P>, fields: Partial<ContextWindow>): void {
  builder.update({ contextWindow: { ...builder.turn.contextWindow, ...fields } });
}
