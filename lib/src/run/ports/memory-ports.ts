// The ports of a run that lives as long as the process.

import type { TurnEvent } from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { Outlet } from "../turn-stream.ts";
import type { Committed, Inbox, Ports } from "./ports.ts";

import { message } from "../../model/internal.ts";
import { orAborted } from "../run.ts";
import { MemoryJournal } from "./memory-journal.ts";
import { memoryScope } from "./ports.ts";

/** Which events of a run a reader of this verb gets to see, live ones and entries. */
function isSeen({ verb }: RunPlan, { type }: TurnEvent): boolean {
  if (verb === "chat") return true;
  if (type === "chat_completed") return false;
  return verb === "step" || type !== "step_completed";
}

export function memoryPorts(
  plan: RunPlan,
  outlet: Outlet,
  journal = new MemoryJournal(),
): (signal: AbortSignal) => Ports {
  const say = (events: readonly TurnEvent[]): void | Promise<void> => {
    const seen = events.every((event) => isSeen(plan, event));
    return outlet.say(seen ? events : events.filter((event) => isSeen(plan, event)));
  };
  return (signal) => ({
    journal,
    scope: memoryScope,
    accepted: false,
    inbox: callerInbox(plan),
    sink: {
      live: say,
      commit: async (_, entries): Promise<Committed> => {
        await orAborted(say(entries), signal);
        return "fresh";
      },
    },
  });
}

/** What the caller's own function delivers. */
export function callerInbox({ onCheckpoint }: RunPlan): Inbox {
  return {
    claim: async ({ checkpoint }, turn) => {
      const given = (await onCheckpoint?.({ checkpoint, step: turn.step })) ?? null;
      // Checked as they come in: what is no message is told to whoever wrote the function.
      const messages = (given?.messages ?? []).map(message);
      const transientMessages = (given?.transientMessages ?? []).map(message);
      return { messages, transientMessages, turnCauses: [], inputs: [] };
    },
  };
}
