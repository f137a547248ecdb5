// The limits of the context window as a turn pins them: numbers in place of the shares and defaults of an engine.

import type { Infer, Shape } from "../../model/parse/reading.ts";
import type { Turn } from "./turn.ts";

import {
  boolean,
  count,
  fallback,
  modelNameShape,
  nullable,
  number,
  object,
  oneOf,
  required,
  string,
} from "../../model/parse/reading.ts";

const pruneFields = {
  /** Prune when a request has this many tokens. */
  at: required(number),
  /** The length of a pruned tool result, in characters. */
  keep: required(count),
};

const budgetFields = {
  /** Input and output tokens together; `null`: no limit. */
  tokens: fallback(nullable(number), null),
  /** US dollars; `null`: no limit. */
  cost: fallback(nullable(number), null),
  per: fallback(oneOf(["turn", "session"]), "turn"),
};

const compactFields = {
  /** The tokens at which the provider compacts; `null`: it does not. `at` is where the library steps in. */
  providerAt: fallback(nullable(number), null),
  /** Compact when a request has this many tokens. */
  at: required(number),
  /** The model that writes the summary; `null`: that of the turn. */
  model: fallback(nullable(modelNameShape), null),
  /** What the summary has to keep, besides what the library asks for. */
  instructions: fallback(nullable(string), null),
  /** The greatest number of output tokens of a summary; `null`: that of the other requests. */
  maxTokens: fallback(nullable(number), null),
  /** What summaries may use; `null`: no limit. Checked by core/run/perform/summary-budget.ts. */
  budget: fallback(nullable(object(budgetFields)), null),
};

const contextLimitFields = {
  /** The context window, in tokens. */
  window: required(number),
  /** Tokens of the window that a request leaves free, for the reply. */
  reserve: required(number),
  /** Tokens of the newest history that are neither pruned nor compacted. */
  keepRecent: required(number),
  /** The greatest length of any tool result in a request, in characters. */
  longestResult: required(number),
  /** Is the number of tokens asked for where an estimate does not decide whether the history is compacted? */
  counts: fallback(boolean, false),
  /** `null`: tool results are not pruned. */
  prune: fallback(nullable(object(pruneFields)), null),
  /** `null`: the history is not compacted. */
  compact: fallback(nullable(object(compactFields)), null),
};

/** How a turn keeps its requests within the context window of its model. */
export type ContextLimits = Infer<typeof contextLimitFields>;

export const contextLimitsShape: Shape<ContextLimits> = object(contextLimitFields);

/** The limits of a turn for the model that it uses now; `null`: it has none. */
export function limitsOf({ policy, environment }: Pick<Turn, "policy" | "environment">): ContextLimits | null {
  // A turn that an older release stored has no such field.
  const context = policy.context ?? null;
  const { model } = environment;
  const known = typeof model === "object" ? (model?.limits?.context ?? null) : null;
  if (context === null || known === null || known >= context.window) return context;
  const share = known / context.window;
  const { prune: pruning, compact: compaction } = context;
  const { at, providerAt } = compaction ?? { at: 0, providerAt: null };
  return {
    ...context,
    window: known,
    reserve: context.reserve * share,
    keepRecent: context.keepRecent * share,
    prune: pruning === null ? null : { ...pruning, at: pruning.at * share },
    compact:
      compaction === null
        ? null
        : { ...compaction, at: at * share, providerAt: providerAt === null ? null : Math.floor(providerAt * share) },
  };
}
