// The ports of a run in memory: nothing is stored, and events go directly to the stream of the caller.

import type { TurnEvent } from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { Outlet } from "../turn-stream.ts";
import type { Committed, Inbox, Ports } from "./ports.ts";

import { orAborted } from "../run-lifetime.ts";
import { MemoryJournal } from "./memory-journal.ts";
import { memoryScope } from "./ports.ts";

/**
 * Does a reader of this verb receive the event? Only `chat` has `chat_completed`, and `generate` has no
 * `step_completed`.
 */
function isVisible({ verb }: RunPlan, { type }: TurnEvent): boolean {
  if (verb === "chat") return true;
  if (type === "chat_completed") return false;
  return verb === "step" || type !== "step_completed";
}

/** The ports for `startRun`. `outlet` receives the events; `tenant` is that of the caller, if the run has one. */
export function memoryPorts(
  plan: RunPlan,
  outlet: Outlet,
  tenant: string | null = null,
): (signal: AbortSignal) => Ports {
  const emit = (events: readonly TurnEvent[]): void | Promise<void> => {
    const allVisible = events.every((event) => isVisible(plan, event));
    return outlet.emit(allVisible ? events : events.filter((event) => isVisible(plan, event)));
  };
  return (signal) => ({
    journal: new MemoryJournal(),
    scope: { ...memoryScope, tenant },
    accepted: false,
    inbox: emptyInbox,
    sink: {
      live: emit,
      commit: async (_, events): Promise<Committed> => {
        await orAborted(emit(events), signal);
        return "fresh";
      },
    },
  });
}

/** The inbox of a run without a durable one: input comes only from `onCheckpoint`. */
export const emptyInbox: Inbox = {
  claim: () => Promise.resolve({ messages: [], transientMessages: [], turnCauses: [], inputs: [] }),
};
