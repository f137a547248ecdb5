// The memory of event readers: pages that wait for their consumers are bounded by tenant and in total, and dropped
// pages are read again.

import type { HostStorage } from "everturn/runtime";

import { engine, fake } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

/** A storage that records the length of the largest answer to one query of events. */
function measured(storage: HostStorage) {
  let largest = 0;
  const read: HostStorage["read"] = async (queries) => {
    const results = await storage.read(queries);
    for (const [index, rows] of results.entries()) {
      const length = rows.reduce((sum, { value }) => sum + value.length, 0);
      if (queries[index]?.table === "events") largest = Math.max(largest, length);
    }
    return results;
  };
  return { host: { ...storage, read }, largest: () => largest };
}

test("hundreds of readers that stop reading hold bounded pages, and each gets every event once when it continues", async () => {
  const text = "x".repeat(40_000);
  const scripts = Array.from({ length: 30 }, () => [{ type: "text", text } as const]);
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m" });
  const { host, largest } = measured(memoryStorage());
  const sessions = runtime({ host, engines: { default: agent } });
  const turn = await sessions.start("go", { id: "s" });
  await turn.result;
  for (let count = 0; count < 19; count += 1) await (await sessions.reply("s", "go on")).result;
  const expected: number[] = [];
  for await (const { sequence } of sessions.events("s", { follow: false })) expected.push(sequence ?? -1);
  const readers = Array.from({ length: 300 }, () => sessions.events("s", { follow: false })[Symbol.asyncIterator]());
  const firsts = await Promise.all(readers.map((reader) => reader.next()));
  // A page has at most 65,536 characters, or one event.
  expect(largest()).toBeLessThan(3 * 65_536);
  const sequences = await Promise.all(
    readers.slice(0, 20).map(async (reader, index) => {
      const read = [firsts[index]?.value?.sequence ?? -1];
      for (let next = await reader.next(); next.done !== true; next = await reader.next())
        read.push(next.value.sequence ?? -1);
      return read;
    }),
  );
  for (const sequence of sequences) expect(sequence).toEqual(expected);
  for (const reader of readers) await reader.return?.();
});
