// A journal that starts with recorded items and replays them (H1), and keeps all items that it handed to the turn.

import type { CancellableJournal, JournalItem, Plan } from "../src/core/run/internal.ts";
import type { ChatResult, TurnEvent } from "everturn";

import { startRun } from "../src/core/run/internal.ts";
import { MemoryJournal } from "../src/core/run/ports/memory-journal.ts";
import { memoryPorts } from "../src/core/run/ports/memory-ports.ts";

export class ReplayJournal implements CancellableJournal {
  /** The items handed to the turn, in order: enough to replay it. */
  readonly items: JournalItem[] = [];
  /** The number of effects that were performed instead of replayed. */
  performed = 0;
  /** Recorded items that were not handed to the turn yet. */
  readonly #recorded: JournalItem[];
  readonly #recordedIds: ReadonlySet<string>;
  readonly #live = new MemoryJournal();
  readonly cancel = this.#live.cancel;
  readonly cancelAfterSettled = this.#live.cancelAfterSettled;

  constructor(recorded: readonly JournalItem[]) {
    this.#recorded = [...recorded];
    this.#recordedIds = new Set(recorded.flatMap((item) => (item.type === "response" ? [item.response.id] : [])));
  }

  readonly order: CancellableJournal["order"] = (effect, perform) => {
    if (this.#recordedIds.has(effect.id)) return;
    this.performed += 1;
    this.#live.order(effect, perform);
  };

  readonly next = async (): Promise<JournalItem> => {
    const item = this.#recorded.shift() ?? (await this.#live.next());
    this.items.push(item);
    return item;
  };
}

const noChildren = () => () => Promise.reject(new Error("the tools run no turns"));

/** Replays a plan from its recorded journal items: effects with a recorded response are not performed. */
export async function replayPlan(plan: Plan, recorded: readonly JournalItem[]): Promise<Replayed> {
  const events: TurnEvent[] = [];
  const journal = new ReplayJournal(recorded);
  const ports = memoryPorts(plan, { emit: (emitted) => void events.push(...emitted) });
  const { chat } = await startRun(plan, (signal) => ({ ...ports(signal), journal }), noChildren).result;
  return { chat, events, journal: journal.items, performed: journal.performed };
}

type Replayed = {
  readonly chat: ChatResult;
  readonly events: readonly TurnEvent[];
  readonly journal: readonly JournalItem[];
  readonly performed: number;
};
