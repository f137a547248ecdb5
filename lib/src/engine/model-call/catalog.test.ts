import { modelRef, parse } from "everturn/model";
import { describe, expect, test } from "vitest";

import { catalogDate, catalogModels, catalogSources } from "./catalog-data.ts";
import { catalog, knownModel } from "./catalog.ts";

const known = catalog();

describe("the data", () => {
  test("says when and where it was found", () => {
    expect(catalogDate).toMatch(/^\d{4}-\d{2}-\d{2}$/);
    expect(catalogSources.length).toBeGreaterThan(0);
    expect(catalogSources.filter((source) => source.includes("?"))).toEqual([]);
  });

  test("has every provider, and a price and limits of every model", () => {
    expect(new Set(catalogModels.map(({ provider }) => provider))).toEqual(new Set(["openai", "anthropic", "gemini"]));
    for (const { context, output, input, outputPrice } of catalogModels) {
      expect([context, output, input, outputPrice]).not.toContain(null);
    }
  });

  test.each(catalogModels.map((entry) => [entry.id, entry] as const))("of %s adds up", (_, entry) => {
    const { context, output, input, cached, cacheWrite, outputPrice } = entry;
    for (const number of [context, output, input, cached, cacheWrite, outputPrice]) {
      expect(number ?? 1).toBeGreaterThan(0);
    }
    expect(output ?? 0).toBeLessThan(context ?? Infinity);
    expect(cached ?? 0).toBeLessThan(input ?? Infinity);
    expect(cacheWrite ?? Infinity).toBeGreaterThan(input ?? 0);
    expect(outputPrice ?? Infinity).toBeGreaterThan(input ?? 0);
  });

  test("names nothing twice", () => {
    const names = catalogModels.flatMap(({ id, aliases }) => [id, ...aliases]);
    expect(names.length).toBe(new Set(names).size);
  });
});

test.each(known.models.map((model) => [model.id, model] as const))("%s is a reference as stored", (_, model) => {
  expect(parse("model_ref", JSON.parse(JSON.stringify(model)))).toEqual({ ok: true, value: model });
});

describe("find", () => {
  test.each([
    ["an id", "gpt-5.4-mini", "gpt-5.4-mini"],
    ["an alias", "gpt-5.6", "gpt-5.6-sol"],
    ["a provider and an id", "anthropic:claude-opus-5-5", "claude-opus-5-5"],
    ["a provider and an alias", "openai:gpt-5.6", "gpt-5.6-sol"],
    ["a date in one word", "claude-opus-4-7-20260416", "claude-opus-4-7"],
    ["a date in three", "gpt-5.4-2026-03-05", "gpt-5.4"],
    ["a date of a longer name", "gpt-5.5-pro-2026-04-23", "gpt-5.5-pro"],
    ["a date of a provider's model", "openai:gpt-6.1-sol-2026-09-29", "gpt-6.1-sol"],
    ["month and year", "gemini-3.1-pro-preview-09-2026", "gemini-3.1-pro-preview"],
    ["a number of a version", "gemini-3.5-flash-001", "gemini-3.5-flash"],
  ])("by %s", (_, name, id) => {
    expect(known.find(name)?.id).toBe(id);
  });

  test("by a reference", () => {
    expect(known.find(modelRef({ id: "gpt-5.5" }))?.limits).toEqual({ context: 1_050_000, output: 128_000 });
    expect(known.find(modelRef({ provider: "openai", id: "gpt-5.5" }))?.id).toBe("gpt-5.5");
    expect(known.find(modelRef({ provider: "azure", id: "gpt-5.5" }))).toBeNull();
    expect(known.find(modelRef({}))).toBeNull();
  });

  test.each([
    "gpt-5.5-turbo",
    "gpt-5.5-20",
    "gpt-5.5-1",
    "gpt-5",
    "claude-opus",
    "fake:m",
    "azure:gpt-5.5",
    "ft:gpt-5.5:a",
    "",
  ])("nothing by %j", (name) => {
    expect(known.find(name)).toBeNull();
  });

  test("only what the given provider has, if the name says none", () => {
    expect(known.find("gpt-5.5", "openai")?.id).toBe("gpt-5.5");
    expect(known.find("gpt-5.5", "azure")).toBeNull();
    expect(known.find("openai:gpt-5.5", "providers")?.id).toBe("gpt-5.5");
    expect(known.find(modelRef({ provider: "openai", id: "gpt-5.5" }), "providers")?.id).toBe("gpt-5.5");
  });
});

describe("extra entries", () => {
  const pricing = { input: 1, output: 2, cacheRead: null, cacheWrite: null };

  test("are found, dated too, and win over what is known here", () => {
    const mine = modelRef({ provider: "openai", id: "gpt-5.5", pricing });
    const own = catalog([mine]);
    expect(own.find("gpt-5.5")).toBe(mine);
    expect(own.find("gpt-5.5-2026-04-23")).toBe(mine);
    expect(own.find("gpt-5.5-pro")?.id).toBe("gpt-5.5-pro");
    expect(own.models.filter(({ id }) => id === "gpt-5.5")).toEqual([mine]);
    expect(own.models.length).toBe(known.models.length);
  });

  test("win over aliases", () => {
    const mine = modelRef({ provider: "openai", id: "gpt-5.6", pricing });
    expect(catalog([mine]).find("gpt-5.6")).toBe(mine);
    expect(catalog([mine]).find("gpt-5.6-sol")?.pricing?.input).toBe(4);
  });

  test("of one provider leave the others' alone", () => {
    const mine = modelRef({ provider: "azure", id: "gpt-5.5", pricing });
    const own = catalog([mine]);
    expect(own.find("azure:gpt-5.5")).toBe(mine);
    expect(own.find("openai:gpt-5.5")?.pricing?.input).toBe(5);
  });

  test("of no provider are everybody's, and may have a colon in their id", () => {
    const mine = modelRef({ id: "llama:8b", pricing });
    const own = catalog([mine]);
    expect(own.find("llama:8b", "ollama")).toBe(mine);
    expect(own.find("ollama:llama:8b")).toBe(mine);
    expect(knownModel("ollama:llama:8b", null, own)).toEqual({ ...mine, provider: "ollama" });
    expect(knownModel("llama:8b", "ollama", own)).toEqual(mine);
  });

  test("without an id are never found", () => {
    expect(catalog([modelRef({ provider: "openai" })]).find("")).toBeNull();
  });
});

describe("knownModel", () => {
  test("makes a reference of a name it knows", () => {
    expect(knownModel("gpt-5.5", "openai", known)).toEqual(known.find("gpt-5.5"));
    expect(knownModel("openai:gpt-5.5", "providers", known)).toEqual(known.find("gpt-5.5"));
  });

  test("asks for the model under the name it was given", () => {
    expect(knownModel("claude-haiku-4-5-20251001", null, known)).toEqual({
      ...known.find("claude-haiku-4-5"),
      id: "claude-haiku-4-5-20251001",
    });
    expect(knownModel("openai:gpt-5.4-2026-03-05", null, known)).toMatchObject({ id: "gpt-5.4-2026-03-05" });
    expect(knownModel("gpt-5.6", null, known)).toMatchObject({ provider: "openai", id: "gpt-5.6" });
  });

  test("leaves what it does not know as it is", () => {
    const mine = modelRef({ provider: "azure", id: "gpt-5.5" });
    expect(knownModel(null, "openai", known)).toBeNull();
    expect(knownModel("fake:m", "fake", known)).toBe("fake:m");
    expect(knownModel("gpt-5.5", "azure", known)).toBe("gpt-5.5");
    expect(knownModel(mine, "openai", known)).toBe(mine);
  });

  test("keeps what a reference says and fills in the rest", () => {
    const entry = known.find("gpt-5.5");
    const mine = modelRef({
      id: "gpt-5.5-2026-04-23",
      capabilities: {
        tools: false,
        jsonNative: null,
        parallelTools: null,
        reasoning: null,
        vision: null,
        files: null,
        imagesEnabled: true,
        supportedImageOperations: ["edit"],
      },
      limits: { context: 1000, output: null },
      pricing: { input: 0, output: null, cacheRead: null, cacheWrite: 7 },
      metadata: { team: "a" },
    });
    expect(knownModel(mine, "openai", known)).toEqual({
      provider: "openai",
      id: "gpt-5.5-2026-04-23",
      capabilities: { ...entry?.capabilities, tools: false, imagesEnabled: true, supportedImageOperations: ["edit"] },
      limits: { context: 1000, output: 128_000 },
      pricing: { input: 0, output: 30, cacheRead: 0.5, cacheWrite: 7 },
      metadata: { team: "a" },
    });
  });
});
