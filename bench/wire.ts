// The cost of reading a stream: frames compared with the bare SSE parser, and a codec compared with JSON.parse of the
// same events.

import { createParser } from "eventsource-parser";
import { frameReader, noQuirks, openaiChat } from "everturn/advanced";

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
  // In reads of 16 KiB, as from a socket.
  const reads = Array.from({ length: Math.ceil(text.length / 16_384) }, (_, index) =>
    text.slice(index * 16_384, (index + 1) * 16_384),
  );
  print(
    `framing ${count} events in ${reads.length} reads`,
    compare([
      {
        name: "eventsource-parser",
        run: () => {
          let frames = 0;
          const parser = createParser({ onEvent: () => void (frames += 1) });
          for (const read of reads) parser.feed(read);
          return frames;
        },
      },
      {
        name: "frameReader",
        run: () => {
          const reader = frameReader();
          return reads.reduce((sum, read) => sum + reader.push(read).length, 0);
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

  growing();
}

function call(fields: object, text: string): object {
  return { tool_calls: [{ ...fields, function: { name: "f", arguments: text } }] };
}

/** Decoding is linear: compares the last eighth of a long stream with the first. */
function growing(): void {
  const count = 32_000;
  const deltas: readonly (readonly [string, (n: number) => object])[] = [
    ["text", () => ({ content: "a" })],
    ["annotations", (n) => ({ annotations: [{ n }] })],
    ["an unknown list", (n) => ({ odd: [n] })],
    ["an unknown object", (n) => ({ odd: { [`k${n}`]: n } })],
    ["reasoning", (n) => ({ reasoning_details: [{ type: "reasoning.text", text: "a", index: n }] })],
    ["a name with every piece", (n) => call({ index: 0, id: "c" }, n === 0 ? '{"a":"' : "}{}{}{}{}{}{")],
    ["calls that share an id", (n) => call({ index: n, id: "c" }, "{}")],
    ["calls without an index", (n) => call({ id: `c${n}` }, "{}")],
  ];
  console.log(`\nthe last ${count / 8} pieces of ${count}, beside the first`);
  for (const [what, delta] of deltas) {
    const frames = Array.from({ length: count }, (_, n) => {
      const choice = { index: 0, delta: delta(n), logprobs: what === "text" ? { content: [{ n }] } : null };
      return { event: null, data: JSON.stringify({ choices: [choice] }) };
    });
    const route = { provider: "x", endpoint: "x", model: "m" };
    const decoder = openaiChat.decoder({ route, rawChunks: false, quirks: noQuirks });
    const timed = (from: number, to: number): number => {
      const before = performance.now();
      decoder.push(frames.slice(from, to));
      return performance.now() - before;
    };
    const first = timed(0, count / 8);
    timed(count / 8, (count * 7) / 8);
    const last = timed((count * 7) / 8, count);
    console.log(`  ${what.padEnd(40)} × ${(last / first).toFixed(2)}`);
  }
}
