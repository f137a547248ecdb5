// The cache of message histories: its bounds, and what storing a history costs.

import type { TurnHistory } from "../../core/kernel/internal.ts";

import { engine, user, messageText } from "everturn";
import { memoryStorage } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { replies, sessionsOf } from "../../../test/runtime/sessions.ts";
import { appendHistory, startHistory } from "../../core/kernel/internal.ts";
import { HistoryCache } from "./history-cache.ts";

const mebi = 1_048_576;
/** A history of one message. Its digest is not computed: that takes a second for many megabytes. */
const historyOf = (length: number): TurnHistory => ({
  entries: [user("x".repeat(length))],
  length: 1,
  digest: `${length}`,
});

describe("the cache of histories", () => {
  test("is bounded in characters: the least recently stored histories are dropped", () => {
    const cache = new HistoryCache();
    const histories = Array.from({ length: 20 }, () => historyOf(4 * mebi));
    for (const [index, history] of histories.entries()) cache.keep(`s${index}`, history);
    expect(cache.size).toBeLessThanOrEqual(32 * mebi);
    const found = histories.map((history, index) => cache.find(`s${index}`, 1, history.digest) !== null);
    expect(found.lastIndexOf(false)).toBe(12);
    expect(found.filter(Boolean)).toHaveLength(7);
  });

  test("finds a history by its digest, and not by its length alone", () => {
    const cache = new HistoryCache();
    const history = appendHistory(startHistory([]), [user("one")]);
    const other = appendHistory(startHistory([]), [user("two")]);
    cache.keep("s", history);
    expect(cache.find("s", 1, history.digest)).toBe(history);
    expect(cache.find("s", 1, other.digest)).toBeNull();
  });

  test("is not used for a session that another process has deleted and started again", async () => {
    const host = memoryStorage();
    const adapter = replies("to the old one", "to the new one", "to the next one");
    const of = engine({ adapter, model: "fake:m" });
    const [first, second] = [sessionsOf(of, { host }), sessionsOf(of, { host })];
    await (
      await first.start("old", { id: "s" })
    ).result;
    await second.delete("s");
    await (
      await second.start("new", { id: "s" })
    ).result;
    await (
      await first.reply("s", "next")
    ).result;
    const asked = adapter.calls.at(-1)?.request.messages.map(messageText);
    expect(asked).toEqual(["new", "to the new one", "next"]);
  });

  test("does not store a history that is longer than all of it, and keeps the others", () => {
    const cache = new HistoryCache();
    const [small, large] = [historyOf(10), historyOf(33 * mebi)];
    cache.keep("small", small);
    cache.keep("large", large);
    expect(cache.find("large", 1, large.digest)).toBeNull();
    expect(cache.find("small", 1, small.digest)).toBe(small);
  });

  test("counts a history that grows once", () => {
    const cache = new HistoryCache();
    let history = historyOf(mebi);
    for (let count = 0; count < 10; count += 1) {
      cache.keep("s", history);
      history = appendHistory(history, [user("y".repeat(1000))]);
    }
    expect(cache.size).toBeGreaterThan(mebi + 9000);
    expect(cache.size).toBeLessThan(mebi + 12_000);
    cache.forget("s");
    expect(cache.size).toBe(0);
  });

  test("reads a history once for callers that need it at the same time, also if the read fails", async () => {
    const cache = new HistoryCache();
    const history = historyOf(10);
    let reads = 0;
    const load = (read: () => Promise<typeof history>) =>
      cache.load("s", history, () => {
        reads += 1;
        return read();
      });
    const failure = new Error("the storage is busy");
    const failed = await Promise.allSettled([1, 2, 3].map(() => load(() => Promise.reject(failure))));
    expect(failed.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    expect(reads).toBe(1);
    const loaded = await Promise.all([1, 2, 3].map(() => load(async () => history)));
    expect(loaded.every((one) => one === history)).toBe(true);
    expect(reads).toBe(2);
  });
});
