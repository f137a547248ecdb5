// The record of a long turn over HTTP: it is read, rendered and held in memory a page at a time.

import type { HostStorage } from "everturn/runtime";

import { engine, fake, tool } from "everturn";
import { createHandler, inspection } from "everturn/http";
import { memoryStorage, replayTurn, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { sharedSessions } from "../../../test/shared-sessions.ts";

const token = "the-token-of-ada-000";
const stepCount = 40;

/**
 * A session with two turns. The second has 40 steps, each with a result of 20,000 characters, and 20,000 characters of
 * history.
 */
async function world() {
  const memory = memoryStorage();
  const reads = { longest: 0, length: 0, rowsConsidered: 0 };
  const host: HostStorage = {
    ...memory,
    read: async (queries) => {
      const answers = await memory.read(queries);
      // A storage adds up the lengths of all rows within the limit of a query to find where a page ends.
      const rows = await memory.read(queries.map((query) => ({ ...query, maxLength: Number.MAX_SAFE_INTEGER })));
      reads.rowsConsidered += rows.flat().length;
      const length = answers.flat().reduce((sum, { value }) => sum + value.length, 0);
      reads.length += length;
      reads.longest = Math.max(reads.longest, length);
      return answers;
    },
  };
  const look = tool({
    name: "look",
    description: "Looks.",
    schema: { type: "object" },
    handler: () => "\u2028".repeat(20_000),
  });
  const scripts = [
    [{ type: "text", text: "x".repeat(20_000) } as const],
    ...Array.from({ length: stepCount }, () => [{ type: "tool_call", id: "c1", name: "look", arguments: {} } as const]),
    [{ type: "text", text: "Done." } as const],
  ];
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [look] });
  const sessions = runtime({ host, engines: { default: agent } });
  await (
    await sessions.start("hi", { id: "s" })
  ).result;
  const { turnId, result } = await sessions.reply("s", "look", { maxTurns: 100 });
  await result;
  const handler = createHandler({ sessions, ...sharedSessions, auth: [{ token }], records: true });
  const ask = (path: string, method = "GET") =>
    handler(new Request(`http://localhost${path}`, { method, headers: { authorization: `Bearer ${token}` } }));
  Object.assign(reads, { longest: 0, length: 0, rowsConsidered: 0 });
  return { sessions, ask, reads, path: `/sessions/s/turns/${turnId}/record` };
}

test("a record is read in pages, and is the one that the runtime exports", async () => {
  const { sessions, ask, reads, path } = await world();
  const response = await ask(path);
  const text = await response.text();
  expect(reads.longest).toBeLessThan(200_000);
  const rowCount = JSON.parse(text).data.rows.length;
  expect(rowCount).toBeGreaterThan(2 * stepCount);
  expect(reads.rowsConsidered).toBeLessThan(3 * rowCount);
  expect(text.length).toBeGreaterThan(stepCount * 20_000);
  expect(response.headers.get("content-type")).toBe("application/json");
  expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(await inspection(sessions.source).export("s"))));
  expect((await replayTurn(text)).result.haltedReason).toBe("completed");
});

test("pages of a record are read as its client reads them", async () => {
  const { ask, reads, path } = await world();
  const response = await ask(path);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(reads.length).toBeLessThan((stepCount * 20_000) / 2);
  await response.body?.cancel();
  expect((await ask(path, "HEAD")).status).toBe(200);
});

test("a record whose session is deleted while it is read is cut off", async () => {
  const { sessions, ask, path } = await world();
  const response = await ask(path);
  await sessions.delete("s");
  await expect(response.text()).rejects.toThrow("the rest of the response could not be read");
  expect((await ask(path)).status).toBe(404);
});

test("a record of a turn that does not exist is not found", async () => {
  const { ask } = await world();
  expect((await ask("/sessions/s/turns/none/record")).status).toBe(404);
});
