// The work that context limits cost at each step, counted.

import type { Message } from "../../model/internal.ts";
import type { ContextLimits } from "./context-limits.ts";

import { assistant, user } from "everturn";
import { expect, test } from "vitest";

import { calls, config, delivered, input, replied, result } from "../../../../test/turns.ts";
import { pendingEffects } from "./pending-effects.ts";
import { advance, startTurn } from "./reducer.ts";

const limits: ContextLimits = {
  window: 10_000_000,
  reserve: 0,
  keepRecent: 1_000,
  longestResult: 1_000,
  counts: false,
  prune: { at: 9_000_000, keep: 100 },
  compact: { at: 9_500_000, model: null, instructions: null, providerAt: null, maxTokens: null, budget: null },
};

/** How often steps read messages of a history of this length, after the first step has read all of them. */
function readsOf(length: number): number {
  let reads = 0;
  const messages = Array.from({ length }, (_, index): Message => {
    const message = index % 2 === 0 ? user(`Question ${index}.`) : assistant(`Answer ${index}.`);
    const { role } = message;
    return Object.defineProperty({ ...message }, "role", {
      enumerable: true,
      get: () => {
        reads += 1;
        return role;
      },
    });
  });
  const settings = config({}, { context: limits });
  let { turn } = startTurn(settings, input({ history: messages, messages: [user("Look.")] }));
  const respond = (response: (id: string) => Parameters<typeof advance>[2]): void => {
    const [effect] = pendingEffects(turn);
    const transition = advance(settings, turn, response(effect?.id ?? ""));
    expect(transition.status).toBe("accepted");
    ({ turn } = transition);
  };
  for (let step = 0; step < 40; step += 1) {
    // The first steps add up the history.
    if (step === 2) reads = 0;
    respond((id) => replied(id, calls("weather")));
    respond((id) => result(id, "sunny"));
    respond(delivered);
  }
  return reads;
}

test("H5: a step with context limits reads as many messages after 100 earlier messages as after 5,000", () => {
  expect(readsOf(5_000)).toBe(readsOf(100));
});
