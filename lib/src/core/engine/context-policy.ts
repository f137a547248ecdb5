// The context policy of an engine: its options, their rules and defaults. `contextLimits` turns it into the numbers
// that a turn pins; the kernel applies them (core/kernel/machine/context.ts).

import type { ContextLimits, NamedProjector } from "../kernel/internal.ts";
import type { ModelName } from "../model/internal.ts";
import type { Engine } from "./engine.ts";
import type { Adapter } from "./model-call/adapter.ts";
import type { Rule, Rules } from "./option-rules.ts";

import { invalidArgument } from "../model/internal.ts";
import { modelNameShape, readOrNull } from "../model/parse/reading.ts";
import { withCatalogData } from "./model-call/catalog.ts";
import {
  aBoolean,
  aFunction,
  anything,
  aString,
  atLeastOne,
  checkOptions,
  numberIn,
  objectOf,
  oneOf,
  positive,
} from "./option-rules.ts";

/**
 * Returns the number of tokens of a text, or a promise for it. `gptTokenizer()` of `everturn/gpt-tokenizer` is one. It
 * is called with pieces of a request, of at most 512 characters.
 */
export type Tokenizer = (text: string) => number | Promise<number>;

/** How old tool results are shortened. */
export type PrunePolicy = {
  /** Prune when a request fills this share of the window without the reserve. Default: 0.6. */
  readonly at?: number;
  /** The length of a shortened result in characters: its head, a note, its tail. Default: 1,000. */
  readonly keep?: number;
};

/** What summaries may use. */
export type SummaryBudget = {
  /** Input and output tokens together. Default: no limit. */
  readonly tokens?: number;
  /** US dollars. The prices of the models have to be known. Default: no limit. */
  readonly cost?: number;
  /** `turn`: each turn has the budget. `session`: all turns of a session together have it. Default: `turn`. */
  readonly per?: "turn" | "session";
};

/** How old messages are replaced by a summary. */
export type CompactPolicy = {
  /**
   * `provider`: the provider compacts inside of a model call (Anthropic, OpenAI Responses), when a request fills `at`;
   * the options below are for summaries of the library and are refused. The library steps in only if a request fills
   * the whole window without the reserve. Default: `model`, a summary by a model call of the library.
   */
  readonly by?: "model" | "provider";
  /** Compact when a request fills this share of the window without the reserve. Default: 0.8. */
  readonly at?: number;
  /**
   * The model that writes the summary, of the same adapter. Default: the model of the turn, which has the conversation
   * in its prompt cache.
   */
  readonly model?: ModelName;
  /** What the summary has to keep, for example "Keep order numbers." Added to what the library asks for. */
  readonly instructions?: string;
  /**
   * The greatest number of output tokens of a summary, with its reasoning. A summary that reaches it is cut off there, and
   * says so. Default: that of the other requests.
   */
  readonly maxTokens?: number;
  /**
   * What summaries may use. After the summary that reaches it none is requested: tool results are shortened instead, and
   * messages are left out if that is not enough. The turn does not fail. Default: no limit.
   */
  readonly budget?: SummaryBudget;
};

/**
 * Keeps the requests of an engine within the context window of its model. First, long results of old tool calls are
 * shortened; then old messages are replaced by a summary. The history of the session stays whole.
 */
export type ContextPolicy = {
  /**
   * The context window, in tokens. Default: that of the model, from its reference or the catalog. A smaller window of
   * the model wins.
   */
  readonly window?: number;
  /** Tokens of the window that are kept free for the reply. Default: a fifth of the window, at most 16,000. */
  readonly reserve?: number;
  /**
   * Tokens of the newest history that are neither shortened nor summarized. Default: a quarter of the window, at most
   * 20,000.
   */
  readonly keepRecent?: number;
  /**
   * The greatest length of any tool result in a request, in characters; longer ones are sent with their head and tail
   * only. Default: as many characters as the window has tokens, which is about a quarter of it.
   */
  readonly maxToolResult?: number;
  /**
   * Asks the provider's endpoint that counts tokens, where an estimate does not decide whether old messages are
   * summarized. A failed count, and one that takes longer than 10 seconds, leaves the decision to `tokenizer`, or to the
   * estimate. Default: `true`, if the provider has such an endpoint (Anthropic, Gemini, OpenAI Responses).
   */
  readonly count?: boolean;
  /**
   * Counts the tokens there, if the provider does not: its API has no endpoint for it, `count` is `false`, or the count
   * has failed. Default: none, the estimate decides.
   */
  readonly tokenizer?: Tokenizer;
  /** `false`: old tool results are not shortened. */
  readonly prune?: PrunePolicy | false;
  /** `false`: old messages are not summarized. */
  readonly compact?: CompactPolicy | false;
};

const aShare: Rule = {
  must: "a number greater than 0 and up to 1",
  fits: (value) => typeof value === "number" && value > 0 && value <= 1,
  show: String,
};

const aModel: Rule = { must: "the name of a model", fits: (value) => readOrNull(modelNameShape, value) !== null };

const pruneRules: Rules<PrunePolicy> = { at: aShare, keep: atLeastOne };
const compactRules: Rules<CompactPolicy> = {
  by: oneOf(["model", "provider"]),
  at: aShare,
  model: aModel,
  instructions: aString,
  maxTokens: atLeastOne,
  budget: objectOf<SummaryBudget>({ tokens: atLeastOne, cost: positive, per: oneOf(["turn", "session"]) }),
};

/** What only summaries of the library have. */
const ofSummaries = ["model", "instructions", "maxTokens", "budget"] as const;

const policyRules: Rules<Omit<ContextPolicy, "prune" | "compact">> = {
  window: atLeastOne,
  reserve: numberIn({ least: 0, whole: true }),
  keepRecent: numberIn({ least: 0, whole: true }),
  maxToolResult: atLeastOne,
  count: aBoolean,
  tokenizer: aFunction,
};

/** Throws `MisuseError` for a context policy with an unknown option, or a value that does not fit. */
export function checkContextPolicy(policy: ContextPolicy | null, projector: NamedProjector | null): void {
  if (policy === null) return;
  checkOptions("engine: contextPolicy", policy, {
    ...policyRules,
    prune: policy.prune === false ? anything : objectOf(pruneRules),
    compact: policy.compact === false ? anything : objectOf(compactRules),
  });
  const compact: CompactPolicy = policy.compact === false ? {} : (policy.compact ?? {});
  const unused = ofSummaries.find((name) => compact[name] !== undefined);
  if (compact.by === "provider" && unused !== undefined) {
    const message = `engine: contextPolicy.compact.${unused} is not used with by: "provider": the provider writes its summary with the model of the turn and its own prompt; remove it`;
    throw invalidArgument(message, ["contextPolicy", "compact", unused]);
  }
  if (projector === null) return;
  const message = "engine: an engine with a projector has no contextPolicy: its projector builds the requests";
  throw invalidArgument(message, ["contextPolicy"]);
}

/**
 * The limits of a turn with this adapter and model; `null`: the engine has no context policy. Throws `MisuseError` if
 * the window is not known, or if it is too small for what has to be kept.
 */
export function contextLimits(
  { contextPolicy: policy, catalog }: Pick<Engine, "contextPolicy" | "catalog">,
  adapter: Adapter,
  model: ModelName | null,
): ContextLimits | null {
  if (policy === null) return null;
  const known = typeof model === "object" ? (model?.limits?.context ?? null) : null;
  const window = Math.min(policy.window ?? known ?? 0, known ?? Number.POSITIVE_INFINITY);
  if (window === 0) {
    const name = typeof model === "string" ? model : (model?.id ?? "of the call");
    const message = `contextPolicy: the context window of the model ${name} is not known: set contextPolicy.window, in tokens`;
    throw invalidArgument(message, ["contextPolicy", "window"]);
  }
  const {
    reserve = Math.min(16_000, Math.floor(window / 5)),
    keepRecent = Math.min(20_000, Math.floor(window / 4)),
    maxToolResult = window,
    count = true,
    tokenizer,
    prune = {},
    compact = {},
  } = policy;
  const usable = window - reserve;
  if (usable <= keepRecent) {
    const message = `contextPolicy: reserve (${reserve}) and keepRecent (${keepRecent}) leave nothing of the window of ${window} tokens: lower one of them`;
    throw invalidArgument(message, ["contextPolicy"]);
  }
  const { at: pruneAt = 0.6, keep = 1_000 } = prune === false ? {} : prune;
  const { by, at: compactAt = 0.8, ...ofSummary }: CompactPolicy = compact === false ? {} : compact;
  const filled = Math.floor(usable * compactAt);
  const thresholds = by === "provider" ? { at: usable, providerAt: filled } : { at: filled, providerAt: null };
  return {
    window,
    reserve,
    keepRecent,
    longestResult: maxToolResult,
    counts: (count && adapter.countTokens !== undefined) || tokenizer !== undefined,
    prune: prune === false ? null : { at: Math.floor(usable * pruneAt), keep },
    compact: compact === false ? null : { ...thresholds, ...summaryLimits(ofSummary) },
  };
  function summaryLimits({ model: writer, instructions, maxTokens, budget }: CompactPolicy): SummaryLimits {
    const { tokens, cost, per = "turn" } = budget ?? {};
    return {
      model: withCatalogData(writer ?? null, adapter.provider, catalog),
      instructions: instructions ?? null,
      maxTokens: maxTokens ?? null,
      budget: budget === undefined ? null : { tokens: tokens ?? null, cost: cost ?? null, per },
    };
  }
}

type SummaryLimits = Omit<NonNullable<ContextLimits["compact"]>, "at" | "providerAt">;
