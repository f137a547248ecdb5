// Large texts are stored once for each session and read back unchanged.

import type { Json } from "../../model/index.ts";

import { describe, expect, test } from "vitest";

import { fake } from "../../adapters/index.ts";
import { engine } from "../../engine/index.ts";
import { memoryStorage } from "../../host/memory/index.ts";
import { runtime } from "../index.ts";
import { storageTables as tables } from "../index.ts";
import { withLargeValues } from "./large-values.ts";
import { readValue } from "./stored.ts";

const long = "0123456789abcdef".repeat(8192);
const other = `${long}!`;

const put = (session: string, data: Json) =>
  ({ table: "sessions", key: ["t", session], tag: 1, value: JSON.stringify({ version: 4, data }) }) as const;

describe("a storage with large values", () => {
  test("returns every row as it was written", async () => {
    const inner = memoryStorage();
    const storage = withLargeValues(inner);
    const rows = [
      put("a", { text: long, list: [1, { deep: other }, long], none: null }),
      put("b", { text: "short" }),
      put("c", { "": long, "a.b": [long] }),
    ];
    await storage.write({ checks: [], removals: [], puts: rows });
    const [read = []] = await storage.read([{ table: "sessions", prefix: ["t"] }]);
    expect(read.map(({ value }) => value)).toEqual(rows.map(({ value }) => value));
    const [stored = [], texts = []] = await inner.read([
      { table: "sessions", prefix: ["t"] },
      { table: "large", prefix: ["t"] },
    ]);
    expect(stored.map(({ value }) => value.length < 1000)).toEqual([true, true, true]);
    // Each text once for each session.
    expect(texts.map(({ key }) => key[1])).toEqual(["a", "a", "c"]);
  });

  test("reports a row whose text is missing as corrupt, and reads the other rows", async () => {
    const inner = memoryStorage();
    const storage = withLargeValues(inner);
    const whole = put("b", { text: long });
    await storage.write({ checks: [], removals: [], puts: [put("a", { text: long }), whole] });
    await inner.write({ checks: [], removals: [{ table: "large", prefix: ["t", "a"] }], puts: [] });
    const [[broken, read] = []] = await storage.read([{ table: "sessions", prefix: ["t"] }]);
    expect(read?.value).toBe(whole.value);
    if (broken === undefined) throw new Error("the row is gone");
    expect(() => readValue("sessions", broken)).toThrow(/a large text that it refers to is missing/);
  });
});

test("a session whose large text is missing does not prevent others from being listed", async () => {
  const host = memoryStorage();
  const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Done." }] }), model: "fake:m" });
  const sessions = runtime({ host, engines: { default: agent } });
  for (const id of ["a", "b"]) await (await sessions.start("hi", { id, metadata: { note: `${id}${long}` } })).result;
  await host.write({ checks: [], removals: [{ table: "large", prefix: ["", "a"] }], puts: [] });
  expect((await sessions.list()).items.map(({ id }) => id)).toEqual(["b"]);
  await expect(sessions.get("a")).rejects.toMatchObject({ reason: "corrupt_row" });
  await sessions.delete("a");
  expect(await sessions.get("a")).toBeNull();
});

test("a large reply takes at most three times its size, and is removed with its session", async () => {
  const text = "word ".repeat(400_000);
  const host = memoryStorage();
  const agent = engine({ adapter: fake({ script: [{ type: "text", text }] }), model: "fake:m" });
  const sessions = runtime({ host, engines: { default: agent } });
  const turn = await sessions.start("hi", { id: "s" });
  expect((await turn.result).text).toBe(text);
  const size = async () => {
    const names = Object.keys(tables).filter((name): name is keyof typeof tables => Object.hasOwn(tables, name));
    const rows = await host.read(names.map((table) => ({ table, prefix: [] })));
    return rows.flat().reduce((sum, { value }) => sum + value.length, 0);
  };
  expect(await size()).toBeLessThan(3 * text.length);
  // Another process reads the same value.
  const reader = runtime({ host, engines: { default: agent }, drive: false });
  expect((await reader.messages("s")).items.at(-1)).toMatchObject({ role: "assistant", content: text });
  const events: string[] = [];
  for await (const { event } of reader.events("s", { follow: false })) {
    if (event.type === "message_completed") events.push(String(event.message.content));
  }
  expect(events).toEqual([text]);
  await sessions.delete("s");
  expect(await size()).toBeLessThan(10_000);
});
