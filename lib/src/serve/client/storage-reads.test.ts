// The number of storage reads of a request: the routes read nothing that the verb has read.

import { expect, test } from "vitest";

import { handModel } from "../../../test/hand-model.ts";
import { engine } from "../../core/engine/internal.ts";
import { memoryStorage } from "../../durable/host/memory/memory.ts";
import { runtime } from "../../durable/internal.ts";
import { createHandler } from "../index.ts";
import { createClient } from "./index.ts";

/** A client of a handler on a storage that counts its reads and notes the count at each write. */
function world() {
  const model = handModel();
  const storage = memoryStorage();
  const counts = { reads: 0, atWrites: [0] };
  const host: typeof storage = {
    ...storage,
    read: (queries) => {
      counts.reads += 1;
      return storage.read(queries);
    },
    write: (batch) => {
      counts.atWrites.push(counts.reads);
      return storage.write(batch);
    },
  };
  const agent = engine({ adapter: model, model: "hand:m" });
  const sessions = runtime({ host, engines: { default: agent }, live: false });
  const handler = createHandler({ sessions, auth: "none" });
  const client = createClient({ url: "http://localhost", fetch: async (url, init) => handler(new Request(url, init)) });
  const reset = () => Object.assign(counts, { reads: 0, atWrites: [] });
  /** Answers the n-th model call. */
  const answer = async (n: number, text: string, afterDelta: () => Promise<void> = async () => undefined) => {
    const call = await model.call(n);
    await call.say(text);
    await afterDelta();
    call.finish();
  };
  return { client, counts, reset, answer };
}

test("a reply of the client, which has a key, is one read before the accepting batch and none before its first delta", async () => {
  const { client, counts, reset, answer } = world();
  const first = await client.start("hi", { id: "s" });
  await answer(1, "one");
  expect((await first.result).text).toBe("one");
  reset();
  const turn = await client.reply("s", "more", { key: "k" });
  await answer(2, "two", async () => {
    for await (const { event } of turn.events) if (event.type === "text_delta") break;
    expect([counts.reads, counts.atWrites[0]]).toEqual([1, 1]);
  });
  expect((await turn.result).text).toBe("two");
});

test("a repeated request returns its turn, while it is open and after it has ended", async () => {
  const { client, answer } = world();
  const turn = await client.start("hi", { id: "s", key: "k" });
  const whileOpen = await client.start("hi", { id: "s", key: "k" });
  await answer(1, "one");
  const later = await client.start("hi", { id: "s", key: "k" });
  for (const repeated of [turn, whileOpen, later]) {
    expect(repeated.turnId).toBe(turn.turnId);
    expect((await repeated.result).text).toBe("one");
  }
});
