// Large structured outputs are validated one at a time, tenants round robin, with the verdict of their schema.

import type { JsonSchema } from "../../core/engine/internal.ts";
import type { Json } from "../../core/model/internal.ts";

import { describe, expect, test } from "vitest";

import { fake } from "../../core/adapters/index.ts";
import { engine } from "../../core/engine/internal.ts";
import { checkValue } from "../../core/engine/internal.ts";
import { planRun } from "../../core/run/internal.ts";
import { memoryStorage } from "../host/memory/memory.ts";
import { runtime } from "../index.ts";
import { OutputChecks } from "./output-checks.ts";

const strings = { type: "array", items: { type: "string" } };
const large = Array.from({ length: 2000 }, (_, index) => `item ${index}`);
const agent = engine({ adapter: fake({ script: [] }), model: "fake:m" });

/** The function that validates outputs of a turn of the tenant. */
function checkOf(checks: OutputChecks, tenant: string, schema: JsonSchema): (value: Json) => Promise<unknown> {
  const plan = planRun(agent, "hi", { output: schema, requestId: "t" }, { verb: "chat" });
  const { output } = checks.limited(plan, tenant);
  if (output === null) throw new Error("the plan has no output");
  return (value) => checkValue(output.schema, value);
}

describe("the validation of an output", () => {
  test.each([
    ["a valid small one", ["a"]],
    ["an invalid small one", ["a", 1, { b: null }]],
    ["a valid large one", large],
    ["an invalid large one", [...large, 1, 2]],
    ["another type", { a: 1 }],
  ])("has the verdict of the schema: %s", async (_, value) => {
    const check = checkOf(new OutputChecks(), "a", strings);
    expect(await check(value)).toEqual(await checkValue(strings, value));
  });

  test("leaves the event loop to others between two large ones, and tenants have them round robin", async () => {
    const checks = new OutputChecks();
    let turn = 0;
    const ticking = { isOver: false };
    const tick = () => {
      turn += 1;
      if (!ticking.isOver) setImmediate(tick);
    };
    setImmediate(tick);
    const ends: { readonly tenant: string; readonly turn: number }[] = [];
    const run = async (tenant: string) => {
      await checkOf(checks, tenant, strings)(large);
      ends.push({ tenant, turn });
    };
    await Promise.all([run("a"), run("a"), run("a"), run("a"), run("b")]);
    ticking.isOver = true;
    expect(ends.slice(0, 3).map(({ tenant }) => tenant)).toContain("b");
    expect(new Set(ends.map((end) => end.turn)).size).toBe(5);
  });

  test("does not wait if the output is small or the schema is code of the program", async () => {
    const checks = new OutputChecks();
    const plan = planRun(agent, "hi", { requestId: "t" }, { verb: "chat" });
    expect(checks.limited(plan, "a")).toBe(plan);
    const waiting = checkOf(checks, "a", strings)(large);
    const state = { isOver: false };
    void waiting.then(() => (state.isOver = true));
    await checkOf(checks, "a", strings)(["small"]);
    expect(state.isOver).toBe(false);
    await waiting;
  });
});

test("a durable turn returns a large output, and repairs one that is invalid", async () => {
  const answers = [[...large, 1], large].map((value) => [{ type: "text", text: JSON.stringify(value) } as const]);
  const model = engine({ adapter: fake({ scripts: answers }), model: "fake:m" });
  const sessions = runtime({ host: memoryStorage(), engines: { default: model } });
  const end = await (await sessions.start("hi", { output: strings, repair: 1 })).result;
  expect(end.output).toEqual(large);
});
