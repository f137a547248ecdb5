// What the fold from events to a reply costs beside a bare loop that appends the same strings. Both end by reading the text, so
// that both have to have built it. And what appending to a history costs, however long it is.

import type { TurnEvent } from "everturn/model";

import { appendHistory, Collector, startHistory } from "everturn/kernel";
import { assistant, user } from "everturn/model";

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
}
