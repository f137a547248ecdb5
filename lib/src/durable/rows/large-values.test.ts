// Large texts are stored once for each session and read back unchanged.

import type { Json } from "../../core/model/index.ts";

import { describe, expect, test } from "vitest";

import { fake } from "../../core/adapters/index.ts";
import { engine } from "../../core/engine/internal.ts";
import { memoryStorage } from "../host/memory/memory.ts";
import { runtime } from "../index.ts";
import { parsedValue, rowLength, withLargeValues } from "./large-values.ts";
import { readValue } from "./stored.ts";
import { tables } from "./tables.ts";

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

  /** A storage that counts the texts that are read from it. */
  function countedStorage() {
    const inner = memoryStorage();
    const counts = { texts: 0 };
    const read: typeof inner.read = (queries) => {
      counts.texts += queries.filter(({ table }) => table === "large").length;
      return inner.read(queries);
    };
    const storage = withLargeValues({ ...inner, read });
    const rowOf = async (session: string) => {
      const [[row] = []] = await storage.read([{ table: "sessions", prefix: ["t", session] }]);
      if (row === undefined) throw new Error("the row is gone");
      return row;
    };
    return { inner, counts, storage, rowOf };
  }

  test("reads a text once for many readers, and neither renders nor parses it", async () => {
    const { counts, storage, rowOf } = countedStorage();
    await storage.write({ checks: [], removals: [], puts: [put("a", { text: long })] });
    const rows = await Promise.all(Array.from({ length: 4 }, async () => rowOf("a")));
    expect(counts.texts).toBe(4);
    for (let count = 0; count < 100; count += 1) rows.push(await rowOf("a"));
    expect(counts.texts).toBe(4);
    for (const row of rows) {
      expect(parsedValue(row)).toBe(parsedValue(row));
      expect(rowLength(row)).toBeGreaterThan(long.length);
      expect(row.value).toBe(put("a", { text: long }).value);
    }
  });

  test("keeps a bounded length of texts in memory: those that were used last", async () => {
    const { counts, storage, rowOf } = countedStorage();
    const texts = Array.from({ length: 9 }, (_, index) => `${index}`.repeat(1_000_000));
    for (const [index, text] of texts.entries())
      await storage.write({ checks: [], removals: [], puts: [put(`s${index}`, { text })] });
    for (const index of texts.keys()) await rowOf(`s${index}`);
    expect(counts.texts).toBe(9);
    await rowOf("s8");
    expect(counts.texts).toBe(9);
    await rowOf("s0");
    expect(counts.texts).toBe(10);
  });

  test("keeps no text of a deleted session", async () => {
    const { inner, storage, rowOf } = countedStorage();
    await storage.write({ checks: [], removals: [], puts: [put("a", { text: long })] });
    const [[reference] = []] = await inner.read([{ table: "sessions", prefix: ["t", "a"] }]);
    await rowOf("a");
    await storage.write({ checks: [], removals: [{ table: "large", prefix: ["t", "a"] }], puts: [] });
    expect((await rowOf("a")).value).toBe(reference?.value);
  });
});

test("a session whose large text is missing does not prevent others from being listed", async () => {
  const host = memoryStorage();
  const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Done." }] }), model: "fake:m" });
  const sessions = runtime({ host, engines: { default: agent } });
  for (const id of ["a", "b"]) await (await sessions.start("hi", { id, metadata: { note: `${id}${long}` } })).result;
  await host.write({ checks: [], removals: [{ table: "large", prefix: ["", "a"] }], puts: [] });
  // Another process has not read the text.
  const other = runtime({ host, engines: { default: agent } });
  expect((await other.list()).items.map(({ id }) => id)).toEqual(["b"]);
  await expect(other.get("a")).rejects.toMatchObject({ reason: "corrupt_row" });
  await sessions.delete("a");
  expect(await sessions.get("a")).toBeNull();
});

test.each([20_000, 60_000, 2_000_000])(
  "a reply of %i characters takes at most three times its size, and is removed with its session",
  async (length) => {
    const text = "word ".repeat(length / 5);
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
    // Rows without the text take a few KB.
    expect(await size()).toBeLessThan(3 * text.length + 10_000);
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
  },
);
