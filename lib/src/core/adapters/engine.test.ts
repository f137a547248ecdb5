import { catalog, engine, fake, tool } from "everturn";
import { describe, expect, test } from "vitest";

import { presetNames } from "./model-name.ts";

describe("engine of a name", () => {
  test.each(["openai", "anthropic", "gemini", ...presetNames])("%s: builds the adapter of the provider", (provider) => {
    const built = engine(`${provider}:some-model:70b`, { instructions: "Be brief." });
    expect(built).toMatchObject({ adapter: { provider }, model: "some-model:70b", instructions: "Be brief." });
  });

  test("ignores letter case, and knows google", () => {
    expect(engine("OpenAI:gpt-6.1-sol").adapter?.provider).toBe("openai");
    expect(engine("google:gemini-3-pro").adapter?.provider).toBe("gemini");
  });

  test("passes the fields of an engine on, and refuses unknown ones", () => {
    const now = tool({ name: "now", description: "The time.", schema: { type: "object" }, handler: () => 0 });
    expect(engine("openai:gpt-6.1-sol", { tools: [now], catalog: catalog() }).tools).toEqual([now]);
    const misspelt: object = { tolos: [now] };
    expect(() => engine("openai:gpt-6.1-sol", misspelt)).toThrow(/no field "tolos"/);
  });

  test("a name alone, and fields alone", () => {
    expect(engine("anthropic:claude-sonnet-5").tools).toEqual([]);
    expect(engine().adapter).toBeNull();
  });

  test("refuses an adapter or a model beside the name", () => {
    const adapter: object = { adapter: fake({ script: [] }) };
    expect(() => engine("openai:gpt-6.1-sol", adapter)).toThrow(/names the adapter; leave out adapter/);
    const model: object = { model: "gpt-6.1-terra" };
    expect(() => engine("openai:gpt-6.1-sol", model)).toThrow(/names the model; leave out model/);
  });

  test("an unknown provider is refused with the choices", () => {
    expect(() => engine("opnai:gpt-6.1-sol")).toThrow(
      /there is no provider "opnai".*; the providers are openai, anthropic, gemini, ollama, .*together\./,
    );
    expect(() => engine("azure:gpt-6.1-sol")).toThrow(/"azure" with default options.*engine\(\{ adapter, model \}\)/);
    expect(() => engine("gpt-6.1-sol")).toThrow(/name the provider before the model.*the providers are openai/);
  });
});
