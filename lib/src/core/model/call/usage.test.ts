import type { Usage } from "everturn";

import { orThrow } from "everturn";
import { addUsage, totalTokens, usage } from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { arbitraries } from "../../../../test/arbitraries.ts";
import { knownCost, noUsage, uncachedInputTokens } from "./usage.ts";

function withoutNegativeCosts(given: Usage): Usage {
  const [inputCost, outputCost, totalCost] = [given.inputCost, given.outputCost, given.totalCost].map(knownCost);
  return { ...given, inputCost: inputCost ?? null, outputCost: outputCost ?? null, totalCost: totalCost ?? null };
}

test("[allm 11] totalTokens returns the reported total, else the sum, else null", () => {
  expect(totalTokens(usage({ totalTokens: 7, inputTokens: 1, outputTokens: 2 }))).toBe(7);
  expect(totalTokens(usage({ inputTokens: 1, outputTokens: 2 }))).toBe(3);
  expect(totalTokens(usage({ inputTokens: 1 }))).toBeNull();
  expect(usage()).toEqual({
    inputTokens: null,
    outputTokens: null,
    cachedInputTokens: null,
    cacheWriteInputTokens: null,
    reasoningTokens: null,
    totalTokens: null,
    inputCost: null,
    outputCost: null,
    totalCost: null,
    toolUsage: {},
    extra: {},
  });
});

test("uncachedInputTokens excludes tokens read from and written to a cache", () => {
  expect(uncachedInputTokens(usage({ inputTokens: 100, cachedInputTokens: 60, cacheWriteInputTokens: 10 }))).toBe(30);
  expect(uncachedInputTokens(usage({ inputTokens: 100 }))).toBe(100);
  expect(uncachedInputTokens(usage({ cachedInputTokens: 5 }))).toBeNull();
});

describe("addUsage", () => {
  test("adds known numbers and keeps unknown ones null", () => {
    const left = usage({ inputTokens: 10, outputTokens: 1, totalCost: 0.5, toolUsage: { web_search: 1 } });
    const right = usage({ inputTokens: 5, reasoningTokens: 2, toolUsage: { web_search: 2, code: 1 } });
    expect(orThrow(addUsage(left, right))).toEqual(
      usage({
        inputTokens: 15,
        outputTokens: 1,
        reasoningTokens: 2,
        totalTokens: 16,
        totalCost: 0.5,
        toolUsage: { web_search: 3, code: 1 },
      }),
    );
  });

  test("adds the tokens of each modality over the steps of a turn", () => {
    const first = usage({
      extra: {
        promptTokensDetails: [
          { modality: "TEXT", tokenCount: 10 },
          { modality: "AUDIO", tokenCount: 100 },
        ],
        cache_creation: { ephemeral_5m_input_tokens: 3 },
        "prompt_tokens_details.audio_tokens": 7,
        service_tier: "standard",
        iterations: [{ type: "message", input_tokens: 1 }],
      },
    });
    const second = usage({
      extra: {
        promptTokensDetails: [
          { modality: "AUDIO", tokenCount: 50 },
          { modality: "IMAGE", tokenCount: 1 },
        ],
        cache_creation: { ephemeral_5m_input_tokens: 4, ephemeral_1h_input_tokens: 1 },
        "prompt_tokens_details.audio_tokens": 5,
        service_tier: "priority",
        iterations: [{ type: "message", input_tokens: 2 }],
      },
    });
    const sum = orThrow(addUsage(first, second));
    expect(sum.extra).toEqual({
      promptTokensDetails: [
        { modality: "TEXT", tokenCount: 10 },
        { modality: "AUDIO", tokenCount: 150 },
        { modality: "IMAGE", tokenCount: 1 },
      ],
      cache_creation: { ephemeral_5m_input_tokens: 7, ephemeral_1h_input_tokens: 1 },
      "prompt_tokens_details.audio_tokens": 12,
      service_tier: "priority",
      // Lists of other items are not joined: they would grow with every step.
      iterations: [{ type: "message", input_tokens: 2 }],
    });
    expect(orThrow(addUsage(noUsage, first)).extra).toEqual(first.extra);
  });

  test("a count of a modality that overflows to Infinity is a failure", () => {
    const large = usage({ extra: { details: [{ modality: "AUDIO", tokenCount: Number.MAX_VALUE }] } });
    expect(addUsage(large, large)).toMatchObject({
      failure: { issues: [{ path: ["extra", "details", "0", "tokenCount"], code: "overflow" }] },
    });
  });

  test("includes a side without a reported total in the total", () => {
    const sum = addUsage(usage({ inputTokens: 10, outputTokens: 1 }), usage({ inputTokens: 500 }));
    expect(orThrow(sum)).toMatchObject({ inputTokens: 510, outputTokens: 1, totalTokens: 511 });
  });

  test("noUsage is neutral, and addition of tokens is commutative", () => {
    fc.assert(
      fc.property(arbitraries.usage, arbitraries.usage, (given, right) => {
        // A negative cost is dropped; the next test has it.
        const left = withoutNegativeCosts(given);
        const added = addUsage(left, right);
        // Costs are generated from all finite numbers, so some sums overflow.
        fc.pre(added.ok);
        const sum = orThrow(added);
        const other = orThrow(addUsage(right, left));
        expect(sum.inputTokens).toBe(other.inputTokens);
        expect(sum.totalTokens).toBe(other.totalTokens);
        const same = orThrow(addUsage(left, noUsage));
        expect({ ...same, totalTokens: 0 }).toEqual({ ...left, totalTokens: 0 });
        if (totalTokens(left) !== null) expect(same.totalTokens).toBe(totalTokens(left));
      }),
    );
  });

  test("a negative cost is unknown, so it does not reduce a sum", () => {
    const refund = usage({ inputCost: -5, outputCost: 0, totalCost: -5 });
    const sum = orThrow(addUsage(usage({ totalCost: 2 }), refund));
    expect(sum).toMatchObject({ inputCost: null, outputCost: 0, totalCost: 2 });
    expect(orThrow(addUsage(refund, noUsage)).totalCost).toBeNull();
  });

  test("[lash 24] a token sum beyond the safe integers is a failure that names the field", () => {
    const most = usage({ reasoningTokens: Number.MAX_SAFE_INTEGER });
    const result = addUsage(most, usage({ reasoningTokens: 1 }));
    expect(result).toMatchObject({
      ok: false,
      failure: { reason: "invalid_usage", issues: [{ path: ["reasoningTokens"], code: "overflow" }] },
    });
  });

  test("[lash 24] a cost or count that overflows to Infinity is a failure", () => {
    const dear = usage({ totalCost: Number.MAX_VALUE, toolUsage: { search: Number.MAX_VALUE } });
    expect(addUsage(dear, dear)).toMatchObject({
      failure: { issues: [{ path: ["totalCost"] }, { path: ["toolUsage", "search"] }] },
    });
  });

  test("[lash 24] a computed total that overflows is a failure", () => {
    const half = usage({ inputTokens: Number.MAX_SAFE_INTEGER - 1, outputTokens: 2 });
    expect(addUsage(half, noUsage)).toMatchObject({
      failure: { issues: [{ path: ["totalTokens"], code: "overflow" }] },
    });
  });
});
