// What the fold from events to a reply costs beside a bare loop that appends the same strings. Both end by reading the text, so
// that both have to have built it. And what appending to a history costs, however long it is.

import type { EffectResponse, Turn } from "everturn/kernel";
import type { TurnEvent } from "everturn/model";

import { checkpointDelivered, Collector, modelReplied, toolReturned, turnConfig, turnInput } from "everturn/kernel";
import { assistant, modelReply, toolCall, toolSpec, user } from "everturn/model";

import {
  advance,
  appendHistory,
  canonicalJson,
  pendingEffects,
  startHistory,
  startTurn,
} from "../lib/src/kernel/internal.ts";
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
            // A hundred at once: one is too short to time.
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
        // The turn goes on, a step a round: going back would make the history fork, and a fork is a copy.
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
  // What a store would keep of it: the row of the journal, with the canonical effect, and what is new.
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
