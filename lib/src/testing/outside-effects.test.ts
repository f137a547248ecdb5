// The check of the crash matrix for effects outside of the storage.

import { engine, tool } from "everturn";
import { memoryStorage } from "everturn/runtime";
import { crashMatrix, steadyModel } from "everturn/testing";
import { expect, test } from "vitest";

const model = steadyModel(({ step }) =>
  step === 0 ? [{ type: "tool_call", name: "charge" }] : [{ type: "text", text: "Done." }],
);

/** The violations of a tool whose handler makes a charge, which is identified by `nameOf` its call. */
async function violations(
  replay: "safe" | "never",
  isTold: boolean,
  nameOf: (idempotencyKey: string) => string | null,
  textOf: (name: string) => string = () => "charge",
): Promise<readonly string[]> {
  let charges: string[] = [];
  const charge = tool({
    name: "charge",
    description: "Charges 5 euros.",
    schema: { type: "object" },
    replay,
    handler: (_, { idempotencyKey }) => {
      const name = nameOf(idempotencyKey);
      if (name === null || !charges.includes(name)) charges.push(name ?? "charge");
      return "charged";
    },
  });
  const report = await crashMatrix(
    {
      name: "charging",
      session: "s1",
      engines: () => ({ default: engine({ adapter: model, model: "fake:m", tools: [charge] }) }),
      script: async ({ runtime, untilIdle }) => {
        await untilIdle(runtime.start("Charge me.", { id: "s1", key: "start" }));
      },
      ...(isTold
        ? {
            takeOutsideEffects: () => {
              const taken = charges.map(textOf);
              charges = [];
              return taken;
            },
          }
        : {}),
    },
    { open: async () => ({ host: memoryStorage(), reopen: null, close: async () => undefined }), every: 2 },
  );
  expect(report.kills).toBeGreaterThan(5);
  return report.broken.map(({ what }) => what);
}

test("a safe tool that charges twice and returns the same value is a violation", async () => {
  // Its value, the session and the events are the same.
  expect(await violations("safe", false, () => null)).toEqual([]);
  const found = await violations("safe", true, () => null);
  const [what, ...others] = new Set(found);
  expect(others).toEqual([]);
  expect(what).toMatch(
    /^the outside effect charge happened 2 times, not 1: the tool ran again after the kill; pass .*idempotencyKey/,
  );
});

test("a safe tool whose service knows the idempotency key is none, and neither is a call with an unknown outcome", async () => {
  expect(await violations("safe", true, (key) => key)).toEqual([]);
  expect(await violations("never", true, () => null)).toEqual([]);
});

test("a text that differs in every run is reported as such, and not as a repeated effect", async () => {
  const found = await violations(
    "safe",
    true,
    (key) => key,
    (name) => name,
  );
  expect(found.filter((what) => what.includes("ran again"))).toEqual([]);
  expect(found).toContainEqual(expect.stringContaining("have to be equal in every run"));
});

test("a tool that never runs is a violation if its effects are asked for, and the report says how often tools ran", async () => {
  const pay = tool({
    name: "charge",
    description: "Charges 5 euros.",
    schema: { type: "object" },
    needsApproval: true,
    handler: () => "charged",
  });
  const reportOf = (takesEffects: boolean) =>
    crashMatrix(
      {
        name: "charging without a decision",
        session: "s1",
        engines: () => ({ default: engine({ adapter: model, model: "fake:m", tools: [pay] }) }),
        script: async ({ runtime, untilIdle }) => {
          await untilIdle(runtime.start("Charge me.", { id: "s1", key: "start" }));
        },
        ...(takesEffects ? { takeOutsideEffects: () => [] } : {}),
      },
      { open: async () => ({ host: memoryStorage(), reopen: null, close: async () => undefined }), every: 4 },
    );
  const { broken, toolRuns } = await reportOf(true);
  expect(toolRuns).toBe(0);
  expect(broken).toMatchObject([{ killedAt: [], what: expect.stringContaining("needs a decide in the script") }]);
  expect((await reportOf(false)).broken).toEqual([]);
});
