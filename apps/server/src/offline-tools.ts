// Demonstration tools of the offline model, one for each effect that a tool can have on a turn: a plain result
// (`clock`), progress (`countdown`), human approval (`launch`), and a question to the user (`survey`).

import type { Tool } from "everturn";

import { askUser, tool } from "everturn";

import { pause } from "./pause.ts";

/** The length of one tick of the countdown, in words of the offline model. */
const wordsPerTick = 8;

/** Returns the demonstration tools. `paceMs`: the delay between two words of the offline model, in milliseconds. */
export function offlineTools({ paceMs }: { readonly paceMs: number }): readonly Tool[] {
  return [clock, countdown(paceMs * wordsPerTick), launch, survey];
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
    description: "Counts down to zero, slowly, and reports its progress.",
    schema: { type: "object", properties: { from: { type: "integer", minimum: 1, maximum: 1000, default: 5 } } },
    replay: "safe",
    handler: async ({ from = 5 }, { progress, signal }) => {
      const total = Number(from);
      for (let remaining = total; remaining > 0; remaining -= 1) {
        progress({ done: total - remaining, total });
        await pause(tickMs, signal);
      }
      progress({ done: total, total });
      return `counted down from ${total}`;
    },
  });
}

const launch = tool({
  name: "launch",
  description: "Launches a paper rocket. A person has to approve it first.",
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
