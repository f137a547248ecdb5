// The agent of `npm run bench:restate`: a tool call and a short answer, without delays.

import type { Engine } from "everturn";

import { engine, tool } from "everturn";
import { steadyModel } from "everturn/testing";

/** How many batches a turn of this agent writes: it is accepted, then two model replies, a tool result and its end. */
export const durableSteps = 5;

export function benchEngine(): Engine {
  const look = tool({
    name: "look",
    description: "Looks it up.",
    schema: { type: "object" },
    replay: "safe",
    handler: () => "found",
  });
  const adapter = steadyModel(({ step }) =>
    step === 0 ? [{ type: "tool_call", name: "look" }] : [{ type: "text", text: "Here is what was found." }],
  );
  return engine({ adapter, model: "fake:m", tools: [look] });
}
