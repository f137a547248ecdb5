import { chat, engine, fake, tool, modelRef, parse } from "everturn";
import { mergeOpts, resolveModel } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { catalogDate, catalogModels, catalogSources } from "./catalog-data.ts";
import { catalog, withCatalogData } from "./catalog.ts";

const builtIn = catalog();

describe("the built-in data", () => {
  test("has a date and a list of sources without addresses that carry a query", () => {
    expect(catalogDate).toMatch(/^\d{4}-\d{2}-\d{2}$/);
    expect(catalogSources.length).toBeGreaterThan(0);
    expect(catalogSources.filter((source) => source.includes("?"))).toEqual([]);
  });

  test("covers every provider, with prices and limits for every model", () => {
    expect(new Set(catalogModels.map(({ provider }) => provider))).toEqual(new Set(["openai", "anthropic", "gemini"]));
    for (const { context, output, input, outputPrice } of catalogModels) {
      expect([context, output, input, outputPrice]).not.toContain(null);
    }
  });

  test.each(catalogModels.map((entry) => [entry.id, entry] as const))(
    "is plausible for %s: positive, output below context, cached below plain input",
    (_, entry) => {
      const { context, output, input, cached, cacheWrite, outputPrice } = entry;
      for (const number of [context, output, input, cached, cacheWrite, outputPrice]) {
        expect(number ?? 1).toBeGreaterThan(0);
      }
      expect(output ?? 0).toBeLessThan(context ?? Infinity);
      expect(cached ?? 0).toBeLessThan(input ?? Infinity);
      expect(cacheWrite ?? Infinity).toBeGreaterThan(input ?? 0);
      expect(outputPrice ?? Infinity).toBeGreaterThan(input ?? 0);
    },
  );

  test("uses every id and alias once", () => {
    const names = catalogModels.flatMap(({ id, aliases }) => [id, ...aliases]);
    expect(names.length).toBe(new Set(names).size);
  });
});

test.each(builtIn.models.map((model) => [model.id, model] as const))(
  "%s survives serialization as a model reference",
  (_, model) => {
    expect(parse("model_ref", JSON.parse(JSON.stringify(model)))).toEqual({ ok: true, value: model });
  },
);

describe("[allm 117] find", () => {
  test.each([
    ["an id", "gpt-5.4-mini", "gpt-5.4-mini"],
    ["an alias", "gpt-5.6", "gpt-5.6-sol"],
    ["a provider and an id", "anthropic:claude-opus-5-5", "claude-opus-5-5"],
    ["a provider and an alias", "openai:gpt-5.6", "gpt-5.6-sol"],
    ["an id with a date without hyphens", "claude-opus-4-7-20260416", "claude-opus-4-7"],
    ["an id with a date with hyphens", "gpt-5.4-2026-03-05", "gpt-5.4"],
    ["a dated id whose shorter prefix is another model", "gpt-5.5-pro-2026-04-23", "gpt-5.5-pro"],
    ["a provider and a dated id", "openai:gpt-6.1-sol-2026-09-29", "gpt-6.1-sol"],
    ["an id with month and year", "gemini-3.1-pro-preview-09-2026", "gemini-3.1-pro-preview"],
    ["an id with a version number", "gemini-3.5-flash-001", "gemini-3.5-flash"],
  ])("finds a model by %s", (_, name, id) => {
    expect(builtIn.find(name)?.id).toBe(id);
  });

  test("finds a model by a reference", () => {
    expect(builtIn.find(modelRef({ id: "gpt-5.5" }))?.limits).toEqual({ context: 1_050_000, output: 128_000 });
    expect(builtIn.find(modelRef({ provider: "openai", id: "gpt-5.5" }))?.id).toBe("gpt-5.5");
    expect(builtIn.find(modelRef({ provider: "azure", id: "gpt-5.5" }))).toBeNull();
    expect(builtIn.find(modelRef({}))).toBeNull();
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
  ])("does not guess a model for the name %j", (name) => {
    expect(builtIn.find(name)).toBeNull();
  });

  test("searches only the given provider, unless the name contains one", () => {
    expect(builtIn.find("gpt-5.5", "openai")?.id).toBe("gpt-5.5");
    expect(builtIn.find("gpt-5.5", "azure")).toBeNull();
    expect(builtIn.find("openai:gpt-5.5", "providers")?.id).toBe("gpt-5.5");
    expect(builtIn.find(modelRef({ provider: "openai", id: "gpt-5.5" }), "providers")?.id).toBe("gpt-5.5");
  });
});

describe("added entries", () => {
  const pricing = { input: 1, output: 2, cacheRead: null, cacheWrite: null };

  test("replace the built-in entry of the same model, also for dated ids", () => {
    const added = modelRef({ provider: "openai", id: "gpt-5.5", pricing });
    const extended = catalog([added]);
    expect(extended.find("gpt-5.5")).toBe(added);
    expect(extended.find("gpt-5.5-2026-04-23")).toBe(added);
    expect(extended.find("gpt-5.5-pro")?.id).toBe("gpt-5.5-pro");
    expect(extended.models.filter(({ id }) => id === "gpt-5.5")).toEqual([added]);
    expect(extended.models.length).toBe(builtIn.models.length);
  });

  test("take precedence over built-in aliases", () => {
    const added = modelRef({ provider: "openai", id: "gpt-5.6", pricing });
    expect(catalog([added]).find("gpt-5.6")).toBe(added);
    expect(catalog([added]).find("gpt-5.6-sol")?.pricing?.input).toBe(4);
  });

  test("of one provider do not replace those of another", () => {
    const added = modelRef({ provider: "azure", id: "gpt-5.5", pricing });
    const extended = catalog([added]);
    expect(extended.find("azure:gpt-5.5")).toBe(added);
    expect(extended.find("openai:gpt-5.5")?.pricing?.input).toBe(5);
  });

  test("without a provider match every provider, and their id may contain a colon", () => {
    const added = modelRef({ id: "llama:8b", pricing });
    const extended = catalog([added]);
    expect(extended.find("llama:8b", "ollama")).toBe(added);
    expect(extended.find("ollama:llama:8b")).toBe(added);
    expect(withCatalogData("ollama:llama:8b", null, extended)).toEqual({ ...added, provider: "ollama" });
    expect(withCatalogData("llama:8b", "ollama", extended)).toEqual(added);
  });

  test("without an id never match", () => {
    expect(catalog([modelRef({ provider: "openai" })]).find("")).toBeNull();
  });
});

describe("withCatalogData", () => {
  test("converts a known name to a complete reference", () => {
    expect(withCatalogData("gpt-5.5", "openai", builtIn)).toEqual(builtIn.find("gpt-5.5"));
    expect(withCatalogData("openai:gpt-5.5", "providers", builtIn)).toEqual(builtIn.find("gpt-5.5"));
  });

  test("keeps the given id of a dated model or an alias", () => {
    expect(withCatalogData("claude-haiku-4-5-20251001", null, builtIn)).toEqual({
      ...builtIn.find("claude-haiku-4-5"),
      id: "claude-haiku-4-5-20251001",
    });
    expect(withCatalogData("openai:gpt-5.4-2026-03-05", null, builtIn)).toMatchObject({ id: "gpt-5.4-2026-03-05" });
    expect(withCatalogData("gpt-5.6", null, builtIn)).toMatchObject({ provider: "openai", id: "gpt-5.6" });
  });

  test("returns an unknown model unchanged", () => {
    const added = modelRef({ provider: "azure", id: "gpt-5.5" });
    expect(withCatalogData(null, "openai", builtIn)).toBeNull();
    expect(withCatalogData("fake:m", "fake", builtIn)).toBe("fake:m");
    expect(withCatalogData("gpt-5.5", "azure", builtIn)).toBe("gpt-5.5");
    expect(withCatalogData(added, "openai", builtIn)).toBe(added);
  });

  test("keeps the fields that a reference sets and fills in the others", () => {
    const entry = builtIn.find("gpt-5.5");
    const added = modelRef({
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
    expect(withCatalogData(added, "openai", builtIn)).toEqual({
      provider: "openai",
      id: "gpt-5.5-2026-04-23",
      capabilities: { ...entry?.capabilities, tools: false, imagesEnabled: true, supportedImageOperations: ["edit"] },
      limits: { context: 1000, output: 128_000 },
      pricing: { input: 0, output: 30, cacheRead: 0.5, cacheWrite: 7 },
      metadata: { team: "a" },
    });
  });
});

describe("the catalog of an engine", () => {
  const usage = { inputTokens: 1_000_000, outputTokens: 0 };
  const say = { type: "text", text: "Hello." } as const;
  const priceOf = (model: string) => builtIn.find(model)?.pricing?.input ?? Number.NaN;

  test("is the built-in one by default, so that a run has a cost", async () => {
    const run = (fields: object) =>
      chat(engine({ adapter: fake({ provider: "openai", script: [say], usage }), ...fields }), "hi");
    expect((await run({ model: "gpt-6.1-sol" })).usage.totalCost).toBe(priceOf("gpt-6.1-sol"));
    expect((await run({ model: "openai:gpt-6.1-sol" })).usage.totalCost).toBe(priceOf("gpt-6.1-sol"));
    expect((await run({ model: "gpt-unknown" })).usage.totalCost).toBeNull();
    expect((await run({ model: "gpt-6.1-sol", catalog: null })).usage.totalCost).toBeNull();
  });

  test("prices a fallback with an adapter of its own", async () => {
    const adapter = fake({ provider: "openai", script: [{ type: "error", reason: "provider_unavailable" }] });
    const other = fake({ provider: "anthropic", script: [say], usage });
    const of = engine({
      adapter,
      model: "gpt-6.1-sol",
      retry: false,
      fallback: [{ adapter: other, model: "claude-sonnet-5-5" }],
    });
    const result = await chat(of, "hi", { budgets: { cost: 1000 } });
    expect(result.usage.totalCost).toBe(priceOf("claude-sonnet-5-5"));
  });

  test("prices a model that prepareStep sets", async () => {
    const adapter = fake({
      provider: "openai",
      scripts: [[{ type: "tool_call", name: "look", arguments: {} }], [say]],
      usage,
    });
    const look = tool({ name: "look", description: "Looks.", schema: { type: "object" }, handler: () => "seen" });
    const of = engine({ adapter, model: "gpt-6.1-sol", tools: [look] });
    const prepareStep = ({ step }: { readonly step: number }) => (step === 1 ? { model: "gpt-5.5" } : null);
    const options = { budgets: { cost: 1000 }, prepareStep };
    const result = await chat(of, "hi", options);
    expect(result).toMatchObject({ haltedReason: "completed" });
    expect(result.usage.totalCost).toBe(priceOf("gpt-6.1-sol") + priceOf("gpt-5.5"));
  });

  test("is used by resolveModel, also for the model of mergeOpts, which keeps its name", () => {
    const added = modelRef({ provider: "lab", id: "m", limits: { context: 7, output: null } });
    const of = engine({ adapter: fake({ provider: "lab" }), model: "m", catalog: catalog([added]) });
    expect(resolveModel(of, {})).toEqual(added);
    expect(resolveModel(of, { model: "openai:gpt-5.5" })).toMatchObject({ pricing: { input: priceOf("gpt-5.5") } });
    expect(mergeOpts(of, { model: "m" }).model).toBe("m");
    expect(resolveModel(mergeOpts({ ...of, model: null }, { model: "m" }), {})).toEqual(added);
    expect(resolveModel({ ...of, catalog: null }, {})).toBe("m");
    expect(resolveModel(of, { model: "unknown" })).toBe("unknown");
  });
});

test("a model is found by another name of its provider, which the reference keeps", () => {
  for (const [text, provider, id] of [
    ["google:gemini-3.5-flash", "google", "gemini-3.5-flash"],
    ["OpenAI:gpt-5.5", "OpenAI", "gpt-5.5"],
  ] as const) {
    const found = withCatalogData(text, "providers", builtIn);
    expect(found).toMatchObject({ provider, id, pricing: { input: expect.any(Number) } });
    expect(withCatalogData(modelRef({ provider, id }), null, builtIn)).toEqual(found);
  }
});
