// What fills the context window in one request: instructions, tools, summaries, tool results and the rest of the
// conversation. For pages that explain a request (serve/inspect); the turn does not need it.
//
// The estimates are those with which the context policy decides (tokens.ts, machine/context.ts). A provider reports one
// number for the whole request, so the parts are always estimated: they are scaled, and add up to the number of the
// request, counted or estimated.

import type { Message, ModelRequest, TokenCount, WindowUse } from "../../model/internal.ts";
import type { Turn } from "../machine/turn.ts";

import { compactionItem } from "../../model/internal.ts";
import { limitsOf } from "../machine/context-limits.ts";
import { requestTokens } from "../machine/context.ts";
import { isCompactedFor } from "./compacted-by-provider.ts";
import { renderFrame } from "./framed-history.ts";
import { estimateMessage, estimateValue } from "./tokens.ts";

type WindowPart = WindowUse["parts"][number];

/**
 * What fills the window in the request of a turn that waits for a model call or a summary. `counted`: the input tokens
 * that the provider has reported for this request; `null`: none.
 */
export function windowUse(turn: Turn, request: ModelRequest, counted: number | null): WindowUse {
  const estimates = estimateParts(turn, request);
  const estimate = Object.values(estimates).reduce((sum, tokens) => sum + tokens, 0);
  const limits = limitsOf(turn);
  const { ratio, count } = turn.contextWindow;
  const decided = limits !== null && turn.phase.type === "awaiting_model" ? requestTokens(turn, limits) : null;
  const tokens = counted ?? Math.ceil(decided ?? estimate * ratio);
  // Before the call, the turn may have asked the provider how many tokens the request has.
  const isAsked = decided !== null && count?.source === "counted" && count.length === turn.history.length;
  const source: TokenCount["source"] = counted !== null || isAsked ? "counted" : "estimated";
  const { model } = turn.environment;
  const window = limits?.window ?? (typeof model === "object" ? (model?.limits?.context ?? null) : null);
  const reserve = Math.ceil(limits?.reserve ?? 0);
  return {
    window,
    reserve,
    compactAt: limits?.compact?.providerAt ?? limits?.compact?.at ?? null,
    input: { tokens, source },
    parts: scaled(estimates, tokens),
    free: window === null ? null : { tokens: Math.max(0, window - reserve - tokens), source },
  };
}

type Estimates = { readonly [name in WindowPart["name"]]: number };

/** The estimated tokens of each part of a request. */
function estimateParts(turn: Turn, request: ModelRequest): Estimates {
  const { messages, tools, providerTools, responseFormat } = request;
  const estimates = { instructions: 0, tools: 0, summary: 0, results: 0, history: 0 };
  const settings = [...tools, ...providerTools, ...(responseFormat === null ? [] : [responseFormat])];
  for (const setting of settings) estimates.tools += estimateValue(setting);
  const firstOther = messages.findIndex(({ role }) => role !== "system");
  const frame = turn.policy.context ? turn.contextWindow.frame : null;
  const summary = frame === null ? null : renderFrame(turn.history, frame)[0];
  // The provider reads no messages before its newest item but the system messages.
  const { model } = turn.environment;
  const begin = Math.max(
    0,
    messages.findLastIndex((message) => isCompactedFor(message, model)),
  );
  for (const [index, message] of messages.entries()) {
    if (index < begin && message.role !== "system") continue;
    const tokens = estimateMessage(message);
    if (index < firstOther || firstOther === -1) estimates.instructions += tokens;
    else if (message === summary) estimates.summary += tokens;
    else if (message.role === "tool") estimates.results += tokens;
    else {
      const item = index === begin ? itemTokens(message) : 0;
      estimates.summary += item;
      estimates.history += tokens - item;
    }
  }
  return estimates;
}

/** The estimated tokens of the item of the provider in a reply; 0: it has none. */
function itemTokens(message: Message): number {
  const item = compactionItem(message);
  return item === null ? 0 : estimateValue(item);
}

const names: readonly WindowPart["name"][] = ["instructions", "tools", "summary", "history", "results"];

/** The parts in whole tokens that add up to `tokens`. What rounding leaves belongs to the largest part. */
function scaled(estimates: Estimates, tokens: number): readonly WindowPart[] {
  const estimate = names.reduce((sum, name) => sum + estimates[name], 0);
  const whole = names.map((name) => (estimate === 0 ? 0 : Math.floor((estimates[name] / estimate) * tokens)));
  const rest = tokens - whole.reduce((sum, part) => sum + part, 0);
  const largest = whole.indexOf(Math.max(...whole));
  return names.map((name, index) => ({
    name,
    tokens: (whole[index] ?? 0) + (index === largest ? rest : 0),
    source: "estimated",
  }));
}
