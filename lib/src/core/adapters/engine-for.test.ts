import { catalog, engineFor, tool } from "everturn";
import { describe, expect, test } from "vitest";

import { presetNames } from "./model-name.ts";

describe("engineFor", () => {
  test.each(["openai", "anthropic", "gemini", ...presetNames])("%s: builds the adapter of the provider", (provider) => {
    const built = engineFor(`${provider}:some-model:70b`, { instructions: "Be brief." });
    expect(built).toMatchObject({ adapter: { provider }, model: "some-model:70b", instructions: "Be brief." });
  });

  test("ignores letter case, and knows google", () => {
    expect(engineFor("OpenAI:gpt-6.1-sol").adapter?.provider).toBe("openai");
    expect(engineFor("google:gemini-3-pro").adapter?.provider).toBe("gemini");
  });

  test("passes the fields of an engine on, and refuses unknown ones", () => {
    const now = tool({ name: "now", description: "The time.", schema: { type: "object" }, handler: () => 0 });
    expect(engineFor("openai:gpt-6.1-sol", { tools: [now], catalog: catalog() }).tools).toEqual([now]);
    const misspelt: object = { tolos: [now] };
    expect(() => engineFor("openai:gpt-6.1-sol", misspelt)).toThrow(/no field "tolos"/);
  });

  test("an unknown provider is refused with the choices", () => {
    expect(() => engineFor("opnai:gpt-6.1-sol")).toThrow(
      /there is no provider "opnai".*; the providers are openai, anthropic, gemini, ollama, .*together\./,
    );
    expect(() => engineFor("azure:gpt-6.1-sol")).toThrow(
      /"azure" with default options.*engine\(\{ adapter, model \}\)/,
    );
    expect(() => engineFor("gpt-6.1-sol")).toThrow(/name the provider before the model.*the providers are openai/);
  });
});
