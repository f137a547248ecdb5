// The cost of collecting events into a reply, compared with a loop that appends the same strings. Both read the text at
// the end, which forces the engine to flatten it. Also the cost of appending to a history, by its length.

import type { TurnEvent } from "everturn";
import type { EffectResponse, Turn } from "everturn/advanced";

import { assistant, user } from "everturn";
import {
  checkpointDelivered,
  Collector,
  modelReplied,
  toolReturned,
  turnConfig,
  turnInput,
  modelReply,
  toolCall,
  toolSpec,
} from "everturn/advanced";

import {
  advance,
  appendHistory,
  canonicalJson,
  pendingEffects,
  startHistory,
  startTurn,
} from "../lib/src/core/kernel/internal.ts";
import { compare, print } from "./measure.ts";

export function benchKernel(): void {
  const count = 200_000;
  const events = Array.from({ length: count }, (_, index): TurnEvent => ({
    type: "text_delta",
    id: null,
    delta: `w${index % 10} `,
  }));

  print(
    `collecting ${count} deltas`,
    compare([
      {
        name: "bare loop over the events, text += delta",
        run: () => {
          let text = "";
          for (const event of events) if (event.type === "text_delta") text += event.delta;
          return text.charCodeAt(text.length - 1);
        },
      },
      {
        name: "Collector",
        run: () => {
          const collector = new Collector();
          for (const event of events) collector.add(event);
          return collector.text.charCodeAt(collector.text.length - 1);
        },
      },
    ]),
  );

  const sizes = [10, 100, 1000, 10_000];
  print(
    "appending 200 messages a round to a history that began with n",
    compare(
      sizes.map((size) => {
        let history = startHistory(Array.from({ length: size }, (_, index) => user(`message ${index}`)));
        const added = [assistant("Sunny."), user("And tomorrow?")];
        return {
          name: `n = ${size}`,
          run: () => {
            // A hundred at a time: a single one is too short to measure.
            for (let turn = 0; turn < 100; turn += 1) history = appendHistory(history, added);
            return history.digest;
          },
        };
      }),
    ),
  );

  print(
    "a step (reply, tool, checkpoint) and writing down what is new, from step n of a turn on",
    compare(
      [10, 100, 1000, 10_000].map((steps) => {
        let turn = startTurn(settings, turnInput("t", { messages: [user("hi")] })).turn;
        for (let step = 0; step < steps; step += 1) turn = oneStep(turn);
        // Each round continues the same turn: starting again from an earlier state would fork the history, and a fork
        // copies it.
        return { name: `n = ${steps}`, run: () => (turn = oneStep(turn)) };
      }),
      201,
    ),
  );
}

const tool = toolSpec({ name: "weather", description: "Tells the weather.", schema: { type: "object" } });
const settings = turnConfig({ model: "m", toolSpecs: [tool] });
const call = toolCall({ id: "c1", name: "weather", arguments: { city: "Rome" } });
const asked = modelReply({
  message: assistant("", { toolCalls: [call] }),
  toolCalls: [call],
  finishReason: "tool_calls",
});

function oneStep(turn: Turn): Turn {
  let next = turn;
  let written = 0;
  // What a storage would keep of a step: the journal row with the canonical effect, and the new messages.
  const take = (response: EffectResponse) => {
    const [effect] = pendingEffects(next);
    const { turn: after, notices } = advance(settings, next, response);
    written += canonicalJson(effect === undefined ? null : { ...effect }).length;
    written += JSON.stringify(response).length + JSON.stringify(notices).length;
    next = after;
  };
  const id = (what: string) => `t/${next.step}/${what}`;
  const outcome = { type: "success", value: "sunny", control: null } as const;
  take(modelReplied(id("model"), asked));
  take(toolReturned(id("tool/0"), outcome));
  take(checkpointDelivered(id("after_work")));
  if (written === 0 || next.step !== turn.step + 1) throw new Error("the step did not happen");
  return next;
}
