// The total time of a code cell: it is limited over all runs of the cell, in memory and over the turns of a durable
// session.

import type { CellResult, CellRun, CodeExecutor } from "../../engine/internal.ts";

import { chat, engine, fake, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { expect, test } from "vitest";

const code = "```javascript\nfor (;;) await look({});\n```";
const cell = [{ type: "text", text: code } as const];
const answer = [{ type: "text", text: "I stopped." } as const];

/**
 * An executor whose cells make one call after the other. `ranMs`: what it reports for each run. `limits` lists the time
 * limit of each run.
 */
function endless(ranMs: number | null, onRun: (run: CellRun) => Promise<CellResult | null> = async () => null) {
  const limits: number[] = [];
  const executor: CodeExecutor = {
    name: "endless",
    version: "1",
    language: "javascript",
    run: async (run) => {
      limits.push(run.limits.timeMs);
      const other = await onRun(run);
      if (other !== null) return other;
      return { type: "calls", calls: [{ name: "look", arguments: {} }], ...(ranMs === null ? {} : { ranMs }) };
    },
  };
  return { executor, limits };
}

const look = (needsApproval = false) =>
  tool({ name: "look", description: "Looks.", schema: { type: "object" }, needsApproval, handler: () => "seen" });

const exceeded = "more than 25000 milliseconds in all runs of the cell (limits.totalTimeMs)";

test("a cell ends when its runs have taken the total time, and the model reads why", async () => {
  const { executor, limits } = endless(8000);
  const adapter = fake({ scripts: [cell, answer] });
  const protocol = { type: "code", executor, limits: { timeMs: 10_000, totalTimeMs: 25_000 } } as const;
  const { finalResponse } = await chat(engine({ adapter, model: "fake:m", tools: [look()], protocol }), "go");
  // The fourth run gets what is left.
  expect(limits).toEqual([10_000, 10_000, 9000, 1000]);
  expect(finalResponse?.outputText).toBe("I stopped.");
  expect(JSON.stringify(adapter.calls[1]?.request.messages.at(-1))).toContain(exceeded);
});

test("the limit holds by default: 120,000 milliseconds", async () => {
  const { executor, limits } = endless(9999);
  const adapter = fake({ scripts: [cell, answer] });
  const agent = engine({ adapter, model: "fake:m", tools: [look()], protocol: { type: "code", executor } });
  await chat(agent, "go");
  expect(limits).toHaveLength(13);
});

test("a run that ends because the rest of the total time is over names the total", async () => {
  const clock = handClock();
  const { executor } = endless(24_000, async ({ limits: { timeMs }, calls }) => {
    if (calls.length === 0) return null;
    await clock.sleep(timeMs);
    return { type: "failed", reason: "limit_exceeded", message: `more than ${timeMs} milliseconds (limits.timeMs)` };
  });
  const adapter = fake({ scripts: [cell, answer] });
  const protocol = { type: "code", executor, limits: { totalTimeMs: 25_000 } } as const;
  const run = chat(engine({ adapter, model: "fake:m", tools: [look()], protocol, clock }), "go");
  await clock.advance(1000);
  await run;
  expect(JSON.stringify(adapter.calls[1]?.request.messages.at(-1))).toContain(exceeded);
});

test("an executor that reports no time is measured", async () => {
  const clock = handClock();
  const { executor, limits } = endless(null, async () => {
    await clock.sleep(8000);
    return null;
  });
  const adapter = fake({ scripts: [cell, answer] });
  const protocol = { type: "code", executor, limits: { totalTimeMs: 25_000 } } as const;
  const run = chat(engine({ adapter, model: "fake:m", tools: [look()], protocol, clock }), "go");
  await clock.advance(100_000);
  await run;
  expect(limits).toEqual([10_000, 10_000, 9000, 1000]);
});

test("the time of a cell that waits for a person counts in the turns that continue it", async () => {
  const { executor, limits } = endless(8000);
  const adapter = fake({ scripts: [cell, answer] });
  const protocol = { type: "code", executor, limits: { totalTimeMs: 25_000 } } as const;
  const agent = engine({ adapter, model: "fake:m", tools: [look(true)], protocol });
  const host = memoryStorage();
  // Each turn is driven by another process.
  const process = () => runtime({ host, engines: { default: agent } });
  let turn = await process().start("go", { id: "s1" });
  for (let count = 0; count < 4; count += 1) {
    const [waiting] = (await turn.result).session.pendingToolCalls;
    turn = await process().decide("s1", waiting?.id ?? "", { type: "approve" });
  }
  expect((await turn.result).text).toBe("I stopped.");
  expect(limits).toEqual([10_000, 10_000, 9000, 1000]);
});
