// Harmless tools that come with the offline model, so that everything a tool can do to a turn can be tried without a key: one that answers, one that
// takes its time, one that needs consent, one that asks.

import type { Tool } from "everturn";

import { askUser, tool } from "everturn";

/** A tick of the countdown is as long as this many words. */
const wordsATick = 8;

export function offlineTools({ paceMs }: { readonly paceMs: number }): readonly Tool[] {
  return [clock, countdown(paceMs * wordsATick), launch, survey];
}

const clock = tool({
  name: "clock",
  description: "Tells the time.",
  schema: { type: "object", properties: {} },
  replay: "safe",
  handler: () => new Date().toISOString(),
});

function countdown(tickMs: number): Tool {
  return tool({
    name: "countdown",
    description: "Counts down to zero, slowly, and shows how far it is.",
    schema: { type: "object", properties: { from: { type: "integer", minimum: 1, maximum: 1000, default: 5 } } },
    replay: "safe",
    handler: async ({ from = 5 }, { progress, signal }) => {
      const total = Number(from);
      for (let left = total; left > 0; left -= 1) {
        progress({ done: total - left, total });
        await pause(tickMs, signal);
      }
      progress({ done: total, total });
      return `counted down from ${total}`;
    },
  });
}

const launch = tool({
  name: "launch",
  description: "Launches a paper rocket. Somebody has to consent first.",
  schema: { type: "object", properties: { target: { type: "string", default: "the moon" } } },
  needsApproval: true,
  handler: ({ target = "the moon" }) => `a paper rocket is on its way to ${String(target)}`,
});

const survey = tool({
  name: "survey",
  description: "Asks the user for a favourite colour.",
  schema: { type: "object", properties: {} },
  handler: () =>
    askUser("What is your favourite colour?", { answerAs: "tool_result", options: ["red", "green", "blue"] }),
});

/** Waits, and ends at once when nobody wants the result any more. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}
