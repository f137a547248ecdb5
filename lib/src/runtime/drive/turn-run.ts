// Drives one turn of one session: puts durable ports under the one loop, and lets go when the turn has ended, somebody else has the session, or the
// process is about to stop.

import type { TurnHistory } from "../../kernel/internal.ts";
import type { JsonObject, Message, Session } from "../../model/internal.ts";
import type { Ports, Started } from "../../run/internal.ts";
import type { RunPlan } from "../../run/plan/plan.ts";
import type { RuntimeContext, SessionKey } from "../context.ts";
import type { Lease } from "../rows/lease.ts";
import type { Row } from "../rows/storage.ts";
import type { Loaded } from "./loaded-turn.ts";

import { isEverturnError, orThrow, RuntimeError } from "../../model/internal.ts";
import { planRun, readPinned, startRun } from "../../run/internal.ts";
import { callerInbox } from "../../run/ports/memory-ports.ts";
import { engineOf, frozen, loadHistory, nameOf, readOne } from "../context.ts";
import { readValue } from "../rows/stored.ts";
import { runOptions } from "../verbs/durable-options.ts";
import { childrenOf } from "./children.ts";
import { Committer, HandedOver } from "./committer.ts";
import { loadTurn } from "./loaded-turn.ts";

export class TurnRun {
  readonly #context: RuntimeContext;
  readonly #key: SessionKey;
  readonly #turn: string;
  readonly #loaded: Loaded;
  readonly #committer: Committer;
  readonly #over = new AbortController();
  #run: Started | null = null;

  private constructor(context: RuntimeContext, key: SessionKey, turn: string, lease: Lease, loaded: Loaded) {
    this.#context = context;
    this.#key = key;
    this.#turn = turn;
    this.#loaded = loaded;
    this.#committer = new Committer(context, key, turn, lease, loaded);
  }

  /** Reads a turn whose session this process holds. `null`: it is not open any more. */
  static async load(context: RuntimeContext, key: SessionKey, turn: string, lease: Lease): Promise<TurnRun | null> {
    const loaded = await loadTurn(context.storage, key, turn);
    return loaded === null ? null : new TurnRun(context, key, turn, lease, loaded);
  }

  /** The turn that follows this one at once, once it has ended. */
  get next(): string | null {
    return this.#committer.next;
  }

  /** Drives it. Rejects with what kept it from ending; the turn is then as it was last committed. */
  async drive(): Promise<void> {
    const { hub } = this.#context;
    const { channel } = this.#committer;
    hub.open(nameOf(this.#key), channel);
    try {
      await this.#driven();
    } catch (error) {
      if (needsSomebody(error)) await this.#committer.park(error);
      else {
        await this.#committer.giveBack();
        throw error;
      }
    } finally {
      this.#over.abort();
      this.#context.pieces.forget(this.#committer.at);
      hub.close(nameOf(this.#key), channel);
    }
  }

  /** Lets the turn go at its next commit, or now. Whoever comes next goes on with it. */
  handOver(now: boolean): void {
    this.#committer.draining = true;
    if (now) this.#committer.stop(new HandedOver("the process is stopping; the turn goes on elsewhere"));
  }

  /** Ends it because somebody asked for that. */
  cancel(origin: string, reason: string): void {
    this.#run?.cancel({ origin, reason });
  }

  async #driven(): Promise<void> {
    const { start, cancel } = this.#loaded;
    const { storage } = this.#context;
    const engine = engineOf(this.#context, start.engine);
    const contents = await readOne(storage, { table: "contents", prefix: [this.#key.tenant, start.pinned] });
    if (contents === null) {
      throw new RuntimeError("corrupt_row", { message: `what the turn ${this.#turn} was pinned to is not there` });
    }
    const pinned = orThrow(readPinned(readValue("contents", contents)));
    const history = await loadHistory(this.#context, this.#key, start.base, start.digest);
    const { session } = this.#committer;
    const plan = planRun(
      engine,
      lazyThread(session, history),
      // What is stored of it says whose it was, whoever drives: names are the turn's own.
      { ...runOptions(start.options), context: frozen(session.context), requestId: this.#turn },
      {
        verb: start.verb,
        answers: start.answers,
        cell: start.cell,
        messages: start.messages,
        turnCauses: start.turnCauses,
        turnId: this.#turn,
        spentBefore: start.spentBefore,
        history,
        pinned,
        session: { sessionId: this.#key.session },
      },
    );
    const children = childrenOf({
      context: this.#context,
      key: this.#key,
      plan,
      scope: this.#committer.scope,
      fence: () => this.#committer.fence(),
      lost: () => this.#committer.lost(),
    });
    this.#run = startRun(plan, () => withCaller(plan, this.#committer.ports), children);
    // Before anything is begun: what is on record is replayed, and then it stops.
    if (cancel !== null) this.#run.cancel(cancel);
    const beating = this.#beat();
    const unwatch = this.#context.cancels.watch(this.#committer.at, (row) => this.#take(row));
    try {
      await this.#run.result;
    } finally {
      unwatch();
      this.#over.abort();
      await beating;
    }
  }

  async #beat(): Promise<void> {
    const { clock, lease: timings } = this.#context;
    const { signal } = this.#over;
    for (;;) {
      const slept = await clock.sleep(timings.renewMs, signal).then(
        () => true,
        () => false,
      );
      if (!slept || signal.aborted) return;
      try {
        await this.#committer.renew();
      } catch (error) {
        if (signal.aborted) return;
        // A storage that is busy may be free in time; a lease that is lost is lost.
        if (isEverturnError(error) && error.reason === "lease_lost") return;
        if (clock.now() >= this.#committer.expires) {
          this.#committer.lost();
          return;
        }
      }
    }
  }

  #take(row: Row): void {
    const { origin, reason } = readValue("cancels", row).evidence;
    this.#run?.cancel({ origin, reason });
  }
}

/** Would it go wrong again, whoever tries? Then somebody has to look at it. */
function needsSomebody(error: unknown): error is RuntimeError {
  return error instanceof RuntimeError && ["diverged", "replay_missing", "corrupt_row"].includes(error.reason);
}

/** The thread of a session, listed when somebody asks. */
function lazyThread(session: Session<JsonObject>, { entries, length }: TurnHistory): Session["thread"] {
  let listed: readonly Message[] | null = null;
  return {
    ...session.thread,
    get messages() {
      listed ??= entries.slice(0, length);
      return listed;
    },
  };
}

/** What the engine's own function delivers at a checkpoint comes behind what was in the inbox. */
function withCaller(plan: RunPlan, ports: Ports): Ports {
  if (plan.onCheckpoint === null || plan.onCheckpoint === undefined) return ports;
  const caller = callerInbox(plan);
  return {
    ...ports,
    inbox: {
      claim: async (asked, turn) => {
        const said = await ports.inbox.claim(asked, turn);
        const more = await caller.claim(asked, turn);
        return {
          ...said,
          messages: [...said.messages, ...more.messages],
          transientMessages: [...said.transientMessages, ...more.transientMessages],
        };
      },
    },
  };
}
