// The driver: the one loop that awaits effects (R1).
//
// Theory of operation
//   The kernel decides (core/kernel/machine/reducer.ts) and performers act (perform/). The driver connects them through
//   three ports:
//     journal   the ordered log of what the turn accepted: responses, a cancel, a failure
//     sink      stores transitions and publishes events
//     perform   maps an effect to the performer that does the I/O
//   In memory the ports are a few lines (ports/memory-*.ts); the durable runtime implements them over a storage
//   (runtime/drive/). The loop does not know the difference.
//
//   Callers: `startRun` (run.ts) and no other function. Streaming verbs, awaited verbs, sessions, the durable runtime
//   and replays all start a run there, so an awaited verb takes the same path as its stream (R2).
//
//   One iteration:
//     1. commit    the sink stores the transition, the journal item that caused it and its events, then publishes the
//                  events. It may replace the item instead (`Replaced`): the kernel then applies the other item to the
//                  turn before
//     2. order     the journal starts the pending effects that have no recorded response; `order` returns at once
//     3. next      wait for the next journal item, the only wait of the loop: on replay recorded items, then new ones
//                  as effects settle
//     4. transition  the kernel applies the item
//   So the path of one effect is: effect → performer → response → journal → transition → commit → publish.
//
//   Effects of one batch run concurrently. Their responses enter the journal in the order in which they settle, and
//   that order is recorded; a replay applies them in the recorded order. The loop itself never races promises: racing
//   would make the order depend on timing.
//
// Cancellation
//   A cancel is a journal item (Q9). The caller aborts the signal of the performers and puts the cancel into the
//   journal in front of everything that was not handed out yet; the kernel then ends the turn. Responses that arrive
//   later are never read. If tools are running, the cancel follows the responses that they settle within the cancel
//   grace (perform/cancel-grace.ts); no effect is performed meanwhile.
//
// Crash points (durable ports)
//   before commit n           item n may be lost; its effect is performed again, or its replay policy decides (Q3)
//   after commit n            a replay applies items 1…n and orders what is pending then; effects 1…n are not performed
//                             again (H1)
//   between commit and order  the same: pending effects are derived from the state (K2)
//
// Failures
//   A performer resolves with a response, also when the model or a tool failed. It rejects only if a function of the
//   user threw or the storage failed; then `journal.next` rejects, or returns a `failure` item if the turn was accepted
//   durably. A rejecting commit rejects the run.
//
// Invariants
//   1. No effect is ordered before the transition that caused it is committed (Q1).
//   2. No event is published before the commit that contains it (H2).
//   3. An effect with a recorded response is not performed (H1); the journal ensures it.
//   4. While a batch of calls is open, its calls are not ordered again (`isSameBatch`).
//   5. The loop ends exactly when the turn has ended and that transition is committed (K5).

import type { Effect, EffectResponse, Transition, Turn, TurnInput, TurnMachineConfig } from "../kernel/internal.ts";
import type { Json, TurnEvent } from "../model/internal.ts";
import type { Journal, JournalItem, Sink } from "./ports/ports.ts";

import { advance, cancelTurn, failTurn, isSameBatch, pendingEffects, startTurn } from "../kernel/internal.ts";

/** What the driver runs a turn with. */
export type Drive = {
  readonly config: TurnMachineConfig;
  readonly input: TurnInput<Json>;
  readonly journal: Journal;
  readonly sink: Sink;
  /** Performs an effect. Rejects only if a function of the user threw or the storage failed. */
  readonly perform: (effect: Effect, turn: Turn) => Promise<EffectResponse>;
  /**
   * The events of a transition, to be committed with it. `item` is the journal item that caused it and `before` the
   * turn it was applied to; both are `null` for the start of the turn.
   */
  readonly eventsOf: (item: JournalItem | null, before: Turn | null, transition: Transition) => readonly TurnEvent[];
};

/** Runs a turn to its end and returns its final state. */
export async function drive({ config, input, journal, sink, perform, eventsOf }: Drive): Promise<Turn> {
  let before: Turn | null = null;
  let item: JournalItem | null = null;
  let transition = startTurn(config, input);
  for (;;) {
    const committed = await sink.commit(transition, eventsOf(item, before, transition), item);
    if (typeof committed === "object" && before !== null) {
      item = committed.item;
      transition = applyItem(config, before, item);
      continue;
    }
    const { turn } = transition;
    if (turn.phase.type === "ended") return turn;
    if (before === null || !isSameBatch(before, turn)) {
      for (const effect of pendingEffects(turn)) journal.order(effect, () => perform(effect, turn));
    }
    before = turn;
    item = await journal.next();
    transition = applyItem(config, turn, item);
  }
}

/** The transition that a journal item causes. */
function applyItem(config: TurnMachineConfig, turn: Turn, item: JournalItem): Transition {
  switch (item.type) {
    case "response":
      return advance(config, turn, item.response);
    case "cancel":
      return cancelTurn(config, turn, item.cancellation);
    case "failure":
      return failTurn(config, turn, item.failure);
  }
}
