// The effect log of the crash matrix: which effects were performed, how often, and in which stage each was when a
// process was killed, over all processes of a run.
//
// The log does not ask the runtime. It learns that an effect begins from the wrapper that performs it, and that an
// effect is recorded from the batches that reach the storage. So an error of the runtime cannot hide itself.
//
// The table `fates` is the specification (H1, H4): it states what recovery must do with an effect by its stage and its
// replay policy.

import type { Effect } from "../core/kernel/internal.ts";
import type { Json, JsonObject, ReplayPolicy, Usage } from "../core/model/internal.ts";
import type { Batch, Put, Row, JournalRow } from "../durable/internal.ts";

import { canonicalJson } from "../core/kernel/internal.ts";
import { decidedArguments, totalTokens } from "../core/model/internal.ts";
import { isObject } from "../core/model/parse/reading.ts";
import { readValue } from "../durable/internal.ts";

/** The kind of an effect: a model call, a tool, a code cell, or the hook before a tool. */
export type EffectKind = "model" | "tool" | "code" | "hook";

/**
 * What recovery does with an effect that has begun and is not recorded: it runs again (`again`), or the replay policy
 * of its tool.
 */
export type EffectPolicy = "again" | Exclude<ReplayPolicy, "safe">;

/**
 * The stage of an effect when its process is killed. `open`: not begun. `marked`: its start mark is written, and it has
 * not begun. `begun`: it runs or has returned, without a record. `recorded`: its result is written, or the turn has
 * ended without it.
 */
type EffectStage = "open" | "marked" | "begun" | "recorded";

/**
 * What recovery must do with an effect: whether it runs again, and where its answer comes from: the effect itself, the
 * failure `outcome_unknown`, or a person.
 */
type Fate = { readonly runsAgain: boolean; readonly answer: "its_own" | "unknown" | "asked" };

const unchanged: Fate = { runsAgain: false, answer: "its_own" };
const runsAgain: Fate = { runsAgain: true, answer: "its_own" };
const unknown: Fate = { runsAgain: false, answer: "unknown" };
const asked: Fate = { runsAgain: false, answer: "asked" };

/**
 * The law that the matrix checks (H1, H4): a kill changes the result only between the start mark of an effect and its
 * record, by its policy.
 */
const fates: { readonly [S in EffectStage]: { readonly [P in EffectPolicy]: Fate } } = {
  open: { again: unchanged, never: unchanged, ask: unchanged },
  marked: { again: unchanged, never: unknown, ask: asked },
  begun: { again: runsAgain, never: unknown, ask: asked },
  recorded: { again: unchanged, never: unchanged, ask: unchanged },
};

/**
 * One effect, over all processes. `name` identifies it: a tool call by its arguments, a model call by the number of
 * messages before it.
 */
export type EffectInfo = {
  readonly kind: EffectKind;
  readonly name: string;
  readonly policy: EffectPolicy;
  /** The tool whose nested turn the effect belongs to. */
  readonly inside: string | null;
  /** For a tool: the id of the call. */
  readonly callId: string | null;
  readonly idempotencyKey: string | null;
  /** For a model call: the provider. */
  readonly provider: string | null;
};

/** The state of one effect in the log. */
export type EffectRecord = {
  readonly info: EffectInfo;
  /** How often the effect was performed. */
  runs: number;
  /** How often resumed processes performed it, after another process had taken over. */
  lateRuns: number;
  readonly keys: Set<string>;
  stage: EffectStage;
  /** How often a process was killed during the effect so that it must run again. */
  again: number;
  /** Set if recovery must answer the call. `runs`: how often the effect had been performed at that moment. */
  answered: { readonly by: "unknown" | "asked"; readonly runs: number } | null;
  /**
   * Set if the effect belongs to a tool that recovery has answered. `runs`: how often it had been performed at that
   * moment.
   */
  cutOff: { readonly runs: number } | null;
  /** The tokens of a model call, once it is recorded. */
  tokens: number;
};

/** Collects effects and writes over all processes of one run. */
export class EffectLog {
  readonly effects = new Map<string, EffectRecord>();
  /** Violations that are visible at once, such as an effect that begins without a start mark. */
  readonly violations: string[] = [];
  /** Written start marks whose effects are not recorded: effect name to policy. */
  readonly #marks = new Map<string, EffectPolicy>();
  /** The names of the calls of a reply: effect id to call name. */
  readonly #calls = new Map<string, string>();
  #cancelled = false;
  /** A summary was requested twice, and no process has recorded it: it is not requested again. */
  hasAbandonedSummary = false;
  #isSummaryOpen = false;
  #summaryStarts = 0;

  /** How often tools ran. */
  get toolRuns(): number {
    return [...this.effects.values()].reduce((sum, { info, runs }) => sum + (info.kind === "tool" ? runs : 0), 0);
  }

  /** Logs that an effect begins. */
  began(info: EffectInfo): void {
    const record = this.#of(info);
    const { name, policy } = info;
    if (policy !== "again" && !this.#marks.has(name)) this.violations.push(`${name} began without a start mark`);
    if (record.stage === "recorded") this.violations.push(`${name} began again although it is recorded`);
    if (record.stage === "begun") this.violations.push(`${name} began twice in one process`);
    record.runs += 1;
    record.stage = "begun";
    if (info.idempotencyKey !== null) record.keys.add(info.idempotencyKey);
  }

  /** Logs that an effect begins in a resumed process, after another process has taken over. */
  beganLate(info: EffectInfo): void {
    this.#of(info).lateRuns += 1;
  }

  /** Logs a batch that has reached the storage, even if its writer was killed before it learnt of it. */
  written({ puts }: Batch): void {
    for (const put of puts) {
      if (put.table === "journal") this.#journalWritten(readValue("journal", rowOf(put)));
      if (put.table === "records") this.#recordWritten(put, readValue("records", rowOf(put)));
      if (put.table === "cancels") this.#cancelled = true;
    }
  }

  /**
   * Logs that the process is killed, and derives from `fates` what recovery must do with each effect that was under
   * way.
   */
  killed(): void {
    if (!this.#isSummaryOpen) this.#summaryStarts = 0;
    if (this.#summaryStarts >= 2) this.hasAbandonedSummary = true;
    for (const [name, policy] of this.#marks) {
      const record = this.effects.get(name);
      if (record === undefined || record.stage === "open") this.#end(this.#marked(name, policy), "marked");
    }
    for (const record of this.effects.values()) {
      if (record.stage === "begun") this.#end(record, "begun");
    }
    for (const record of this.effects.values()) {
      if (this.isCutOff(record.info)) record.cutOff ??= { runs: record.runs };
    }
  }

  /**
   * Returns whether the effect belongs to a nested turn of a tool that recovery has answered. Such a turn is not
   * continued.
   */
  isCutOff({ inside }: EffectInfo): boolean {
    const outer = inside === null ? undefined : this.effects.get(inside);
    return outer !== undefined && (outer.answered !== null || this.isCutOff(outer.info));
  }

  #marked(name: string, policy: EffectPolicy): EffectRecord {
    const [callId, idempotencyKey, provider] = [null, null, null];
    return this.#of({ kind: "tool", name, policy, inside: null, callId, idempotencyKey, provider });
  }

  /** Applies the fate of an effect at a kill. The next process starts with the effect open again. */
  #end(record: EffectRecord, stage: "marked" | "begun"): void {
    record.stage = "open";
    // Effects of a cancelled turn are neither run again nor answered.
    if (this.#cancelled) return;
    const fate = fates[stage][record.info.policy];
    if (fate.runsAgain) record.again += 1;
    if (fate.answer !== "its_own") record.answered ??= { by: fate.answer, runs: record.runs };
  }

  #of(info: EffectInfo): EffectRecord {
    const existing = this.effects.get(info.name);
    if (existing !== undefined) return existing;
    const record: EffectRecord = {
      info,
      runs: 0,
      lateRuns: 0,
      keys: new Set(),
      stage: "open",
      again: 0,
      answered: null,
      cutOff: null,
      tokens: 0,
    };
    this.effects.set(info.name, record);
    return record;
  }

  /**
   * A journal row records the response of an effect, or the end of the turn. The names of calls are derived from the
   * recorded reply.
   */
  #journalWritten({ item, effect: text }: JournalRow): void {
    if (item.type === "step_restarted") return;
    if (item.type !== "response") return this.#closeAll();
    const effect: Effect | null = text === null ? null : JSON.parse(text);
    const { response } = item;
    if (response.type === "model_replied") {
      const { route, usage, toolCalls } = response.reply;
      for (const [slot, { name, arguments: args }] of toolCalls.entries()) {
        this.#calls.set(response.id.replace(/\/[a-z]+$/, `/tool/${slot}`), callName(name, args ?? {}));
      }
      this.#modelRecorded(route?.provider ?? null, usage);
    }
    if (response.type === "model_failed") {
      const { failure, partial } = response.error;
      this.#modelRecorded(providerOf(failure), partial?.usage ?? null);
    }
    if (response.type === "compacted" || response.type === "compaction_failed") {
      this.#isSummaryOpen = false;
      this.#modelRecorded(null, response.usage);
    }
    if (effect?.type === "run_code") this.#close(codeName(effect.cellId, effect.answers));
    if (effect?.type !== "call_tool") return;
    const { call, decision } = effect;
    const args = decidedArguments(call, decision) ?? {};
    if (response.type === "tool_returned") this.#close(callName(call.name, response.ranArguments ?? args));
    else this.#marks.delete(callName(call.name, args));
  }

  #recordWritten({ key }: Put, value: Json): void {
    const what = String(key[4]);
    const fields = objectOf(value);
    if (what === "started") {
      this.#marks.set(
        callName(String(fields["name"]), objectOf(fields["arguments"] ?? null)),
        fields["policy"] === "ask" ? "ask" : "never",
      );
    }
    if (what.startsWith("start/")) {
      this.#isSummaryOpen = true;
      this.#summaryStarts += 1;
    }
    if (what === "prepared") this.#close(hookName(this.#calls.get(String(key[3])) ?? ""));
    if (!what.startsWith("attempt/")) return;
    // A failed attempt of a model (its record has the field `heard`) or of a tool: the next attempt follows.
    if ("heard" in fields) this.#modelRecorded(String(objectOf(fields["failure"] ?? null)["provider"] ?? ""), null);
    else {
      const failure = objectOf(fields["failure"] ?? null);
      for (const record of this.effects.values()) {
        if (record.info.kind === "tool" && record.info.callId === failure["toolCallId"]) reopen(record);
      }
    }
  }

  #modelRecorded(provider: string | null, usage: Usage | null): void {
    const record = this.#recordFirst("model", provider);
    if (record !== null && usage !== null) record.tokens = totalTokens(usage) ?? 0;
  }

  /**
   * Marks the first running effect of a kind as recorded. Model calls of one turn run one at a time, so the provider
   * identifies the call.
   */
  #recordFirst(kind: EffectKind, provider: string | null): EffectRecord | null {
    const begun = [...this.effects.values()].filter(({ info, stage }) => info.kind === kind && stage === "begun");
    const record = begun.find(({ info }) => provider === null || info.provider === provider) ?? begun[0] ?? null;
    if (record !== null) record.stage = "recorded";
    return record;
  }

  #close(name: string): void {
    const record = this.effects.get(name);
    if (record !== undefined) record.stage = "recorded";
    this.#marks.delete(name);
  }

  /** The turn has ended: effects that were under way are neither run again nor answered. */
  #closeAll(): void {
    for (const record of this.effects.values()) if (record.stage === "begun") record.stage = "recorded";
    this.#marks.clear();
    this.#cancelled = false;
  }
}

function reopen(record: EffectRecord): void {
  if (record.stage === "begun") record.stage = "open";
}

/** The name of a tool call: the tool and its arguments. */
export function callName(tool: string, args: JsonObject): string {
  return `${tool}(${canonicalJson(args)})`;
}

/** The name of the hook before a call. */
export function hookName(call: string): string {
  return `before ${call}`;
}

/** The name of one run of a code cell: its position in the turn and the number of answers it has. */
export function codeName(cellId: string, answers: number): string {
  return `cell ${cellId.replace(/turn-[0-9a-f]+/, "turn")} with ${answers} answers`;
}

function rowOf({ key, tag, value }: Put): Row {
  return { key, tag, value, expires: null, remainingMs: null };
}

function objectOf(value: Json): JsonObject {
  return isObject(value) ? value : {};
}

function providerOf(failure: object): string | null {
  return "provider" in failure && typeof failure.provider === "string" ? failure.provider : null;
}
