// Records inside effects (Q2, Q3): attempts, delays, child turns, and the start marks of tools. The durable form of the
// `scope` port.
//
// A record is a row of its own, keyed by turn, effect and name, and written under the lease before the performer
// continues. The process that takes the turn over finds it and does not repeat what is recorded. Records are not
// ordered against journal rows.
//
// A start mark is written before a `never` or `ask` tool runs. A tool without one has not run, so recovery runs it; a
// tool with one is answered by its replay policy (H4). The marks of calls that have not started when the turn is left
// are removed with the release of the lease (`unused`), so that the next holder runs them.

import type { CallTool, Effect, SlottedCall, Turn } from "../../core/kernel/internal.ts";
import type { Json, ToolSpec } from "../../core/model/internal.ts";
import type { Scope } from "../../core/run/internal.ts";
import type { Changes } from "../rows/batch.ts";
import type { Key, Put, Removal } from "../rows/storage.ts";
import type { TurnStart } from "../rows/values.ts";
import type { RuntimeContext } from "./context.ts";
import type { LeaseHolder } from "./lease-holder.ts";

import { pendingEffects } from "../../core/kernel/internal.ts";
import { startMark } from "../../core/run/internal.ts";
import { putting } from "../rows/batch.ts";
import { recordName, recordPut } from "../rows/journal-rows.ts";
import { engineOf } from "./context.ts";

/** The name of the record that is the start mark of a tool. */
const started = "started";

/** The turn that records belong to. `before`: the records of earlier holders of the lease, by `recordName`. */
type RecordedTurn = { readonly at: Key; readonly start: TurnStart; readonly before: ReadonlyMap<string, Json> };

/** The lease under which records are written. Both functions reject if the lease is lost. */
type RecordingLease = {
  readonly holder: LeaseHolder;
  /** Writes a batch under the lease. */
  readonly write: (changes: Changes) => Promise<void>;
  /** Checks the lease before an effect. */
  readonly ensure: () => void | Promise<void>;
};

/** The records of one turn. */
export class EffectRecords implements Scope {
  readonly #context: Pick<RuntimeContext, "engines">;
  readonly #turn: RecordedTurn;
  readonly #lease: RecordingLease;
  /** Records that this process has written, by `recordName`. */
  readonly #written = new Set<string>();
  /** The effects of calls with a start mark of this process, written or in flight, whose handlers have not started. */
  readonly #notStarted = new Set<string>();
  /**
   * How many tools of a batch run at once (permits of `core/run/perform/perform.ts`), by the pinned limits of the
   * turn.
   */
  maxConcurrency = Number.POSITIVE_INFINITY;
  /** The batch of calls whose start marks have been built. */
  #marked: readonly SlottedCall[] | null = null;

  constructor(context: Pick<RuntimeContext, "engines">, turn: RecordedTurn, lease: RecordingLease) {
    this.#context = context;
    this.#turn = turn;
    this.#lease = lease;
  }

  get tenant(): string {
    return String(this.#turn.at[0]);
  }

  get epoch(): number {
    return this.#lease.holder.epoch;
  }

  /** Checks the lease before an effect. */
  readonly ensure = (): void | Promise<void> => this.#lease.ensure();

  /**
   * Returns a record of an earlier holder; `null`: there is none. Records of this process are not found: the performer
   * has the value.
   */
  readonly find = (effectId: string, name: string): Json => this.#turn.before.get(recordName(effectId, name)) ?? null;

  /** Writes a record once. */
  readonly record = async (effectId: string, name: string, value: Json): Promise<void> => {
    const id = recordName(effectId, name);
    if (this.#written.has(id)) return;
    if (name === started) this.#notStarted.add(effectId);
    await this.#lease.write(putting(recordPut(this.#turn.at, effectId, name, value)));
    this.#written.add(id);
  };

  readonly begin = (effectId: string): void => {
    this.#notStarted.delete(effectId);
  };

  /**
   * The removals of the start marks of calls that have not started. Call it when nothing can start any more: the run is
   * over.
   */
  unused(): readonly Removal[] {
    return [...this.#notStarted].map((effectId) => {
      const { table, key } = recordPut(this.#turn.at, effectId, started, null);
      return { table, prefix: key };
    });
  }

  /** Returns whether the tool of this effect may have run under an earlier holder of the lease. */
  hasStarted(effectId: string): boolean {
    return this.find(effectId, started) !== null;
  }

  /** The names of the child turns that a call ran under earlier holders of the lease. */
  childrenOf(effectId: string): readonly string[] {
    return [...this.#turn.before.keys()].flatMap((id) => {
      const [effect, name = ""]: readonly string[] = JSON.parse(id);
      return effect === effectId && name.startsWith("child/") ? [name] : [];
    });
  }

  /**
   * The start marks of the tools that begin at once: they share the commit of the response that caused them (Q3), which
   * saves a write for each. Built once for each batch of calls; building them at every response would be quadratic in
   * the number of calls.
   */
  startMarks(turn: Turn): readonly Put[] {
    const { phase } = turn;
    if (phase.type !== "awaiting_tools" || phase.calls === this.#marked) return [];
    this.#marked = phase.calls;
    // When a batch begins all permits are free, and calls that need no decision take them in order. The performer marks
    // later ones when they get a permit.
    let permits = this.maxConcurrency;
    const serialTools = new Set<string>();
    return pendingEffects(turn).flatMap((effect) => {
      if (!this.#startsAtOnce(effect, turn)) return [];
      const { name } = effect.call;
      // The performer marks later calls of a serial tool, too: they wait for the first one, and take no permit until
      // then.
      if (serialTools.has(name)) return [];
      if (this.#isSerial(name)) serialTools.add(name);
      permits -= 1;
      const mark = permits < 0 ? null : this.#markOf(effect, turn);
      const id = recordName(effect.id, started);
      if (mark === null || this.#written.has(id) || this.#turn.before.has(id)) return [];
      this.#written.add(id);
      this.#notStarted.add(effect.id);
      return [recordPut(this.#turn.at, effect.id, started, mark)];
    });
  }

  /** Returns whether the call takes a permit without waiting for an approval or a hook. */
  #startsAtOnce(effect: Effect, turn: Turn): effect is CallTool {
    if (effect.type !== "call_tool") return false;
    const { options } = engineOf(this.#context, this.#turn.start.engine);
    const spec = specOf(effect, turn);
    if (spec === undefined || options.hooks?.beforeTool !== undefined) return false;
    return effect.decision !== null || (!spec.needsApproval && !spec.manual);
  }

  /** Returns whether the calls of a tool run one at a time. */
  #isSerial(name: string): boolean {
    const { tools } = engineOf(this.#context, this.#turn.start.engine);
    return tools.findLast((tool) => tool.name === name)?.concurrency === "serial";
  }

  /** The start mark of a call; `null`: its tool needs none. */
  #markOf(effect: CallTool, turn: Turn): Json {
    const spec = specOf(effect, turn);
    return spec === undefined ? null : startMark(effect, spec, this.epoch);
  }
}

function specOf({ call }: CallTool, { environment }: Turn): ToolSpec | undefined {
  return environment.tools.find(({ name }) => name === call.name);
}
