// What happened outside the process, over all its lives: which effects were performed, how often, and how far each had got when a life ended. It
// is not told by the runtime: that an effect begins is seen where it begins, and that it is on record is seen in what was written.

import type { Effect } from "../kernel/internal.ts";
import type { Json, JsonObject, ReplayPolicy, Usage } from "../model/internal.ts";
import type { Batch, Put, Row, JournalRow } from "../runtime/internal.ts";

import { canonicalJson } from "../kernel/internal.ts";
import { totalTokens } from "../model/internal.ts";
import { readValue } from "../runtime/internal.ts";

/** What can be performed: a model call, a tool, a cell of code, and what is asked before a tool runs. */
export type EffectKind = "model" | "tool" | "code" | "hook";

/** What recovery does with an effect that was begun and is not on record: it is performed again, or what its tool says. */
export type EffectPolicy = "again" | Exclude<ReplayPolicy, "safe">;

/**
 * How far an effect had got when its life ended. `marked`: that it begins is written, and it has not begun. `recorded`: what came of it is
 * written, or the turn has ended without it.
 */
type EffectStage = "open" | "marked" | "begun" | "recorded";

/** What becomes of an effect by how far it had got: is it performed again, and whose word is its answer. */
type Fate = { readonly runsAgain: boolean; readonly answer: "its_own" | "unknown" | "asked" };

const goesOn: Fate = { runsAgain: false, answer: "its_own" };
const runsAgain: Fate = { runsAgain: true, answer: "its_own" };
const unknown: Fate = { runsAgain: false, answer: "unknown" };
const asked: Fate = { runsAgain: false, answer: "asked" };

/** The law the matrix checks (H1, H4): only a kill between the start of an effect and its record makes a difference, and by its policy. */
const fates: { readonly [S in EffectStage]: { readonly [P in EffectPolicy]: Fate } } = {
  open: { again: goesOn, never: goesOn, ask: goesOn },
  marked: { again: goesOn, never: unknown, ask: asked },
  begun: { again: runsAgain, never: unknown, ask: asked },
  recorded: { again: goesOn, never: goesOn, ask: goesOn },
};

/** One effect, in all lives. Calls of a tool are told apart by their arguments, model calls by what was said before them. */
export type EffectInfo = {
  readonly kind: EffectKind;
  readonly name: string;
  readonly policy: EffectPolicy;
  /** The tool whose turn it is part of. */
  readonly inside: string | null;
  /** For a tool, the call. */
  readonly callId: string | null;
  readonly idempotencyKey: string | null;
  /** For a model, who is asked. */
  readonly provider: string | null;
};

export type EffectRecord = {
  readonly info: EffectInfo;
  /** How often it was performed. */
  runs: number;
  /** How often lives that were away have, after they came back. */
  lateRuns: number;
  readonly keys: Set<string>;
  stage: EffectStage;
  /** How often a life ended in the middle of it, and it is to be performed again. */
  again: number;
  /** Recovery has to answer it: so often had it been performed when that was decided. */
  answered: { readonly by: "unknown" | "asked"; readonly runs: number } | null;
  /** It is part of a tool that recovery has answered: so often had it been performed by then. */
  cutOff: { readonly runs: number } | null;
  /** What the model that was asked has cost, once that is on record. */
  tokens: number;
};

export class EffectLog {
  readonly effects = new Map<string, EffectRecord>();
  /** What must not have happened. */
  readonly violations: string[] = [];
  /** Marks without a run: by the name of the effect. */
  readonly #marks = new Map<string, EffectPolicy>();
  /** What each call of a reply is, by the effect that makes it. */
  readonly #calls = new Map<string, string>();
  #cancelled = false;

  /** An effect begins. */
  began(info: EffectInfo): void {
    const record = this.#of(info);
    const { name, policy } = info;
    if (policy !== "again" && !this.#marks.has(name)) this.violations.push(`${name} began, and no mark was written`);
    if (record.stage === "recorded") this.violations.push(`${name} is on record and began again`);
    if (record.stage === "begun") this.violations.push(`${name} began twice in one life`);
    record.runs += 1;
    record.stage = "begun";
    if (info.idempotencyKey !== null) record.keys.add(info.idempotencyKey);
  }

  /** An effect begins in a life that was away and came back, after somebody else has taken over. */
  beganLate(info: EffectInfo): void {
    this.#of(info).lateRuns += 1;
  }

  /** Something was written, whether or not anybody heard of it. */
  written({ puts }: Batch): void {
    for (const put of puts) {
      if (put.table === "journal") this.#settled(readValue("journal", rowOf(put)));
      if (put.table === "records") this.#noted(put, readValue("records", rowOf(put)));
      if (put.table === "cancels") this.#cancelled = true;
    }
  }

  /** A life ends: what becomes of everything that was under way. */
  killed(): void {
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

  /** Is it part of a tool that recovery has answered? Nobody goes on with it then. */
  isCutOff({ inside }: EffectInfo): boolean {
    const outer = inside === null ? undefined : this.effects.get(inside);
    return outer !== undefined && (outer.answered !== null || this.isCutOff(outer.info));
  }

  #marked(name: string, policy: EffectPolicy): EffectRecord {
    const [callId, idempotencyKey, provider] = [null, null, null];
    return this.#of({ kind: "tool", name, policy, inside: null, callId, idempotencyKey, provider });
  }

  #end(record: EffectRecord, stage: "marked" | "begun"): void {
    record.stage = "open";
    // What a cancelled turn had under way is nobody's any more.
    if (this.#cancelled) return;
    const fate = fates[stage][record.info.policy];
    if (fate.runsAgain) record.again += 1;
    if (fate.answer !== "its_own") record.answered ??= { by: fate.answer, runs: record.runs };
  }

  #of(info: EffectInfo): EffectRecord {
    const known = this.effects.get(info.name);
    if (known !== undefined) return known;
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

  #settled({ item, effect: text }: JournalRow): void {
    if (item.type === "step_restarted") return;
    if (item.type !== "response") return this.#closeAll();
    const effect: Effect | null = text === null ? null : JSON.parse(text);
    const { response } = item;
    if (response.type === "model_replied") {
      const { route, usage, toolCalls } = response.reply;
      for (const [slot, { name, arguments: args }] of toolCalls.entries()) {
        this.#calls.set(response.id.replace(/\/[a-z]+$/, `/tool/${slot}`), callName(name, args ?? {}));
      }
      this.#modelSettled(route?.provider ?? null, usage);
    }
    if (response.type === "model_failed") {
      const { failure, partial } = response.error;
      this.#modelSettled(providerOf(failure), partial?.usage ?? null);
    }
    if (effect?.type === "run_code") this.#close(codeName(effect.cellId, effect.answers));
    if (effect?.type !== "call_tool") return;
    const { call, decision } = effect;
    const args = decision?.arguments ?? call.arguments ?? {};
    if (response.type === "tool_returned") this.#close(callName(call.name, response.ranArguments ?? args));
    else this.#marks.delete(callName(call.name, args));
  }

  #noted({ key }: Put, value: Json): void {
    const what = String(key[4]);
    const said = objectOf(value);
    if (what === "started") {
      this.#marks.set(
        callName(String(said["name"]), objectOf(said["arguments"] ?? null)),
        said["policy"] === "ask" ? "ask" : "never",
      );
    }
    if (what === "prepared") this.#close(hookName(this.#calls.get(String(key[3])) ?? ""));
    if (!what.startsWith("attempt/")) return;
    // A try of a model, or of a tool: the next one is to follow.
    if ("heard" in said) this.#modelSettled(String(objectOf(said["failure"] ?? null)["provider"] ?? ""), null);
    else {
      const failure = objectOf(said["failure"] ?? null);
      for (const record of this.effects.values()) {
        if (record.info.kind === "tool" && record.info.callId === failure["toolCallId"]) reopen(record);
      }
    }
  }

  #modelSettled(provider: string | null, usage: Usage | null): void {
    const record = this.#firstOf("model", provider);
    if (record !== null && usage !== null) record.tokens = totalTokens(usage) ?? 0;
  }

  #firstOf(kind: EffectKind, provider: string | null): EffectRecord | null {
    const under = [...this.effects.values()].filter(({ info, stage }) => info.kind === kind && stage === "begun");
    const record = under.find(({ info }) => provider === null || info.provider === provider) ?? under[0] ?? null;
    if (record !== null) record.stage = "recorded";
    return record;
  }

  #close(name: string): void {
    const record = this.effects.get(name);
    if (record !== undefined) record.stage = "recorded";
    this.#marks.delete(name);
  }

  #closeAll(): void {
    for (const record of this.effects.values()) if (record.stage === "begun") record.stage = "recorded";
    this.#marks.clear();
    this.#cancelled = false;
  }
}

function reopen(record: EffectRecord): void {
  if (record.stage === "begun") record.stage = "open";
}

/** A call by what it is asked to do. */
export function callName(tool: string, args: JsonObject): string {
  return `${tool}(${canonicalJson(args)})`;
}

/** What is asked before a call. */
export function hookName(call: string): string {
  return `before ${call}`;
}

/** A cell by its place in its turn, and how many answers it has. */
export function codeName(cellId: string, answers: number): string {
  return `cell ${cellId.replace(/turn-[0-9a-f]+/, "turn")} with ${answers} answers`;
}

function rowOf({ key, tag, value }: Put): Row {
  return { key, tag, value, expires: null, remainingMs: null };
}

function objectOf(value: Json): JsonObject {
  return isObject(value) ? value : {};
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function providerOf(failure: object): string | null {
  return "provider" in failure && typeof failure.provider === "string" ? failure.provider : null;
}
