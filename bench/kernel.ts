// What the fold from events to a reply costs beside a bare loop that appends the same strings. Both end by reading the text, so
// that both have to have built it.

import type { TurnEvent } from "everturn/model";

import { Collector } from "everturn/kernel";

import { compare, print } from "./measure.ts";

export function benchKernel(): void {
  const count = 200_000;
  const events = Array.from({ length: count }, (_, index): TurnEvent => ({
    type: "text_delta",
    id: null,
    delta: `w${index % 10} `,
  }));

  print(`collecting ${count} deltas`, [
    ...compare([
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
  ]);
}
