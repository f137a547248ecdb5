// What reading a stream costs: frames beside the bare parser they stand on, and a codec beside JSON.parse of the same events.

import { createParser } from "eventsource-parser";
import { frameReader, noQuirks, openaiChat } from "everturn/wire";

import { compare, print } from "./measure.ts";

export function benchWire(): void {
  const count = 20_000;
  const events = Array.from({ length: count }, (_, index) =>
    JSON.stringify({
      id: "r",
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta: { content: `w${index % 10} ` }, finish_reason: null }],
    }),
  );
  const text = events.map((event) => `data: ${event}\n\n`).join("");
  // As they come off a socket: 16 KiB a read.
  const reads = Array.from({ length: Math.ceil(text.length / 16_384) }, (_, index) =>
    text.slice(index * 16_384, (index + 1) * 16_384),
  );
  print(
    `framing ${count} events in ${reads.length} reads`,
    compare([
      {
        name: "frameReader",
        run: () => {
          const reader = frameReader();
          return reads.reduce((sum, read) => sum + reader.push(read).length, 0);
        },
      },
      {
        name: "eventsource-parser",
        run: () => {
          let frames = 0;
          const parser = createParser({ onEvent: () => void (frames += 1) });
          for (const read of reads) parser.feed(read);
          return frames;
        },
      },
    ]),
  );

  const context = { route: { provider: "x", endpoint: "x", model: "m" }, rawChunks: false, quirks: noQuirks };
  print(
    `reading them`,
    compare([
      {
        name: "JSON.parse of every event",
        run: () => events.reduce((sum, event) => sum + Object.keys(JSON.parse(event)).length, 0),
      },
      {
        name: "frames, JSON.parse, codec, events",
        run: () => {
          const reader = frameReader();
          const decoder = openaiChat.decoder(context);
          return reads.reduce((sum, read) => sum + decoder.push(reader.push(read)).length, 0);
        },
      },
    ]),
  );
}
