// The one loop that awaits effects (R1). Everything that runs a turn runs it through here: streamed or not, in memory or durable, in a test or
// in production.
//
// The order is: perform, settle, advance, commit, publish. No effect is ordered before what caused it has been committed. The loop never races
// promises: the journal says what happened next.

import type { Effect, EffectResponse, Transition, Turn, TurnInput, TurnMachineConfig } from "../kernel/internal.ts";
import type { TurnEvent } from "../model/internal.ts";
import type { Journal, JournalItem, Sink } from "./ports/ports.ts";

import { advance, cancelTurn, failTurn, isSameBatch, pendingEffects, startTurn } from "../kernel/internal.ts";

export type Drive = {
  readonly config: TurnMachineConfig;
  readonly input: TurnInput;
  readonly journal: Journal;
  readonly sink: Sink;
  /** Does what an effect asks for. Only a function of the user's may make it reject. */
  readonly perform: (effect: Effect, turn: Turn) => Promise<EffectResponse>;
  /** What an accepted item, and the transition it caused, have to tell. */
  readonly entries: (item: JournalItem | null, before: Turn | null, step: Transition) => readonly TurnEvent[];
};

/** Runs a turn to its end. */
export async function drive({ config, input, journal, sink, perform, entries }: Drive): Promise<Turn> {
  let before: Turn | null = null;
  let item: JournalItem | null = null;
  let step = startTurn(config, input);
  for (;;) {
    await sink.commit(step, entries(item, before, step), item);
    const { turn } = step;
    if (turn.phase.type === "ended") return turn;
    if (before === null || !isSameBatch(before, turn)) {
      for (const effect of pendingEffects(turn)) journal.order(effect, () => perform(effect, turn));
    }
    before = turn;
    item = await journal.next();
    step = accept(config, turn, item);
  }
}

function accept(config: TurnMachineConfig, turn: Turn, item: JournalItem): Transition {
  switch (item.type) {
    case "response":
      return advance(config, turn, item.response);
    case "cancel":
      return cancelTurn(config, turn, item.cancellation);
    case "failure":
      return failTurn(config, turn, item.failure);
  }
}
