// The values that the inspection routes of the HTTP API send: turns of a session, the timeline of a turn, engines,
// workers, and the overview. Pages such as the studio show them. They are here, in the lowest layer, so that a client
// in a browser has the same types as the server.

import type { Usage } from "../call/usage.ts";
import type { Failure } from "../failure/failure.ts";
import type { Json, JsonObject } from "../parse/json.ts";
import type { HaltedReason, TurnOutcome } from "../turn/outcome.ts";
import type { TokenCount } from "./context-window.ts";
import type { LimitWait, TurnStatus } from "./session-view.ts";

/** A turn of a session in a list. Times are in milliseconds since 1970-01-01 UTC. */
export type TurnSummaryView = {
  readonly turnId: string;
  /** `step`: the turn was started with `step`, and makes one step. */
  readonly verb: "chat" | "step";
  readonly engine: string;
  readonly acceptedAt: number;
  /** The number of messages of the session before the turn: the index of the first message that the turn added. */
  readonly base: number;
  readonly status: TurnStatus;
  /** The step that the turn is in, or the number of its steps, from 0. */
  readonly step: number;
  /** How the turn ended; `null`: it has not ended. */
  readonly end: {
    readonly haltedReason: HaltedReason;
    readonly outcome: TurnOutcome;
    readonly steps: number;
    readonly usage: Usage;
  } | null;
  /** Why the turn failed or is parked; otherwise `null`. */
  readonly failure: Failure | null;
  readonly limitWait: LimitWait | null;
  /**
   * Attempts that were thrown away so far: retries, attempts that a crash has ended, and restarted steps. The timeline
   * shows them.
   */
  readonly discarded: number;
};

/**
 * What a turn did and when, from its journal: one item for each row, in the order of the rows. A turn with many rows is
 * read in pages. Text of an effect that is still being performed is not part of it; the events of the turn have it.
 */
export type TurnTimeline = {
  readonly turn: TurnSummaryView;
  /** The time of the server when it read the rows, in milliseconds: the end of whatever is still open. */
  readonly now: number;
  /**
   * The processes that have driven the turn, in order, as the rows of this page show them; on the last page also the
   * process that drives the turn now. A claim that takes over follows a crash or a blocked process.
   */
  readonly claims: readonly TurnClaim[];
  readonly effects: readonly TimelineEffect[];
  /**
   * The tool calls of a turn that runs which have no row yet, on the last page, and the turns of child agents that have
   * begun inside them. Calls of code cells are not listed. Empty if the reply that made the calls is not in the page or
   * among the 64 rows before it.
   */
  readonly open: readonly (Pick<TimelineEffect, "effectId" | "toolCallId" | "children"> & { readonly name: string })[];
  /** The `ordinal` after which the next page begins; `null` on the last page. */
  readonly next: number | null;
  /** The journal was removed because its retention time has passed. */
  readonly isJournalRemoved: boolean;
};

/** A process that drove a turn for some time. */
export type TurnClaim = {
  /** The name of the process. */
  readonly owner: string;
  /** The lease epoch: it increases with each claim of the session. */
  readonly epoch: number;
  /** When the process claimed the session, in milliseconds. */
  readonly since: number;
  /** The process before it had crashed or was blocked. */
  readonly takesOver: boolean;
};

/**
 * A row of the journal: an effect with its result, or an item that answers no effect. Times are in milliseconds; `null`
 * in rows of older releases.
 */
export type TimelineEffect = {
  /** The number of the row in the journal of the turn. */
  readonly ordinal: number;
  /** The id of the effect: `turn/step/kind`; `null`: the row answers no effect. */
  readonly effectId: string | null;
  /**
   * `count`: the tokens of the next request were counted. `checkpoint`: input that arrived was added. `environment`:
   * model, instructions or tools were read. `restart`: the step was restarted by `recover`.
   */
  readonly kind:
    | "model"
    | "count"
    | "compaction"
    | "tool"
    | "code"
    | "checkpoint"
    | "environment"
    | "cancel"
    | "failure"
    | "restart";
  /** The step, from 0. */
  readonly step: number;
  /** The model as `provider:model`, or the name of the tool; otherwise `null`. */
  readonly name: string | null;
  readonly toolCallId: string | null;
  /**
   * `waits`: a person or another program has to answer. `denied`: a person or a rule has denied the call, and the tool
   * did not run. `superseded`: the step was restarted after it.
   */
  readonly state: "ok" | "failed" | "denied" | "waits" | "halted" | "cancelled" | "superseded";
  readonly startedAt: number | null;
  /** When the first content of a reply arrived. */
  readonly firstAt: number | null;
  readonly endedAt: number | null;
  /** The process that performed it. */
  readonly owner: string | null;
  readonly epoch: number;
  /** The number of the attempt that is recorded, from 1. */
  readonly attempt: number;
  /** Tokens and cost of a model call; otherwise `null`. */
  readonly usage: Usage | null;
  /** The beginning of the reply, result, question or reason, at most 200 characters. */
  readonly text: string;
  /** Why it failed; otherwise `null`. */
  readonly failure: Failure | null;
  /** Attempts before the recorded one: retries after an error of the provider, and attempts that a crash has ended. */
  readonly discarded: readonly DiscardedAttempt[];
  /**
   * The frame that a compaction makes, and the range of messages that it stands for: from `from` to before `to`; `null`:
   * the row is no compaction.
   */
  readonly frame: { readonly id: string; readonly from: number; readonly to: number } | null;
  /**
   * The turns of child agents that ran inside a tool call. They belong to the same session; `timeline` reads them by
   * their id.
   */
  readonly children: readonly { readonly sessionId: string; readonly turnId: string | null }[];
};

/** An attempt whose result was not recorded. */
export type DiscardedAttempt = {
  /** `crash`: the process ended while it performed the effect. `retry`: the attempt failed and another followed. */
  readonly reason: "crash" | "retry";
  readonly epoch: number;
  /**
   * The number of the attempt, from 1; `null`: not known. An attempt that a crash has ended is repeated under the same
   * number.
   */
  readonly attempt: number | null;
  /** When it began and ended, in milliseconds, as far as it is known. */
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly failure: Failure | null;
  /** How long the next attempt had to wait, in milliseconds; `null`: it did not. */
  readonly delayMs: number | null;
  /**
   * The beginning of the text that had arrived, at most 4,000 characters. Of an attempt that a crash has ended, as far
   * as its process had stored it.
   */
  readonly text: string;
  /** The number of characters of the whole text. */
  readonly textLength: number;
};

/** Everything that is stored about one row of the journal. */
export type EffectDetail = {
  readonly ordinal: number;
  /**
   * The effect as it was ordered: a model call with its options, a tool call with its arguments; `null`: the row
   * answers no effect.
   */
  readonly effect: Json;
  /** The journal item: the response, or another item. */
  readonly item: Json;
  readonly epoch: number;
  readonly attempt: number;
  /** When and by which process it was performed; `null` in rows of older releases. */
  readonly timing: JsonObject | null;
  /** Records inside the effect: attempts, delays, child turns, start marks. */
  readonly records: readonly { readonly name: string; readonly value: Json }[];
};

/** The request of a model call, rebuilt from what is stored about the turn. */
export type RequestView = {
  /** The number of the row of the journal. */
  readonly ordinal: number;
  /** The request as the library has it: model, messages, tools and settings of the first attempt. */
  readonly request: JsonObject;
  /**
   * The path and the JSON body as they are sent to the provider, without headers and keys; `null`: the engine of the
   * turn is not in this process, or its adapter sends no HTTP request.
   */
  readonly sent: { readonly path: string; readonly body: JsonObject } | null;
  /** What fills the context window of the model in this request. */
  readonly window: WindowUse;
  /**
   * The places at which the rebuilt call differs from the recorded one, for example `history.digest`: the code or the
   * stored data have changed since, and the request was another one. Empty: the digests are the same.
   */
  readonly differences: readonly string[];
};

/** A number of tokens. `counted`: the provider reported it. `estimated`: it follows from the length of the texts. */
type TokenAmount = Pick<TokenCount, "tokens" | "source">;

/** A part of a request, in tokens. Providers report no parts, so they are estimated. */
type WindowPart = TokenAmount & {
  /**
   * `instructions`: system messages at the beginning. `tools`: descriptions of tools, and the schema of the answer.
   * `summary`: what stands for older messages. `results`: results of tools. `history`: all other messages.
   */
  readonly name: "instructions" | "tools" | "summary" | "history" | "results";
};

/** What fills the context window of a model in one request. */
export type WindowUse = {
  /** The context window of the turn, in tokens; `null`: it is not known. */
  readonly window: number | null;
  /** The tokens of the window that the context policy keeps free for the reply; 0 without a policy. */
  readonly reserve: number;
  /** A request with this many tokens is compacted; `null`: none is. */
  readonly compactAt: number | null;
  /** All tokens of the request. */
  readonly input: TokenAmount;
  /** The parts of the request, each once. They add up to `input`. */
  readonly parts: readonly WindowPart[];
  /** What `input` and `reserve` leave of the window, at least 0; `null`: the window is not known. */
  readonly free: TokenAmount | null;
};

/** An engine that the caller may use. */
export type EngineView = {
  readonly name: string;
  /** The model as `provider:model`; `null`: each turn has to name one. */
  readonly model: string | null;
  /** `null`: none, or computed for each turn. */
  readonly instructions: string | null;
  readonly tools: readonly ToolView[];
};

/** A tool of an engine, as far as a form for its arguments needs it. */
export type ToolView = {
  readonly name: string;
  readonly description: string;
  /** The JSON Schema of the arguments. */
  readonly inputSchema: JsonObject;
  /** Whether its calls wait for an approval. `sometimes`: a function decides for each call. */
  readonly approval: "always" | "sometimes" | "never";
  /**
   * What recovery does with a call that has started and has no recorded result: `safe` runs it again, `never` answers
   * that its outcome is unknown, `ask` waits for a person.
   */
  readonly rerun: string;
};

/** A session that a search has found, with the place of the match. */
export type SearchHit = {
  readonly sessionId: string;
  readonly title: string | null;
  /** The index of the message in the session. */
  readonly position: number;
  readonly role: "system" | "user" | "assistant" | "tool" | "event";
  /** Text around the match. `matches` are the parts of it that match, as start and end offsets. */
  readonly excerpt: string;
  readonly matches: readonly (readonly [start: number, end: number])[];
};

/** A process that drives turns, as its leases show it, or the process that answers, if it runs a worker. */
export type WorkerView = {
  /** The name of the process. */
  readonly owner: string;
  /** Whether it is the process that answers this request. */
  readonly self: boolean;
  /** The turns that it drives. At most 100 are listed. */
  readonly leases: readonly LeaseView[];
  /** The number of turns that it drives. 0: it is idle. */
  readonly turns: number;
  /** How many turns its workers drive at once; `null`: it runs no worker, or it is another process. */
  readonly places: number | null;
};

/** A session that a process drives. Times are in milliseconds. */
export type LeaseView = {
  readonly tenant: string;
  readonly sessionId: string;
  readonly turnId: string;
  readonly epoch: number;
  /** When the lease ends unless the process renews it. */
  readonly expiresAt: number;
  /** When the process took the lease, by its own clock; `null`: not known. */
  readonly since: number | null;
  /** The process that held the session before and had crashed or was blocked; `null`: the lease was free. */
  readonly tookOverFrom: string | null;
};

/** Sums over ended turns in a period, from the rollup table. */
export type Overview = {
  /** The period, in milliseconds since 1970-01-01 UTC. */
  readonly from: number;
  readonly until: number;
  /** The length of a bucket in milliseconds. */
  readonly bucketMs: number;
  /** One for each bucket of the period that has turns, oldest first. */
  readonly buckets: readonly (OverviewSum & { readonly at: number })[];
  readonly total: OverviewSum;
  readonly engines: readonly (OverviewSum & { readonly name: string })[];
  /** Only the caller's own tenant, unless the caller is an operator. */
  readonly tenants: readonly (OverviewSum & { readonly name: string })[];
  readonly tools: readonly ToolSum[];
};

/** Sums over turns. Costs are in US dollars. */
export type OverviewSum = {
  readonly turns: number;
  /**
   * Turns by how they ended: `completed`, `waiting` (for a person), `failed`, `cancelled`, `parked`, `limited` (a
   * budget or the step limit).
   */
  readonly outcomes: { readonly [outcome: string]: number };
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  readonly cost: number;
  readonly takeovers: number;
  /** From acceptance to the end of the turn, without time that it waited for a person. */
  readonly duration: Quantiles;
  /** From the start of a model call to its first content. */
  readonly firstContent: Quantiles;
};

/** Sums over the calls of one tool in a period. */
export type ToolSum = {
  readonly name: string;
  readonly calls: number;
  readonly failed: number;
  readonly duration: Quantiles;
};

/** Quantiles in milliseconds, within 10 % of the measured values; `null` without values. */
export type Quantiles = { readonly p50: number | null; readonly p95: number | null; readonly p99: number | null };
