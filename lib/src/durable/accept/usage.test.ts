// The usage of a session with many ledger lines.

import type { HostStorage } from "everturn/runtime";

import { engine, fake } from "everturn";
import { usage } from "everturn/advanced";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { writeValue } from "../rows/stored.ts";

test("is added up in pages, and has every line once", async () => {
  const memory = memoryStorage();
  const most = { rows: 0 };
  const host: HostStorage = {
    ...memory,
    read: async (queries) => {
      const found = await memory.read(queries);
      for (const rows of found) most.rows = Math.max(most.rows, rows.length);
      return found;
    },
  };
  const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello." }] }), model: "fake:m" });
  const sessions = runtime({ host, engines: { default: agent } });
  await (
    await sessions.start("hi", { id: "s1" })
  ).result;
  const before = await sessions.usage("s1");
  // Turns of 300 lines: pages end inside of a turn.
  const value = writeValue("ledger", { source: "model", model: "m", usage: usage({ inputTokens: 1 }) });
  const puts = Array.from({ length: 2700 }, (_, index) => ({
    table: "ledger" as const,
    key: ["", "s1", `turn-${String(Math.floor(index / 300))}`, `${index % 300}/model`],
    tag: 0,
    value,
  }));
  await memory.write({ checks: [], removals: [], puts });
  const { total, lines } = await sessions.usage("s1");
  expect((total.inputTokens ?? 0) - (before.total.inputTokens ?? 0)).toBe(2700);
  expect(lines.find(({ model }) => model === "m")?.usage.inputTokens).toBe(2700);
  expect(most.rows).toBeLessThanOrEqual(1000);
});
